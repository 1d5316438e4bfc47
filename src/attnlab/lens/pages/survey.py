"""A survey of a model: published findings about language models, measured in one model, side by side.

    found = survey("smollm2")
    found.findings[0].value                Interval(mean, low, high) over texts
    found.write(Path("survey.html"))

Role scores are means over texts, with intervals over texts. Redundancy and what draws attention need several texts
each: they are measured on groups of texts, with intervals over the groups.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import plotly.graph_objects as go
import torch

from attnlab.corpora import Batch
from attnlab.errors import InputError
from attnlab.formats import NOTHING, fixed, interval, plural
from attnlab.lens.heads.role_scores import EXCERPT, ROLES, RoleReading, delimiter_tokens, marked, repeated_tokens
from attnlab.lens.heads.similarity import head_similarity
from attnlab.lens.heads.study import mean
from attnlab.lens.length_direction import PARTS, length_or_direction
from attnlab.lens.subjects import find_texts, open_subject, shape_words
from attnlab.lens.taps import Inputs, Progress, silent
from attnlab.models import LanguageModel
from attnlab.pages import BLUE, Details, Figure, Gallery, HasPage, Page, Points, Section, Table, new_figure
from attnlab.statistics import Interval, mean_interval
from attnlab.storage.records import to_plain

_GROUPS = 4  # of texts, for findings that need several texts at once
_SHOWN = 8  # heads of a role that the page lists
_SURVEYED = ("previous token", "induction", "first token")
_LITERATURE = {
    "previous token": (
        "Heads that attend to the token before are found in the early layers of many models (Olsson et al. 2022, arXiv "
        "2209.11895)."
    ),
    "induction": (
        "Every model with two layers or more has heads that continue a repeated sequence, behind heads that attend to "
        "the token before (Olsson et al. 2022, arXiv 2209.11895)."
    ),
    "first token": (
        "In Llama-2 nearly all heads above the two lowest layers give most of their attention to the first token (Xiao "
        "et al. 2023, arXiv 2309.17453)."
    ),
    "redundancy": (
        "Most heads of a trained translation model can be removed one at a time without a measurable loss (Michel et "
        "al. 2019, arXiv 1905.10650)."
    ),
    "drawn": (
        "Keys of small length get more attention in Llama-2 (Devoto et al. 2024, arXiv 2406.11430), and lengths of "
        "vectors change what weights alone suggest (Kobayashi et al. 2020, arXiv 2004.10102)."
    ),
}


@dataclass(frozen=True)
class HeadFinding:
    """How strongly one head plays a role, over texts."""

    layer: int
    head: int
    excess: Interval


@dataclass(frozen=True)
class Finding:
    """One finding: a number with its interval, what it is, what the literature says, and the numbers of all layers."""

    name: str
    meaning: str
    value: Interval | None
    literature: str
    layers: tuple[Interval | None, ...] = ()
    strongest: tuple[HeadFinding, ...] = ()


@dataclass(frozen=True)
class Survey(HasPage):
    """The findings of one model on some texts."""

    title: str
    shape: str
    texts: str
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain data."""
        found: dict[str, object] = to_plain(
            {"title": self.title, "model": self.shape, "texts": self.texts, "findings": self.findings},
            nulls=True,
            digits=6,
        )
        return found

    def rows(self) -> list[list[str]]:
        """Return the findings as rows of a table: name, value, interval, what it is."""
        return [[one.name, _value(one.value), _ends(one.value), one.meaning] for one in self.findings]

    def page(self) -> Page:
        table = Table(
            ("finding", "value", "95 % interval", "what it is"), self.rows(), text_columns=(0, 3), wrap_columns=(3,)
        )
        sections = [Section("Findings", [f"On {self.texts}.", table])]
        sections += [Section(one.name.capitalize(), list(_parts(one))) for one in self.findings if one.layers]
        sections.append(Section("What the literature says", [Points(list(dict.fromkeys(_cited(self.findings))))]))
        lead = "Heads, sinks, redundancy and what draws attention: intervals over texts, beside published findings."
        return Page(f"What {self.title} shows", lead, sections, {"model": self.shape, "texts": self.texts})


def survey(
    place: str | Path, *, on: Path | None = None, rows: int | None = None, progress: Progress = silent
) -> Survey:
    """Measure the findings in a run or a pretrained model, on its own texts or on those of a file."""
    subject = open_subject(place)
    if subject.model.spec.family != "decoder":
        raise InputError(f"a model of the family {subject.model.spec.family} is not surveyed", hint="give a decoder")
    texts = find_texts(subject, on=on, rows=rows)
    model, batch = subject.model, texts.batch
    tokenizer = subject.known_tokenizer()
    progress("measuring what heads do")
    found = _roles(model, batch, delimiter_tokens(tokenizer))
    progress("comparing heads with each other, and finding what draws attention")
    found += _of_groups(model, batch)
    return Survey(subject.title, shape_words(model), texts.words, tuple(found))


