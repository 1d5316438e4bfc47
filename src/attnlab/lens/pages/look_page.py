"""The page of a look: all heads as small maps, each of which opens large, their numbers, and the form of its views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnlab.corpora import Tokenizer
from attnlab.formats import NOTHING, fixed, interval, plural
from attnlab.lens.measures import MEASURES
from attnlab.lens.taps import Place
from attnlab.pages import Details, HeadMap, MapGrid, MapRow, Note, Page, Part, Points, Section, Table
from attnlab.statistics import Interval
from attnlab.storage.records import to_plain

if TYPE_CHECKING:
    from attnlab.lens.pages.look import LayerLook, Look

DIGITS = 6  # of the numbers in JSON; more would be rounding noise
_MARKS = {" ": "␣", "\n": "⏎", "\t": "⇥", "\r": "␍"}


@dataclass(frozen=True, eq=False)
class LookView:
    """A view of a look: `name` is its key in JSON and `data` its plain data; `parts` is what people see."""

    name: str
    heading: str
    parts: Sequence[str | Points | Table | Details | MapGrid]
    data: object

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", to_plain(self.data, nulls=True, digits=DIGITS))

    def section(self) -> Section:
        return Section(self.heading, list(self.parts))


def ends(found: Interval | None, decimals: int = 3) -> str:
    """Return the two ends of an interval, if there is one."""
    return NOTHING if found is None else interval(found.low, found.high, decimals)


def shade(value: float | None) -> float | None:
    """Return how dark the cell of a number is, from 0 to 1; None for no number."""
    return None if value is None or value != value else min(1.0, max(0.0, value))


def printable(tokenizer: Tokenizer, ids: Iterable[int]) -> tuple[str, ...]:
    """Return each token as something visible: spaces and line ends as signs, half characters as their bytes."""

    def shown(token: int) -> str:
        if tokenizer.kind == "byte" and token > 127:
            return f"\\x{token:02x}"
        signs = (_MARKS.get(one, one if one.isprintable() else repr(one)[1:-1]) for one in tokenizer.decode([token]))
        return "".join(signs) or "∅"

    return tuple(map(shown, ids))


_HEADINGS = {
    "self": "Attention maps of all heads",
    "encoder": "Encoder: self-attention of the source",
    "cross": "Cross-attention from the target to the source",
}
_LABELS = {"self": "decoder", "encoder": "encoder", "cross": "cross-attention"}
_EXPLANATIONS = (
    "A row is a query, a column is a key that it attends to. Empty cells are masked: the query does not see the key.",
    "Colours follow the square root of a weight, so that small ones can be told from none. Where several cells fall on "
    "one point of a small map, the largest shows.",
    "Arrow keys go from head to head, Enter opens one. There, arrows go from cell to cell, Shift with an arrow to the "
    "next head or layer, + and − change the size, and Escape goes back.",
    "Where the weights of a row do not sum to 1, bars beside the large map show what they do sum to.",
    "␣ is a space, ⏎ the end of a line, ⇥ a tabulator.",
)


def look_page(look: Look) -> Page:
    """Return the page, with a grid for each place where the model attends."""
    shown: list[Place] = [place for place in ("encoder", "self", "cross") if look.of(place)]
    grids = {place: _grid(look, place) for place in shown}
    sections: list[Section] = []
    for place, grid in grids.items():
        heading = "Decoder: self-attention of the target" if place == "self" and len(grids) > 1 else _HEADINGS[place]
        notes = [Note(note) for note in look.notes] if not sections else []
        sections.append(Section(heading, [*notes, *_words(look, place), grid]))
    sections += [view.section() for view in look.views]
    sections.append(Section("Every head in numbers, on this text", _numbers(look)))
    sections.append(Section("How to read it", [Points(_EXPLANATIONS)]))
    count = sum(len(layer.heads) for layer in look.layers if layer.weights is not None)
    heads, tokens = (plural(number, word) for number, word in ((count, "head"), (len(look.tokens), "token")))
    lead = f"{heads} on a text of {tokens}. Open one to see which token attends to which."
    return Page(f"Inside {look.title}", lead, sections, look.facts)


def _grid(look: Look, place: Place) -> MapGrid:
    queries, keys = look.sequences(place)
    rows = [
        MapRow(f"layer {layer.layer}", list(_heads(layer, look.tags)), layer.visible.numpy(), layer.absence)
        for layer in look.of(place)
    ]
    return MapGrid(_LABELS[place], queries, keys, rows)


def _heads(layer: LayerLook, tags: Mapping[tuple[Place, int, int], str]) -> Iterator[HeadMap]:
    if layer.weights is None:
        return
    for place, head in enumerate(layer.heads):
        numbers = {name: _text(values[place]) for name, values in layer.numbers.items() if values[place] is not None}
        tag = tags.get((layer.place, layer.layer, head), "")
        yield HeadMap(f"head {head}", layer.weights[place].numpy(), ({"does": tag} if tag else {}) | numbers, tag)


def _words(look: Look, place: Place) -> list[Part]:
    queries, keys = look.sequences(place)
    if place == "cross":
        return [Details("Both texts", [" ".join(queries), " ".join(keys)])]
    return [Details("The text", [" ".join(queries)])]


def measured(layers: Sequence[LayerLook]) -> list[str]:
    """Return the names of all numbers that some head has."""
    every = ((name, values) for layer in layers for name, values in layer.numbers.items())
    return list(dict.fromkeys(name for name, values in every if any(value is not None for value in values)))


def number_rows(look: Look) -> tuple[list[str], list[list[str]]]:
    """Return a table of all heads: headings, and a row for each."""
    names, several = measured(look.layers), len({layer.place for layer in look.layers}) > 1
    rows = []
    for layer in look.layers:
        where = [_LABELS[layer.place]] if several else []
        for place, head in enumerate(layer.heads if layer.weights is not None else ()):
            numbers = [_text(layer.numbers[name][place]) for name in names]
            rows.append([*where, str(layer.layer), str(head), *numbers])
    return [*(["where"] if several else []), "layer", "head", *names], rows


def _numbers(look: Look) -> list[Part]:
    headings, rows = number_rows(look)
    if not rows:
        return ["No layer that was looked at has a map to measure."]
    meanings = [f"{name}: {MEASURES[name].meaning}" for name in measured(look.layers)]
    return [Points(meanings), Details(f"All {len(rows)} heads", [Table(headings, rows)])]


def _text(value: float | None) -> str:
    return fixed(value, 3 if value is None or abs(value) < 10 else 1)
