"""The forward pass of a text through a model: attention matrices, the residual stream, and likely next tokens.

The normaliser of a trained model can be replaced, and its values replaced by its keys, to see the effect on attention
and predictions. A small model for the tour is trained on the fly.
"""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlab.attention import AttentionSpec, MultiHeadAttention, equations
from attnlab.attention.blackboard import follow
from attnlab.attention.layers.own import NO_MAPS
from attnlab.attention.parts.normalisers import Normaliser
from attnlab.errors import AttnlabError, InputError, SpecError, UnsupportedError
from attnlab.lens import evaluating
from attnlab.lens.pages.look_page import printable
from attnlab.lens.subjects import Subject, shape_words
from attnlab.models import LanguageModel
from attnlab.models.generation import Sampling, candidates
from attnlab.models.taps import tap_names
from attnlab.processes.child import report_progress
from attnlab.runs.ledger import run_id
from attnlab.storage.records import to_plain
from attnlab.studio.folders import opaque_id
from attnlab.studio.work.runs import TOUR, opened
from attnlab.training import RunSpec, train
from attnlab.training.progress import Silent

MOST_TOKENS = 64
_STEPS = 65_535  # quantisation steps of a weight, between the smallest and the largest of its head
_NEXT = 10  # likely next tokens that are shown
_MOST_LENS = 4e9  # operations of the logit lens at every token; above, it is applied to the last token only
_AS_TRAINED = ""
_TOUR: Mapping[str, Any] = {
    "recipe": "fast",
    "size": "pico",
    "corpus": {"name": "kinship", "tokenizer": "word"},
    "num_layers": 3,
    "context_length": 48,
    "num_heads": 4,
    "model_width": 64,
    "batch_size": 16,
    "validation_rows": 32,
}
_TOUR_STEPS = 300


def flow(
    runs: str,
    name: str,
    text: str = "",
    ids: Sequence[int] | None = None,
    *,
    most: int = MOST_TOKENS,
    normaliser: str = _AS_TRAINED,
    shared: bool = False,
    temperature: float = 1.0,
    top_k: int = 0,
    seed: int = 0,
) -> dict[str, object]:
    """Return everything that the page shows of the forward pass of a text.

    `ids` are tokens to use in place of a text. `normaliser` and `shared` change the trained model; `temperature`,
    `top_k` and `seed` set how the next token is sampled.
    """
    subject = opened(runs, name)
    tokens, notes = _tokens(subject, text, ids, min(most, subject.model.spec.context_length))
    model = _changed(runs, name, normaliser, shared)
    sampling = Sampling(temperature=temperature, top_k=top_k or None, seed=seed)
    seen = _pass(model, tokens)
    before = seen if model is subject.model else _pass(subject.model, tokens)
    tokenizer = subject.known_tokenizer()
    return {
        "title": subject.title,
        "model": shape_words(model),
        "tokens": printable(tokenizer, tokens),
        "ids": tokens,
        "layers": [_layer(model, number, seen) for number in range(model.spec.num_layers)],
        "stream": _stream(model, seen, subject),
        "next": _next(seen["logits"][0, -1], before["logits"][0, -1], sampling, subject),
        "drawn": _drawn(seen["logits"][0, -1], sampling),
        "normalisers": exchangeable(subject.model),
        "shareable": _shareable(subject.model),
        "notes": [*subject.notes, *notes],
    }


def _tokens(
    subject: Subject, text: str, ids: Sequence[int] | None, room: int
) -> tuple[list[int], list[str]]:  # and notes
    found = list(subject.known_tokenizer().encode(text) if ids is None else ids)
    if not found:
        raise InputError("the text is empty: there is nothing to look at", hint="give a few words")
    if any(not 0 <= one < subject.model.spec.vocabulary_size for one in found):
        raise InputError("a token is not in the model's vocabulary", hint="type the text again")
    if len(found) <= room:
        return found, []
    return found[-room:], [f"The text has {len(found)} tokens; the last {room} are shown."]


def _pass(model: LanguageModel, ids: Sequence[int]) -> Mapping[str, Tensor]:
    """Return what a model computes for one text, by the names of its taps."""
    if model.spec.family != "decoder":
        raise UnsupportedError(
            f"a model of the family {model.spec.family} does not continue a text", hint="choose a decoder"
        )
    endings = ("attention.weights", "attention.in", "residual")
    names = [name for name in tap_names(model) if name == "logits" or name.endswith(endings)]
    with evaluating(model), torch.no_grad(), model.tap(*names) as seen:
        model(torch.tensor(ids)[None])
    return seen


