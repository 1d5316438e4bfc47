"""Retrofits: time and memory in advance, the list of retrofits, progress, stopping one, and results."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from attnlab.attention import variants as known_variants
from attnlab.errors import AttnlabError, InputError
from attnlab.experiments.judging.retrofits import judged
from attnlab.formats import byte_count, clock_time, count, plural, signed
from attnlab.processes.machine import free_bytes
from attnlab.retrofit import request_of
from attnlab.retrofit.conversion.targets import target_layers
from attnlab.retrofit.folder import PAGE, PREFIX, REQUEST, RetrofitState, command_of, state_of
from attnlab.retrofit.folder import stop as stop_retrofit
from attnlab.retrofit.forecast import forecast
from attnlab.retrofit.reading import read_result
from attnlab.retrofit.result import RetrofitResult
from attnlab.retrofit.study import folder_of
from attnlab.runs.ledger import run_id
from attnlab.studio.folders import opaque_id
from attnlab.studio.retrofits.processes import LOG
from attnlab.studio.work.pages import drawn_parts
from attnlab.studio.work.runs import find_model, opened

_TEXTS = (".txt", ".md")
_TAIL = 4_000  # characters of a retrofit's output


def retrofit_form(runs: str) -> dict[str, object]:
    """Return what a form offers: variants by name, and texts in the folder of the runs."""
    root = Path(runs)
    texts = [path.name for path in sorted(root.iterdir()) if path.suffix in _TEXTS] if root.is_dir() else []
    return {
        "variants": [{"name": one.name, "meaning": one.meaning} for one in known_variants()],
        "texts": texts,
    }


def plan_retrofit(runs: str, name: str, fields: Mapping[str, Any]) -> dict[str, object]:
    """Return what a retrofit of a model would take, the folder that it lies in, and what it converts."""
    subject = opened(runs, name)
    request = request_of(**_with_text(runs, fields))
    spec = subject.model.spec
    for one in request.variants:
        target_layers(spec, one)  # raises here, not after the start
    length, layers = request.text_length(spec), request.chosen_layers(spec.num_layers)
    expected, healing, free = forecast(subject.model, request), request.healing, free_bytes()
    parameters = count(subject.model.num_parameters())
    rows = [
        ("model", f"{subject.title}: {plural(spec.num_layers, 'layer')}, {parameters} parameters"),
        ("convert", f"{', '.join(request.variants)}, {plural(len(layers), 'layer')} each"),
        ("texts", f"{request.texts} held-out texts of {length} tokens; layers are fitted on {request.fitting_texts}"),
        ("memory", f"about {byte_count(expected.memory)}" + ("" if free is None else f"; {byte_count(free)} are free")),
        ("time", f"about {clock_time(expected.converting)} to convert and to measure every layer"),
    ]
    if healing.tokens:
        each = f"{count(healing.tokens)} tokens in {healing.steps(length)} steps, {plural(healing.seeds, 'seed')}"
        rows[-1:] = [
            ("heal", f"{each}, by distillation and by finetuning, beside the original finetuned alike"),
            ("time", f"about {clock_time(expected.converting)} to convert, {clock_time(expected.healing)} to heal"),
        ]
    return {
        "rows": rows,
        "folder": folder_of(subject, request),
        "words": command_of(request, str(find_model(runs, name)), Path(runs)),
    }


def _with_text(runs: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with the text as a path; a visitor names files in the folder of the runs only."""
    name = fields.get("text")
    if name is None:
        return dict(fields)
    known = retrofit_form(runs)["texts"]
    assert isinstance(known, list)
    if name not in known:
        raise InputError(f"there is no text {name!r} here", hint="choose one from the list")
    return {**fields, "text": str(Path(runs).resolve() / name)}


def retrofits(runs: str) -> dict[str, object]:
    """Return every retrofit in the folder of the runs, the newest first; one that cannot be read says why."""
    root = Path(runs)
    found = [_summary_or_problem(path) for path in root.glob(f"{PREFIX}*/") if not path.is_symlink()]
    return {"retrofits": sorted(found, key=lambda one: str(one["made"]), reverse=True)}


def _summary_or_problem(folder: Path) -> dict[str, Any]:
    named: dict[str, Any] = {
        "name": opaque_id(folder.name),
        "folder": folder.name,
        "made": "",
        "setting": "",
        "answer": "",
    }
    named |= {"intervals": [], "margin": 0.01, "share": 0.0}
    try:
        if not (folder / REQUEST).is_file():  # started by the studio, but no request written yet
            return {**named, "title": folder.name, "status": "stopped"}
        return named | _summary(folder, state_of(folder))
    except (AttnlabError, OSError, ValueError, RecursionError) as error:
        reason = error.message if isinstance(error, AttnlabError) else f"{type(error).__name__}: {error}"
        return {**named, "title": folder.name, "status": "damaged", "answer": reason}


