"""Retrofits as arms of a comparison: which conversion heals best on the same tokens?

    request = retrofit_request("smollm2", variants=("tied-kv", "window:256"), seeds=4, steps=500)
    compare(request)

The model is converted once for each arm, before anything is planned. Each arm then is a run that starts from its
converted model and is finetuned; softmax stands for the original as it is. Everything else is as in any comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlab.corpora import CorpusSpec
from attnlab.errors import SpecError, UnknownNameError
from attnlab.experiments.planning.budgets import bare_parameters
from attnlab.experiments.request import Request
from attnlab.lens.subjects import Subject, open_subject
from attnlab.models import size as size_by_name
from attnlab.retrofit import request_of, retrofit
from attnlab.retrofit.healing.plan import HealingPlan
from attnlab.runs.ledger import DEFAULT_ROOT
from attnlab.training import RECIPES, treatment
from attnlab.training.starting import Start

_TEXTS = 8  # that the cost of conversion is measured on; the arms are judged by what healing makes of them
_RECIPE = "gpt2"  # whose optimizer and schedule are those of healing


def retrofit_request(
    model: str | Path | Subject,
    *,
    variants: tuple[str, ...],
    text: str | None = None,
    out: Path = Path(DEFAULT_ROOT),
    cache: Path | None = None,
    tell: Callable[[str], None] = lambda _: None,
    threads: int | None = None,
    variants_from: Path | None = None,
    **fields: Any,
) -> Request:
    """Convert a model to every variant, and return the request that compares what finetuning makes of them.

    Parameters
    ----------
    model
        A run or a pretrained model.
    variants
        The arms. One that names no variant of attention, such as learning_rate=1e-4, is the original.
    text
        The text; None for that of the run, or Python's documentation.
    out
        The folder that holds retrofits and comparisons.
    cache
        The folder that keeps corpora; None uses the default.
    tell
        Told what is under way.
    threads
        Threads of the conversion.
    variants_from
        A Python file that adds variants.
    fields
        Other fields of a `Request`.
    """
    subject = open_subject(model)
    names = (fields.get("baseline", "softmax"), *variants)
    attention = {name: str(treatment(name).changes.get("variant", "softmax")) for name in names}
    starts = {}
    for one in dict.fromkeys(attention.values()):  # each in a folder of its own, which other comparisons share
        asked = request_of(variants=(one,), text=text, texts=_TEXTS)
        found = retrofit(subject, asked, out=out, cache=cache, tell=tell, threads=threads, workers=1)
        starts[one] = Start.of(found.variants[0].converted)
    length = None if subject.model.spec.learns_positions else asked.text_length(subject.model.spec)
    recipe, steps = fields.pop("recipe", _RECIPE), fields.pop("steps", None) or RECIPES[_RECIPE].steps
    changes = _changes(tuple(fields.pop("changes", ())), recipe, steps, length)
    return Request.with_variants_of(
        variants_from,
        **{**fields, **_text_fields(subject, text, starts[attention[names[0]]])},
        variants=variants,
        size=_size(subject),
        recipe=recipe,
        steps=steps,
        changes=changes,
        starts={name: starts[one].model_dump(mode="json") for name, one in attention.items()},
    )


def _text_fields(subject: Subject, text: str | None, start: Start) -> dict[str, Any]:
    """Return the fields of a request that name the text, in the tokens of the model."""
    if text is not None or subject.run is None:
        return {"corpus": text or CorpusSpec().name, "tokenizer": f"run:{start.run}"}
    path, loaded = subject.run
    spec = CorpusSpec(**loaded.record["spec"]["corpus"])
    usual = CorpusSpec()
    if (spec.seed, spec.validation_share) != (usual.seed, usual.validation_share):
        raise SpecError(
            f"{path} was trained on a text with a seed or a validation share of its own, which no comparison has",
            hint="name a text to heal on, by `corpus=FILE`",
        )
    return {
        "corpus": spec.name,
        "corpus_options": spec.options,
        "tokenizer": spec.tokenizer,
        "vocabulary_size": spec.vocabulary_size,
    }


def _size(subject: Subject) -> str:
    """Return the size that a run names, or the count of non-embedding parameters."""
    named = None if subject.run is None else subject.run[1].record["spec"].get("size")
    try:
        size_by_name(str(named))
    except (SpecError, UnknownNameError):
        return f"{bare_parameters(subject.model.spec) / 1000:.4g}k"
    return str(named)


def _changes(given: tuple[str, ...], recipe: str, steps: int, length: int | None) -> tuple[str, ...]:
    """Return the changes of all arms: batches and rates of healing, unless others are given."""
    healing, known = HealingPlan(), {name for one in given for name in treatment(one).changes}
    usual: dict[str, object] = {} if length is None else {"context_length": length}
    usual["batch_size"] = healing.batch_size
    if recipe == _RECIPE:
        usual |= {"learning_rate": healing.learning_rate, "warmup_steps": healing.warmup_steps(steps)}
    return (*given, *(f"{name}={value}" for name, value in usual.items() if name not in known))
