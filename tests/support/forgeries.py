"""A tiny comparison that was trained, and the ways in which someone may forge it.

A forger who signs again makes all hashes, figures and pages of what was changed anew, so that everything is consistent.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlab.experiments.comparing import compare, read_comparison
from attnlab.experiments.reporting.exports import conclude
from attnlab.runs.checkpoints import digest
from attnlab.runs.receipts import read_state, state_hashes, state_path
from attnlab.runs.verification import seal
from attnlab.storage.files import hash_file
from attnlab.storage.plans import plan_hash
from attnlab.storage.records import content_hash
from attnlab.storage.tensors import read_tensors, write_tensors
from support.requests import InProcess, small

STEPS = 16
Forgery = Callable[[Path, random.Random], None]


def make_comparison(folder: Path) -> Path:
    """Train two arms with two seeds, and conclude; the folder `cache` lies beside."""
    cache = folder / "cache"
    found = compare(small(steps=STEPS, seeds=2), out=folder / "runs", on=InProcess(cache), cache=cache)
    conclude(found)
    return found.path


def runs_of(folder: Path) -> list[Path]:
    return sorted((folder / "runs").iterdir())


def edit(path: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def edit_line(path: Path, number: int, change: Callable[[Any], None]) -> None:
    lines = path.read_text().splitlines()
    entry = json.loads(lines[number])
    change(entry)
    lines[number] = json.dumps(entry)
    path.write_text("\n".join(lines) + "\n")


def sign_run(run: Path) -> None:
    """Make all hashes of a run anew, and its result fit its weights."""
    weights = digest(read_tensors(run / "model.safetensors"))
    edit(run / "result.json", lambda result: result.update(weights_sha256=weights))
    record = json.loads((run / "run.json").read_text())
    del record["sha256"]
    (run / "run.json").write_text(json.dumps(seal(record)))
    metrics = [(json.loads(line)["step"], line) for line in (run / "metrics.jsonl").read_bytes().splitlines(True)]
    lines, previous, done = [], "", -1
    for line in (run / "receipts.jsonl").read_text().splitlines():
        link = json.loads(line)
        del link["sha256"]
        link["previous"] = previous
        if "record" in link:
            link["record"] = content_hash(record)
            link["tokenizer"] = hash_file(run / "tokenizer.json")
        if "metrics" in link:
            covered = b"".join(text for step, text in metrics if done < step <= link["step"])
            link["metrics"], done = hashlib.sha256(covered).hexdigest(), link["step"]
        if "result" in link:
            link["result"] = content_hash(json.loads((run / "result.json").read_text()))
        if link["step"] == STEPS and "weights" in link:
            link["weights"] = weights
        elif "weights" in link and state_path(run, link["step"]).exists():
            link |= state_hashes(read_state(run, link["step"]))
        previous = content_hash(link)
        lines.append(json.dumps({**link, "sha256": previous}))
    (run / "receipts.jsonl").write_text("\n".join(lines) + "\n")


def sign(folder: Path) -> None:
    """Make everything that follows from the runs anew: receipt, figures, report."""
    for run in runs_of(folder):
        sign_run(run)
    conclude(read_comparison(folder, cache=folder.parents[1] / "cache"))


def signed(forge: Forgery) -> Forgery:
    """The same forgery by someone who then signs again."""

    def apply(folder: Path, chosen: random.Random) -> None:
        forge(folder, chosen)
        sign(folder)

    return apply


# What touches recorded data


def any_run(folder: Path, chosen: random.Random) -> Path:
    return chosen.choice(runs_of(folder))


def change_weight(folder: Path, chosen: random.Random) -> None:
    path = any_run(folder, chosen) / "model.safetensors"
    weights = read_tensors(path)
    tensor = weights[chosen.choice(sorted(weights))].view(-1)
    tensor[chosen.randrange(len(tensor))] += chosen.choice([1e-6, 0.1, 1.0])
    write_tensors(path, weights)


def cut_weights(folder: Path, chosen: random.Random) -> None:
    path = any_run(folder, chosen) / "model.safetensors"
    data = path.read_bytes()
    kept = chosen.randrange(len(data))
    path.write_bytes(data[:kept] + bytes(len(data) - kept) if data[kept:].strip(b"\0") else data[:-1])


def change_loss(folder: Path, chosen: random.Random) -> None:
    path = any_run(folder, chosen) / "metrics.jsonl"
    name = chosen.choice(["loss", "gradient_norm"])
    edit_line(path, chosen.randrange(STEPS), lambda entry: entry.update({name: entry[name] * 0.999}))


def change_final_loss(folder: Path, chosen: random.Random) -> None:
    run = any_run(folder, chosen)
    edit(run / "result.json", lambda result: result.update(validation_loss=result["validation_loss"] - 0.01))


def lower_final_loss(folder: Path, chosen: random.Random) -> None:
    """Lower the final loss everywhere that it is recorded."""
    run, by = any_run(folder, chosen), chosen.choice([1e-3, 0.05])
    lower = lambda entry: entry.update(validation_loss=entry["validation_loss"] - by)  # noqa: E731
    edit(run / "result.json", lower)
    edit_line(run / "metrics.jsonl", -1, lower)


def change_time(folder: Path, chosen: random.Random) -> None:
    edit(any_run(folder, chosen) / "result.json", lambda result: result.update(seconds=result["seconds"] / 2))


def change_seed(folder: Path, chosen: random.Random) -> None:
    edit(any_run(folder, chosen) / "run.json", lambda record: record["spec"].update(seed=7))


def change_order(folder: Path, chosen: random.Random) -> None:
    """Let the run claim another order of the data, and other initial weights."""
    edit(any_run(folder, chosen) / "run.json", lambda record: record["resolved"].update(seed=chosen.randrange(9, 99)))


def change_rate(folder: Path, chosen: random.Random) -> None:
    rate = lambda record: record["resolved"]["optimizer"].update(learning_rate=0.5)  # noqa: E731
    edit(any_run(folder, chosen) / "run.json", rate)


def swap_corpus(folder: Path, chosen: random.Random) -> None:
    edit(any_run(folder, chosen) / "run.json", lambda record: record["corpus"].update(hash="0" * 64))


def claim_machine(folder: Path, chosen: random.Random) -> None:
    edit(any_run(folder, chosen) / "run.json", lambda record: record["versions"].update(torch="9.9"))


def drop_run(folder: Path, chosen: random.Random) -> None:
    shutil.rmtree(any_run(folder, chosen))


def drop_seed(folder: Path, chosen: random.Random) -> None:
    del chosen
    edit(folder / "looks.json", lambda log: log["looks"][0].update(seeds=[0]))


def edit_plan(folder: Path, chosen: random.Random) -> None:
    edit(folder / "plan.json", lambda record: record["plan"]["request"].update(margin=chosen.choice([0.01, 0.2])))


def resigned_plan(folder: Path, chosen: random.Random) -> None:
    """Change how it is judged, and hash the plan again."""

    def change(record: Any) -> None:
        record["plan"]["procedure"]["alpha" if chosen.random() < 0.5 else "margin"] = 0.3
        record["sha256"] = plan_hash(record["plan"])

    edit(folder / "plan.json", change)


def change_verdict(folder: Path, chosen: random.Random) -> None:
    verdict = chosen.choice(["better", "worse", "equivalent"])
    edit(folder / "answer.json", lambda record: record["answer"]["data"]["verdicts"][0].update(verdict=verdict))


def change_figure(folder: Path, chosen: random.Random) -> None:
    name = chosen.choice(["mean", "low", "high", "p", "p_holm"])

    def change(record: Any) -> None:
        found = record["answer"]["data"]["verdicts"][0]
        found[name] = found[name] * 1.001 + 1e-4

    edit(folder / "answer.json", change)


def change_look(folder: Path, chosen: random.Random) -> None:
    del chosen
    edit(folder / "looks.json", lambda log: log["looks"][0]["verdicts"].update({"tied-kv": "better"}))


def change_report(folder: Path, chosen: random.Random) -> None:
    path = folder / "report.html"
    word = chosen.choice(["softmax", "seed", "nats"])
    path.write_text(path.read_text().replace(word, word.upper(), 1))


def change_table(folder: Path, chosen: random.Random) -> None:
    del chosen
    path = folder / "runs.csv"
    path.write_text(path.read_text().replace("finished", "diverged", 1))


def change_measure(folder: Path, chosen: random.Random) -> None:
    path = any_run(folder, chosen) / "measures.json"

    def change(record: Any) -> None:
        record["measures"]["entropy"] = 0.1
        record["sha256"] = content_hash({name: value for name, value in record.items() if name != "sha256"})

    edit(path, change)


def cut_log(folder: Path, chosen: random.Random) -> None:
    path = any_run(folder, chosen) / "metrics.jsonl"
    lines = path.read_bytes().splitlines(True)
    path.write_bytes(b"".join(lines[: chosen.randrange(1, STEPS)]))


def change_tokenizer(folder: Path, chosen: random.Random) -> None:
    path = any_run(folder, chosen) / "tokenizer.json"
    path.write_text(path.read_text() + "\n")


def change_state(folder: Path, chosen: random.Random) -> None:
    path = chosen.choice(sorted((any_run(folder, chosen) / "states").iterdir()))
    state = read_tensors(path)
    state[chosen.choice(sorted(state))].view(-1)[0] += 1
    write_tensors(path, state)


def cut_receipts(folder: Path, chosen: random.Random) -> None:
    path = any_run(folder, chosen) / "receipts.jsonl"
    lines = path.read_text().splitlines(True)
    del lines[chosen.randrange(len(lines))]
    path.write_text("".join(lines))


def change_receipt(folder: Path, chosen: random.Random) -> None:
    edit(folder / "receipt.json", lambda receipt: receipt["runs"].update({any_run(folder, chosen).name: "0" * 64}))


def add_to_receipt(folder: Path, chosen: random.Random) -> None:
    del chosen
    edit(folder / "receipt.json", lambda receipt: receipt["files"].update(surplus=None))


def garble_measures(folder: Path, chosen: random.Random) -> None:
    """Damage what was measured of a run, which commands other than `verify` measure again."""
    (any_run(folder, chosen) / "heads.json").write_text("[]")


def swap_weights(folder: Path, chosen: random.Random) -> None:
    """Pass off the weights of one seed as those of another."""
    first, second, *_ = runs_of(folder)
    del chosen
    shutil.copy(first / "model.safetensors", second / "model.safetensors")


RECORDED: dict[str, Forgery] = {
    forge.__name__: forge
    for forge in (
        change_weight,
        cut_weights,
        change_loss,
        change_final_loss,
        lower_final_loss,
        change_time,
        change_seed,
        change_order,
        change_rate,
        swap_corpus,
        claim_machine,
        drop_run,
        drop_seed,
        edit_plan,
        resigned_plan,
        change_verdict,
        change_figure,
        change_look,
        change_report,
        change_table,
        change_measure,
        cut_log,
        change_tokenizer,
        change_state,
        cut_receipts,
        change_receipt,
        add_to_receipt,
        garble_measures,
    )
} | {
    f"{forge.__name__}, signed again": signed(forge)
    for forge in (lower_final_loss, change_rate, change_order, swap_weights, claim_machine, resigned_plan)
}


# What is consistent in itself, and was never trained


def invent_losses(folder: Path, segments: int, chosen: random.Random) -> None:
    """Improve the training loss in so many of all segments, each of one step, and sign again."""
    places = [(run, step) for run in runs_of(folder) for step in range(STEPS)]
    for run, step in chosen.sample(places, segments):
        edit_line(run / "metrics.jsonl", step, lambda entry: entry.update(loss=entry["loss"] - 0.01))
    sign(folder)
