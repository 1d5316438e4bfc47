"""Where facts are stored: causal tracing, ablation, and which parts write the answer.

    clean       P(answer) of the prompt as it is
    corrupted   P(answer) with another subject
    restored    P(answer with another subject, but one part at some tokens as in the clean pass) − corrupted
    ablated     clean − P(answer with one part at some tokens replaced by its mean there over all facts)

Restoring shows which parts are sufficient for the answer, ablating which are necessary. A part is the output of an
attention layer, of an MLP, or of the whole block (residual); the tokens are the groups of `facts.GROUPS`.

The subject is replaced by another fact's name, with as many tokens and another answer, so that the text stays in
distribution (arXiv 2309.16042). With corruption="noise", normal noise is added to the embeddings of the subject's
tokens, of `noise` times the standard deviation of all embeddings (arXiv 2202.05262).

    found = trace(model, facts)
    found.table("mlp")                      (layers, groups), for a heat map
    found.found()                           the cells with a significant effect
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention.parts.values import FirstValues
from attnlab.attention.spec import first_value_layers
from attnlab.errors import InputError, UnknownNameError
from attnlab.lens.facts import GROUPS, Fact, Rows, batches_of
from attnlab.lens.heads.attribution import attribute
from attnlab.lens.taps import evaluating
from attnlab.models import LanguageModel
from attnlab.statistics import Interval, holm, mean_interval, paired_t
from attnlab.storage.records import to_plain

PARTS = ("attention", "mlp", "residual")
What = Literal["restored", "ablated"]


@dataclass(frozen=True)
class Cell:
    """One part of one layer in one group of tokens."""

    part: str
    layer: int
    group: str
    effect: Interval  # on the answer's probability; NaN where fewer than two facts have such tokens
    facts: int

    def to_dict(self) -> dict[str, object]:
        """Return one row of a table."""
        place = {"part": self.part, "layer": self.layer, "group": self.group, "facts": self.facts}
        return {**place, **vars(self.effect)}


@dataclass(frozen=True, eq=False)
class Tracing:
    """The probabilities of each fact's answer, and how much each part changes them.

    Intervals treat facts as independent, which is not quite true of those with a common name or answer.
    """

    clean: Tensor  # (facts,)
    corrupted: Tensor  # (facts,)
    restored: Mapping[str, Tensor]  # by part: (layers, groups, facts), NaN for a fact without such tokens
    ablated: Mapping[str, Tensor]
    said: Mapping[str, Tensor]  # by part, as `attribute` names them: logits against the mean of all tokens, (facts,)
    told_apart: Mapping[str, Tensor]  # the same against the mean of the answers of all facts
    corruption: str
    level: float = 0.95

    @property
    def total(self) -> Interval:
        """Return clean − corrupted: the total effect to restore."""
        return mean_interval((self.clean - self.corrupted).tolist(), self.level)

    def effects(self, part: str, what: What = "restored") -> Tensor:
        """Return the effects of a part, (layers, groups, facts)."""
        kinds = {"restored": self.restored, "ablated": self.ablated}
        if what not in kinds:
            raise UnknownNameError("effect", what, kinds)
        if part not in kinds[what]:
            raise UnknownNameError("part", part, kinds[what])
        return kinds[what][part]

    def table(self, part: str, what: What = "restored") -> Tensor:
        """Return the mean effect over facts, (layers, groups), NaN where no fact has such tokens."""
        return self.effects(part, what).nanmean(-1)

    def cells(self, what: What = "restored") -> list[Cell]:
        """Return every cell, with its interval."""
        return [
            self._cell(part, layer, group, what)
            for part in PARTS
            for layer in range(len(self.effects(part, what)))
            for group in GROUPS
        ]

    def found(self, what: What = "restored", *, alpha: float = 0.05, least: float = 0.1) -> list[Cell]:
        """Return the cells whose effect is significantly above 0, and at least the share `least` of the total effect.

        The p-values are corrected for the number of cells (Holm), so that in a model that knows no facts, the chance
        of finding any cell at all is at most about alpha.
        """
        cells = [cell for cell in self.cells(what) if cell.facts > 1]
        p_values = holm([paired_t(self._values(cell.part, cell.layer, cell.group, what)) for cell in cells])
        bound = max(0.0, least * self.total.mean)
        pairs = zip(cells, p_values, strict=True)
        return [cell for cell, p in pairs if p < alpha and cell.effect.mean > 0 and cell.effect.mean >= bound]

    def speakers(self, *, apart: bool = True) -> dict[str, Interval]:
        """Return the direct effect of each part on the answer, in logits, the largest first.

        With `apart` it is relative to the other answers: a part that promotes all answers alike then has none.
        """
        said = self.told_apart if apart else self.said
        found = {name: mean_interval(values.tolist(), self.level) for name, values in said.items()}
        return dict(sorted(found.items(), key=lambda pair: -pair[1].mean))

    def to_dict(self) -> dict[str, object]:
        """Return plain data: the cells are rows for a heat map."""
        found: dict[str, object] = {
            "facts": len(self.clean),
            "corruption": self.corruption,
            "level": self.level,
            "clean": float(self.clean.mean()),
            "corrupted": float(self.corrupted.mean()),
            "total": self.total,
            "groups": GROUPS,
            "restored": [cell.to_dict() for cell in self.cells("restored")],
            "ablated": [cell.to_dict() for cell in self.cells("ablated")],
            "said": self.speakers(apart=False),
            "told_apart": self.speakers(),
        }
        plain: dict[str, object] = to_plain(found, nulls=True)
        return plain

    def _cell(self, part: str, layer: int, group: str, what: What) -> Cell:
        values = self._values(part, layer, group, what)
        nothing = Interval(math.nan, math.nan, math.nan)
        interval = mean_interval(values, self.level) if len(values) > 1 else nothing
        return Cell(part, layer, group, interval, len(values))

    def _values(self, part: str, layer: int, group: str, what: What) -> list[float]:
        """Return the effects on the facts that have such tokens."""
        values = self.effects(part, what)[layer, GROUPS.index(group)]
        kept: list[float] = values[torch.isfinite(values)].tolist()
        return kept


_ROUNDING = 1e-5  # of a probability: smaller changes come from the order of summation
_POINTS = {"attention": "attention.output", "mlp": "mlp.output", "residual": "residual"}
Corruption = Literal["name", "noise"]


def trace(
    model: LanguageModel,
    facts: Sequence[Fact],
    *,
    corruption: Corruption = "name",
    noise: float = 3.0,
    seed: int = 0,
    level: float = 0.95,
) -> Tracing:
    """Restore and ablate every part of every layer in each group of tokens; intervals at this level are over facts.

    Use only facts that the model knows: select them by `known_facts` first.

    Parameters
    ----------
    model
        The model.
    facts
        Facts that the model knows, from `known_facts`.
    corruption
        How the input is corrupted.
    noise
        Standard deviations of the noise, if it is corrupted by noise.
    seed
        The random seed; the same seed gives the same result.
    level
        The confidence level of intervals, such as 0.95.
    """
    if len(facts) < 2:
        raise InputError(f"facts: {len(facts)}, too few for an interval", hint="give two or more")
    if corruption not in ("name", "noise"):
        raise InputError(f"there is no corruption called {corruption!r}", hint="use name or noise")
    if corruption == "noise" and not noise > 0:
        raise InputError(f"noise of {noise:g} standard deviations", hint="use more than 0, such as 3")
    layers, count = model.spec.num_layers, len(facts)
    probabilities = {name: torch.zeros(count, dtype=torch.float64) for name in ("clean", "corrupted")}
    effects = {
        (what, part): torch.full((layers, len(GROUPS), count), torch.nan, dtype=torch.float64)
        for what in ("restored", "ablated")
        for part in PARTS
    }
    with evaluating(model):
        means = _means(model, facts)
        change = partial(_with_noise, model, noise, seed) if corruption == "noise" else _other_names(model, facts, seed)
        for rows in batches_of(model, facts, len(GROUPS)):
            runs = {"clean": _Run(model, rows), "corrupted": _Run(model, rows, change(rows))}
            for name, run in runs.items():
                probabilities[name][rows.numbers] = run.probability.cpu()
            for what, run in (("restored", runs["corrupted"]), ("ablated", runs["clean"])):
                for layer in range(layers):
                    for part in PARTS:
                        point = f"blocks.{layer}.{_POINTS[part]}"
                        wanted = runs["clean"].seen[point][None] if what == "restored" else means[point]
                        moved = run.replaced(layer, point, wanted) * (1 if what == "restored" else -1)
                        effects[what, part][layer][:, rows.numbers] = moved.cpu()
    said, told_apart = _said(model, facts)
    return Tracing(
        **probabilities,
        restored={part: effects["restored", part] for part in PARTS},
        ablated={part: effects["ablated", part] for part in PARTS},
        said=said,
        told_apart=told_apart,
        corruption="another name" if corruption == "name" else f"noise of {noise:g} standard deviations",
        level=level,
    )


class _Run:
    """One forward pass on some facts, which can be continued with the output of a part replaced."""

    def __init__(self, model: LanguageModel, rows: Rows, embedded: Tensor | None = None) -> None:
        self.model, self.rows = model, rows
        names = [
            "residual",
            *(f"blocks.{layer}.{p}" for layer in range(model.spec.num_layers) for p in _POINTS.values()),
        ]
        changed = {} if embedded is None else {"embedding": lambda _: embedded}
        self.first_layers = first_value_layers(model.spec.attention)
        lent = {key: f"blocks.{number}.attention.value" for key, number in self.first_layers.items()}
        with model.tap(changed, *names, *lent.values()) as seen:
            hidden = model.hidden(rows.inputs)
        self.seen = {name: seen[name] for name in names}
        self.first_values: FirstValues = {key: seen[name] for key, name in lent.items()}
        self.masks = rows.masks()
        self.probability = self._answer(hidden)[0]

    def replaced(self, layer: int, name: str, wanted: Tensor) -> Tensor:
        """Return how P(answer) changes with `wanted` in each group of tokens, (groups, facts).

        `wanted` is (groups or 1, facts or 1, tokens or 1, width). NaN for a fact without such tokens. Layers before
        `layer` are not run again.
        """
        x = self.seen["residual" if layer == 0 else f"blocks.{layer - 1}.residual"]
        mask = self.masks.flatten(0, 1)[..., None]
        wanted = wanted.expand(*self.masks.shape, x.shape[-1]).flatten(0, 1)
        x = x.repeat(len(GROUPS), 1, 1)
        with self.model.tap({name: lambda made: torch.where(mask, wanted, made)}):
            known = {
                key: value.repeat(len(GROUPS), 1, 1, 1)
                for key, value in self.first_values.items()
                if self.first_layers[key] < layer
            }
            for block in self.model.stack.blocks[layer:]:
                x = block(x, first_values=known)
        now = self._answer(self.model.stack.norm(x))
        moved = now - self.probability
        moved = moved.where(moved.abs() > _ROUNDING * torch.maximum(now, self.probability), 0.0)
        return moved.where(self.masks.any(-1), torch.nan)

    def _answer(self, hidden: Tensor) -> Tensor:
        """Return P of the whole answer, the product over its tokens, (times, facts)."""
        logits = F.linear(self.rows.answering(hidden), self.model.head_weight).double()
        answers = self.rows.answers.repeat(len(hidden) // len(self.rows.facts), 1)
        nats = logits.log_softmax(-1).gather(-1, answers[..., None])[..., 0].sum(-1)
        return nats.exp().view(-1, len(self.rows.facts))


def _means(model: LanguageModel, facts: Sequence[Fact]) -> dict[str, Tensor]:
    """Return the mean output of each part in each group of tokens, over all facts, (groups, 1, 1, width)."""
    sums: dict[str, Tensor] = {}
    count = torch.zeros(len(GROUPS), dtype=torch.float64)
    for rows in batches_of(model, facts):
        run = _Run(model, rows)
        masks = run.masks.double()
        count = count.to(masks.device) + masks.sum((1, 2))
        for name, made in run.seen.items():
            kept = torch.einsum("gft,ftd->gd", masks, made.double())
            sums[name] = sums[name] + kept if name in sums else kept
    dtype = model.embedding.weight.dtype
    return {name: (total / count.clamp(min=1)[:, None]).to(dtype)[:, None, None] for name, total in sums.items()}


def _with_noise(model: LanguageModel, noise: float, seed: int, rows: Rows) -> Tensor:
    """Return the embeddings of the rows, with separate noise on the subject of each fact."""
    embedded: Tensor = model.embedding(rows.inputs)
    embedded = embedded.clone()
    size = noise * float(model.embedding.weight.std())
    for row, (number, fact) in enumerate(zip(rows.numbers, rows.facts, strict=True)):
        first, end = fact.subject
        generator = torch.Generator().manual_seed((seed << 32) + number)
        drawn = torch.randn(end - first, embedded.shape[-1], generator=generator)
        embedded[row, first:end] += (size * drawn).to(embedded)
    return embedded


def _other_names(model: LanguageModel, facts: Sequence[Fact], seed: int) -> Callable[[Rows], Tensor]:
    """Return a function for the embeddings of rows, each with the subject of a fact that has another answer."""
    generator = torch.Generator().manual_seed(seed)
    others = [_other_name(fact, facts, generator) for fact in facts]

    def change(rows: Rows) -> Tensor:
        tokens = rows.inputs.clone()
        for row, (number, fact) in enumerate(zip(rows.numbers, rows.facts, strict=True)):
            tokens[row, slice(*fact.subject)] = torch.tensor(others[number], device=tokens.device)
        embedded: Tensor = model.embedding(tokens)
        return embedded

    return change


def _other_name(fact: Fact, facts: Sequence[Fact], generator: torch.Generator) -> tuple[int, ...]:
    mine = _subject(fact)
    fit = [
        name
        for name, answer in ((_subject(other), other.answer) for other in facts)
        if answer != fact.answer and name != mine and len(name) == len(mine)
    ]
    if not fit:
        raise InputError(
            f"no other fact has a name of {len(mine)} tokens and another answer",
            hint='give more facts, or use corruption="noise"',
        )
    return fit[int(torch.randint(len(fit), (), generator=generator))]


def _subject(fact: Fact) -> tuple[int, ...]:
    return fact.prompt[slice(*fact.subject)]


def _said(model: LanguageModel, facts: Sequence[Fact]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the direct effect of every part on the answer, each (facts,): its logit against the mean over all tokens,
    and against the mean over the answers of all facts. An attention layer as a whole is the sum of its heads and
    bias."""
    weight = model.head_weight.detach()
    answers = [
        torch.stack([weight[fact.answer[i]] for fact in facts if i < len(fact.answer)]).mean(0)
        for i in range(max(len(fact.answer) for fact in facts))
    ]
    against = {"said": weight.mean(0), "told apart": torch.stack(answers)}
    found: dict[str, dict[str, Tensor]] = {name: {} for name in against}
    parts = sum(spec.observed_heads + 2 for spec in model.spec.attention) + 3
    for rows in batches_of(model, facts, parts):
        written = attribute(model, rows.inputs)
        read = rows.answering(written.written)  # (parts, facts, tokens of the answer, width)
        for name, other in against.items():
            wanted = weight[rows.answers] - (other[: rows.answers.shape[1]] if other.dim() == 2 else other)
            logits = torch.einsum("pfad,fad->pf", read, wanted).double().cpu()
            for part, row in zip(written.names, logits, strict=True):
                whole = part.partition(".heads")[0].removesuffix(".bias")
                for key in dict.fromkeys((part, whole if "attention" in part else part)):
                    kept = found[name].setdefault(key, torch.zeros(len(facts), dtype=torch.float64))
                    kept[rows.numbers] += row
    return found["said"], found["told apart"]