def _layer(model: LanguageModel, number: int, seen: Mapping[str, Tensor]) -> dict[str, object]:
    """Return the maps of a layer, as whole numbers between the smallest and the largest weight of each head."""
    name = f"blocks.{number}.attention.weights"
    if name not in seen:
        return {"heads": 0, "absence": f"{model.spec.attention[number].operator or NO_MAPS} has no map"}
    maps = seen[name][0].double().nan_to_num()
    low, high = maps.amin((1, 2)).clamp(max=0), maps.amax((1, 2))
    width = (high - low).clamp(min=1e-12)
    whole = ((maps - low[:, None, None]) / width[:, None, None] * _STEPS).round()
    packed = whole.to(torch.int32).numpy().astype("<u2").tobytes()
    return {
        "heads": len(maps),
        "low": low.tolist(),
        "high": high.tolist(),
        "data": base64.b64encode(packed).decode(),
        "absence": "",
    }


def _stream(model: LanguageModel, seen: Mapping[str, Tensor], subject: Subject) -> dict[str, object]:
    """Return the length of the residual stream behind every part, and which token would follow it at once."""
    names = {"residual": "embedding"}
    for number in range(model.spec.num_layers):
        names |= {
            f"blocks.{number}.attention.residual": f"attention {number}",
            f"blocks.{number}.residual": f"MLP {number}",
        }
    stacked = torch.stack([seen[name][0] for name in names])  # (rows, tokens, width)
    rows, tokens, width = stacked.shape
    work = 2.0 * rows * tokens * width * model.spec.vocabulary_size
    asked = stacked if work <= _MOST_LENS else stacked[:, -1:]
    with torch.no_grad():
        likely, best = (model.stack.norm(asked) @ model.head_weight.T).softmax(-1).max(-1)
    flat = printable(subject.known_tokenizer(), best.flatten().tolist())
    says = [flat[row * asked.shape[1] : (row + 1) * asked.shape[1]] for row in range(rows)]
    missing = tokens - asked.shape[1]
    return {
        "rows": list(names.values()),
        "norms": to_plain(stacked.norm(dim=-1).tolist(), digits=4),
        "says": [[""] * missing + list(row) for row in says],
        "chances": [[0.0] * missing + row for row in to_plain(likely.tolist(), digits=4)],
    }


def _next(logits: Tensor, before: Tensor, sampling: Sampling, subject: Subject) -> list[dict[str, object]]:
    """Return the likeliest next tokens, with their chances in the model as it was trained."""
    after, trained = (_chances(one, sampling) for one in (logits, before))
    most = torch.maximum(after, trained).topk(min(_NEXT, len(after))).indices
    order = sorted(most.tolist(), key=lambda one: -float(after[one]))
    names = printable(subject.known_tokenizer(), order)
    return [
        {"id": one, "token": token, "before": float(trained[one]), "after": float(after[one])}
        for one, token in zip(order, names, strict=True)
    ]


def _chances(logits: Tensor, sampling: Sampling) -> Tensor:
    """Return the probability of every token, once temperature and top-k have acted."""
    if sampling.temperature < 1e-4:
        return torch.zeros_like(logits).index_fill(0, logits.argmax()[None], 1.0)
    chances, tokens = candidates(logits[None], sampling)
    if tokens is None:
        return chances[0]
    return torch.zeros_like(logits).scatter(0, tokens[0], chances[0].to(logits.dtype))


def _drawn(logits: Tensor, sampling: Sampling) -> int:
    generator = torch.Generator().manual_seed(sampling.seed)
    return int(torch.multinomial(_chances(logits, sampling).float(), 1, generator=generator))


# Changes to a trained model


def exchangeable(model: LanguageModel) -> list[str]:
    """Return the normalisers that every layer of a model could have with the parameters that it has."""
    specs = set(model.spec.attention)
    return [kind for kind in Normaliser.kinds() if all(_with_normaliser(spec, kind) is not None for spec in specs)]


