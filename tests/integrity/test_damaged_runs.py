"""A run whose files were changed or deleted after they were written is refused by every command that reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from attnlab.cli import main
from attnlab.runs import RunDirectory
from support.runs import change_record

COMMANDS = {
    "train": lambda run: ["train", str(run), "--quiet"],
    "generate": lambda run: ["generate", str(run), "a", "--tokens", "1"],
    "look": lambda run: ["look", str(run), "--out", "page.html"],
}


def zero_the_end(run: Path) -> None:
    data = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").write_bytes(data[:-200] + bytes(200))


def delete_weights(run: Path) -> None:
    (run / "model.safetensors").unlink()


def delete_weights_and_checkpoints(run: Path) -> None:
    delete_weights(run)
    for path in (run / "checkpoints").glob("*/*"):
        path.unlink()


def change_tokenizer(run: Path) -> None:
    text = json.loads((run / "tokenizer.json").read_text())["tokenizer"]
    (run / "tokenizer.json").write_text(json.dumps({"tokenizer": text.replace("a", "q", 1)}))


def change_learning_rate(run: Path) -> None:
    text = (run / "run.json").read_text()
    assert '"learning_rate": 0.001' in text
    (run / "run.json").write_text(text.replace('"learning_rate": 0.001', '"learning_rate": 0.1'))


def change_steps_to_text(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**result, "steps": "x"}))


def delete_key(name: str, key: str) -> Callable[[Path], None]:
    def apply(run: Path) -> None:
        content = json.loads((run / name).read_text())
        del content[key]
        (run / name).write_text(json.dumps(content))

    return apply


def change_loss(run: Path) -> None:
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**result, "validation_loss": 1.0}))


def delete_hash_and_receipt(run: Path) -> None:
    delete_key("result.json", "weights_sha256")(run)
    *lines, _ = (run / "receipts.jsonl").read_bytes().splitlines(keepends=True)
    (run / "receipts.jsonl").write_bytes(b"".join(lines))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (zero_the_end, "model.safetensors was changed after the run finished"),
        (delete_weights, "final weights are missing"),
        (delete_weights_and_checkpoints, "final weights are missing"),
        (change_tokenizer, "tokenizer.json was changed after the run began"),
        (change_learning_rate, "run.json was changed after the run began"),
        (change_steps_to_text, "result.json is damaged: steps is 'x'"),
        (delete_key("run.json", "sha256"), "its hash is missing, although the run has receipts"),
        (change_loss, "result.json was changed after the run ended"),
        (delete_key("result.json", "outcome"), "result.json was changed after the run ended"),
        (delete_hash_and_receipt, "the hash of the weights is missing, although the run has"),
    ],
)
def test_damage_is_refused(
    command: str, damage: Callable[[Path], None], said: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(run)
    assert main(COMMANDS[command](run)) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert "hint:" in captured.err
    assert captured.out == ""
    assert not Path("page.html").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_whole_run_is_accepted(command: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(COMMANDS[command](run)) == 0
    assert "error" not in capsys.readouterr().err


def test_a_run_without_hashes_is_read(run: Path) -> None:
    """As an older attnlab wrote it, which wrote no receipts either."""
    record, result = RunDirectory.open(run).record, json.loads((run / "result.json").read_text())
    del record["corpus"]["tokenizer_sha256"], result["weights_sha256"]
    (run / "run.json").write_text(json.dumps(record))
    (run / "result.json").write_text(json.dumps(result))
    (run / "receipts.jsonl").unlink()
    for command in COMMANDS.values():
        assert main(command(run)) == 0


def test_a_resumed_run_writes_its_tokenizer_again(run: Path) -> None:
    before = (run / "tokenizer.json").read_bytes()
    (run / "result.json").unlink()
    change_tokenizer(run)
    assert main(["train", str(run), "--quiet"]) == 0
    assert (run / "tokenizer.json").read_bytes() == before
    assert main(COMMANDS["generate"](run)) == 0


def test_changed_values_do_not_train_under_the_old_name(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "result.json").unlink()
    change_learning_rate(run)
    assert main(["train", str(run), "--quiet"]) == 2
    assert "run.json was changed" in capsys.readouterr().err
    assert not (run / "result.json").exists()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("steps", -4, "steps of a resolved run is -4: input should be greater than 0"),
        ("model", {}, "a model spec needs 'vocabulary_size'"),
        ("seed", "x", "seed of a resolved run is 'x'"),
    ],
)
def test_values_that_cannot_be_are_one_sentence(
    name: str, value: object, said: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not a listing of pydantic with an address."""
    change_record(run, resolved={**RunDirectory.open(run).record["resolved"], name: value})
    assert main(["generate", str(run), "a"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "pydantic" not in error
    assert "http" not in error
    assert error.count("hint:") == 1


def test_weights_of_another_model_are_one_sentence(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not a list of PyTorch's keys."""
    resolved = RunDirectory.open(run).record["resolved"]
    resolved["model"]["vocabulary_size"] += 1
    change_record(run, resolved=resolved)
    assert main(["generate", str(run), "a"]) == 2
    error = capsys.readouterr().err
    assert "state_dict" not in error
    assert "instead of (" in error