def _roles(model: LanguageModel, batch: Batch, delimiters: Collection[int]) -> list[Finding]:
    reading = RoleReading(model, marked(model, delimiters), "self")
    reading.add("texts", Inputs(batch.inputs))
    length = min(model.spec.context_length, 2 * batch.inputs.shape[1], EXCERPT)
    reading.add("repeated", Inputs(repeated_tokens(model.spec.vocabulary_size, len(batch.inputs), length)))
    scores = reading.scores(model)
    findings = []
    for role in _SURVEYED:
        excess = [layer[..., 2] for layer in scores[role]]  # (texts, heads) of each layer
        heads = [
            HeadFinding(number, head, mean_interval(values.tolist()))
            for number, layer in enumerate(excess)
            for head, values in enumerate(layer.unbind(1))
            if bool(values.isfinite().all())
        ]
        strongest = sorted(heads, key=lambda one: -one.excess.mean)[:_SHOWN]
        layers = tuple(_interval(layer.mean(1).tolist()) for layer in excess)
        shares = torch.cat([layer[..., 0] for layer in scores[role]], dim=1).mean(1).tolist()
        where = "random tokens that repeat" if ROLES[role].repeated else "the texts"
        findings.append(
            Finding(
                f"{role}, strongest head",
                f"{ROLES[role].meaning}: excess over chance on {where}, from 0 to 1",
                strongest[0].excess if strongest else None,
                _LITERATURE[role],
                layers,
                tuple(strongest),
            )
        )
        if role == "first token":
            meaning = "attention to the first token, mean over all heads: 1 is all of it"
            findings.append(Finding("share of the sink", meaning, _interval(shares), _LITERATURE[role]))
    return findings


def _of_groups(model: LanguageModel, batch: Batch) -> list[Finding]:
    """Return the findings that are measured on groups of texts."""
    groups = [part for part in batch.inputs.chunk(_GROUPS) if len(part) > 1]
    alike = [head_similarity(model, part).redundancy("effects") for part in groups]
    drawn: dict[str, list[float | None]] = {part: [] for part in PARTS}
    for group in groups:
        every = [one for layer in length_or_direction(model, group) for one in layer if one is not None]
        for part in PARTS:
            drawn[part].append(mean([getattr(one, part).share for one in every]))
    findings = [
        Finding(
            "redundancy",
            "the cosine of what a head writes with that of the most similar head, mean over heads",
            _interval(alike),
            _LITERATURE["redundancy"],
        )
    ]
    names = {"norm": "length", "direction": "direction", "position": "position"}
    for part, name in names.items():
        meaning = f"of the attention that keys receive, the share that follows their {name}, mean over heads"
        findings.append(Finding(f"{name} draws", meaning, _interval(drawn[part]), _LITERATURE["drawn"]))
    return findings


def _interval(values: Sequence[float | None]) -> Interval | None:
    known = [value for value in values if value is not None and value == value]
    return mean_interval(known) if len(known) > 1 else None


def _value(found: Interval | None) -> str:
    return NOTHING if found is None else fixed(found.mean, 3)


def _ends(found: Interval | None) -> str:
    return NOTHING if found is None else interval(found.low, found.high, sign=False)


def _cited(findings: Sequence[Finding]) -> list[str]:
    return [one.literature for one in findings]


def _parts(one: Finding) -> list[str | Gallery | Details]:
    rows = [[f"{head.layer}.{head.head}", _value(head.excess), _ends(head.excess)] for head in one.strongest]
    table = Table(("head", "excess", "95 % interval"), rows)
    chart = Figure(_chart(one.layers), "mean over the heads of each layer, with its interval over texts")
    return [one.literature, Gallery([chart], one.name), Details(f"The {plural(len(rows), 'strongest head')}", [table])]


def _chart(layers: Sequence[Interval | None]) -> go.Figure:
    figure = new_figure(x="layer", y="excess over chance", height=240)
    known = [(number, one) for number, one in enumerate(layers) if one is not None]
    figure.add_trace(
        go.Scatter(
            x=[number for number, _ in known],
            y=[one.mean for _, one in known],
            error_y={"array": [one.high - one.mean for _, one in known], "thickness": 1.5, "width": 3},
            mode="markers",
            marker={"color": BLUE, "size": 7},
            hovertemplate="layer %{x}: %{y:.3f}<extra></extra>",
        )
    )
    figure.update_layout(showlegend=False)
    return figure
