"""What is looked at: a run, a GPT-2 folder of Transformers, or a model that somebody has."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from attnlab.corpora import Gpt2Tokenizer, Tokenizer
from attnlab.errors import FileError, InputError
from attnlab.models import LanguageModel, load_gpt2
from attnlab.runs import RunDirectory
from attnlab.training import LoadedRun, load_run


@dataclass
class Subject:
    """A model to look at, with what is known of it."""

    model: LanguageModel
    tokenizer: Tokenizer | None
    title: str = "a model"
    facts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    run: tuple[Path, LoadedRun] | None = None


def open_subject(
    subject: str | Path | LanguageModel, tokenizer: Tokenizer | None = None, step: int | None = None
) -> Subject:
    """The model that somebody names, or has, with its tokenizer."""
    if isinstance(subject, LanguageModel):
        return Subject(subject, tokenizer)
    path = Path(subject)
    if RunDirectory.exists(path):
        return _open_run(path, step)
    if (path / "config.json").is_file():
        if step is not None:
            raise InputError(f"{path} is a GPT-2 folder and has no step {step}", hint="leave the step out")
        return Subject(load_gpt2(path), tokenizer or Gpt2Tokenizer.from_folder(path), path.resolve().name)
    raise FileError(
        f"{path} is neither a run nor a GPT-2 folder" if path.exists() else f"there is no run or folder {path}",
        hint="`attnlab runs list` shows the runs; `attnlab train` makes one",
    )


def _open_run(path: Path, step: int | None) -> Subject:
    loaded, directory = load_run(path, step), RunDirectory.open(path)
    spec = loaded.record.get("spec", {})
    facts = {"variant": str(spec.get("variant", "")), "after": f"{loaded.step} of {loaded.resolved.steps} steps"}
    subject = Subject(loaded.model, loaded.tokenizer, path.resolve().name, facts, run=(path, loaded))
    if directory.status == "diverged":
        subject.notes.append(f"The run diverged. These are its weights after step {loaded.step}.")
    elif directory.status != "finished":
        subject.notes.append(f"The run is not finished. These are its weights after step {loaded.step}.")
    return subject


def shape_words(model: LanguageModel) -> str:
    spec = model.spec
    heads = sorted({one.num_heads for one in (*spec.attention, *spec.encoder_attention, *spec.cross_attention)})
    each = "–".join(map(str, dict.fromkeys((heads[0], heads[-1]))))
    return f"{spec.family}, {spec.num_layers} layers of {each} heads, width {spec.model_width}"