def _with_normaliser(spec: AttentionSpec, kind: str) -> AttentionSpec | None:
    if spec.layer is not None or spec.operator is not None:
        return None
    try:
        made = spec.replace(normaliser=kind)
    except SpecError:
        return None
    same = made.parameters.keys() == spec.parameters.keys() and made.projections.keys() == spec.projections.keys()
    return made if same and made.has_map and made.normaliser.maps == 1 else None


def _shareable(model: LanguageModel) -> bool:
    """Return whether keys can take the place of values in every layer."""
    return all(
        isinstance(block.attention, MultiHeadAttention)
        and {"key", "value"} <= set(block.attention.projections)
        and spec.key_width == spec.value_width
        for block, spec in zip(model.stack.blocks, model.spec.attention, strict=True)
    )


def _changed(runs: str, name: str, normaliser: str, shared: bool) -> LanguageModel:
    subject = opened(runs, name)
    if normaliser == _AS_TRAINED and not shared:
        return subject.model
    return _change(subject.model, normaliser, shared)


@lru_cache(maxsize=2)
def _change(model: LanguageModel, normaliser: str, shared: bool) -> LanguageModel:
    """Return a copy with another normaliser in all layers, and with values that are projected as the keys are."""
    if normaliser and normaliser not in exchangeable(model):
        raise UnsupportedError(f"{normaliser} cannot be put into this model", hint="choose another normaliser")
    if shared and not _shareable(model):
        raise UnsupportedError("keys and values of this model differ in shape", hint="choose another model")
    changed = copy.deepcopy(model)
    for block in changed.stack.blocks:
        layer: Any = block.attention
        if normaliser:
            layer.spec = layer.spec.replace(normaliser=normaliser)
        if shared:
            layer.projections["value"].load_state_dict(layer.projections["key"].state_dict())
    return changed


# One number


def explain(
    runs: str,
    name: str,
    ids: Sequence[int],
    layer: int,
    head: int,
    query: int,
    *,
    normaliser: str = _AS_TRAINED,
    shared: bool = False,
) -> dict[str, object]:
    """Return the equations of a layer, and every number on the way to the output of one query in one head."""
    model = _changed(runs, name, normaliser, shared)
    if not 0 <= layer < model.spec.num_layers or not 0 <= query < len(ids):
        raise InputError("there is no such layer or token", hint="choose a cell of a map")
    block: Any = model.stack.blocks[layer]
    if not isinstance(block.attention, MultiHeadAttention):
        raise UnsupportedError(f"layer {layer}: {NO_MAPS}", hint="choose another layer")
    x = _pass(model, ids)[f"blocks.{layer}.attention.in"][0]
    with torch.no_grad():
        steps = follow(block.attention, x)
    spec = block.attention.spec
    group = spec.group_size
    if not 0 <= head < spec.num_heads:
        raise InputError(f"there is no head {head}", hint=f"the heads are 0 to {spec.num_heads - 1}")

    def numbers(tensor: Tensor | None, *places: int) -> Any:
        return None if tensor is None else to_plain(tensor[places].tolist(), digits=6)

    return {
        "equations": equations(spec)[:-1],
        "query": numbers(steps.query, head, query),
        "keys": numbers(steps.key, head // group),
        "values": numbers(steps.value, head // group),
        "scores": numbers(steps.scores, head, query),
        "weights": numbers(steps.weights, head, query),
        "visible": steps.visible[query].tolist(),
        "output": numbers(steps.output, head, query),
        "scaled": spec.score.kind == "scaled-dot",
        "softmax": spec.normaliser.kind == "softmax",
    }


# The model of the tour


def train_tour(runs: str, steps: int = _TOUR_STEPS) -> dict[str, object]:
    """Train a small model on generated sentences, or find the one that was trained before."""
    root = Path(runs)
    result = train(RunSpec(**_TOUR, steps=steps), root / TOUR, reporter=_TourReporter(steps), threads=1, workers=1)
    if result.outcome != "finished":
        raise AttnlabError(f"the model of the tour {result.outcome}", hint="try again")
    return {"name": opaque_id(run_id(result.path, root))}


class _TourReporter(Silent):
    """Reports the progress of training the model of the tour."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    def step(self, done: int, loss: float) -> None:
        del loss
        report_progress("training the model of the tour", done, self._steps)