def _summary(folder: Path, state: RetrofitState) -> dict[str, Any]:
    request, made = state.request, datetime.fromtimestamp((folder / REQUEST).stat().st_mtime).astimezone()
    words = [f"{request.texts} texts"]
    words += [] if request.budget is None else [f"budget {request.budget:g} nats"]
    words += [] if request.layers == "all" else [f"layers {request.layers}"]
    if request.healing.tokens:
        words.append(f"healed with {count(request.healing.tokens)} tokens, {plural(request.healing.seeds, 'seed')}")
    found = {
        "title": f"{state.title} to {', '.join(request.variants)}",
        "status": state.status,
        "setting": " · ".join(words),
        "made": made.isoformat(timespec="seconds"),
        "share": state.share,
    }
    return found | _in_short(read_result(folder)) if state.status == "finished" else found


def _in_short(result: RetrofitResult) -> dict[str, Any]:
    """Return what a list says and draws of a result: the cost of every variant without training, and healed."""
    margin = math.log1p(result.request.healing.within)
    rows = []
    for one in result.variants:
        cost = one.all_layers
        verdict = "worse" if cost.low > margin else "equivalent" if -margin < cost.low <= cost.high < margin else ""
        rows.append({"arm": one.name, "verdict": verdict, **asdict(cost)})
    words = f"Without training: {_each({one.name: one.all_layers.mean for one in result.variants})} nats."
    ends = {
        one.name: min(found.mean for found in healed)
        for one in result.variants
        if result.control is not None
        and (healed := [end for method in one.healing if (end := method.difference(result.control)) is not None])
    }
    if ends:
        words += f" Healed, beside the original: {_each(ends)}."
    return {"answer": words, "intervals": rows, "margin": margin}


def _each(differences: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {signed(value)}" for name, value in differences.items())


def follow_retrofit(runs: str, name: str) -> dict[str, object]:
    """Return one retrofit as it is now; a finished one with its page and the runs of its models."""
    root = Path(runs)
    folder = _find(root, name)
    found = _summary_or_problem(folder) | {"log": _said(folder), "words": "", "done": ""}
    if found["status"] == "damaged" or not (folder / REQUEST).is_file():
        return found
    state = state_of(folder)
    done = [f"{state.converted} of {plural(len(state.request.variants), 'variant')} converted"]
    done.append(f"costs on {state.texts} of {plural(state.request.texts, 'text')}")
    runs_in_all = state.request.healing_runs
    done += [f"{state.healed} of {runs_in_all} runs healed"] if runs_in_all else []
    found |= {"words": state.words, "done": " · ".join(done)}
    if state.model is not None:
        found["words_to_resume"] = command_of(state.request, state.model, root)
    if state.status == "finished":
        result = judged(read_result(folder))
        found["page"] = drawn_parts(result.page())
        found["models"] = [
            {"variant": one.name, "run": opaque_id(run_id(_inside(folder, one.healed), root))}
            for one in result.variants
        ]
    return found


def _inside(folder: Path, recorded: Path) -> Path:
    """Return a run of a retrofit where its folder lies now."""
    return folder / recorded.parent.name / recorded.name


def stop_retrofitting(runs: str, name: str) -> dict[str, object]:
    """Have the process of a retrofit end."""
    stop_retrofit(_find(Path(runs), name))
    return {}


def retrofit_report(runs: str, name: str) -> dict[str, object]:
    """Return where the page of a retrofit lies."""
    path = _find(Path(runs), name) / PAGE
    if path.is_symlink() or not path.is_file():  # a link may point anywhere
        raise AttnlabError("this retrofit has no page yet", hint="resume it until it has finished")
    return {"path": str(path)}


def _find(root: Path, name: str) -> Path:
    for folder in root.glob(f"{PREFIX}*/"):
        if opaque_id(folder.name) == name and not folder.is_symlink():
            return folder
    raise AttnlabError("there is no such retrofit here", hint="the list of retrofits shows those there are")


def _said(folder: Path) -> str:
    """Return the last output of the process of a retrofit."""
    try:
        return (folder / LOG).read_text(encoding="utf-8", errors="replace")[-_TAIL:].strip()
    except OSError:
        return ""
