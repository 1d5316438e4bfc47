"""One attention weight, with every number that it was computed from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from attnlab.pages import equations_html
from attnlab.studio.matrices import number_text, vector_text

_SPACE = re.compile(r"^␣(?=.)")  # before a word
_SHOWN = 8  # components of a vector, and terms of a sum


def equation_html(found: Mapping[str, Any], tokens: Sequence[str], place: Mapping[str, int]) -> str:
    """Return how one query weighs one key, from the vectors to the output (`work/flow.py`, `explain`)."""
    query, key = place["query"], place["key"]
    tokens = [_SPACE.sub("", token) for token in tokens]
    names = f"“{escape(tokens[query])}” weighs “{escape(tokens[key])}”"
    title = f"<h3>How {names} in layer {place['layer']}, head {place['head']}</h3>"
    equations = equations_html("\n".join(found["equations"]))
    if not found["visible"][key]:
        return f"{title}{equations}<p>The mask hides this token: its weight is 0.</p>"
    lines = [
        *_vectors(found, tokens, query, key),
        *_score(found, key),
        *_weight(found, key),
        ("o", _output(found)),
    ]
    rows = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in lines)
    return f"{title}{equations}<dl class='numbers'>{rows}</dl>"


def _vectors(found: Mapping[str, Any], tokens: Sequence[str], query: int, key: int) -> list[tuple[str, str]]:
    shown = (("q", found["query"], query), ("k", found["keys"] and found["keys"][key], key))
    return [
        (f"{name} of “{escape(tokens[place])}”", vector_text(vector, _SHOWN)) for name, vector, place in shown if vector
    ]


def _score(found: Mapping[str, Any], key: int) -> list[tuple[str, str]]:
    if found["scores"] is None:
        return []
    text = number_text(found["scores"][key])
    if found["scaled"]:
        pairs = list(zip(found["query"], found["keys"][key], strict=True))
        terms = [f"{number_text(one)}·{number_text(other)}" for one, other in pairs[:_SHOWN]]
        terms += ["…"] if len(pairs) > _SHOWN else []
        text = f"({' + '.join(terms)}) / √{len(pairs)} = <b>{text}</b>"
    return [("s", text)]


def _weight(found: Mapping[str, Any], key: int) -> list[tuple[str, str]]:
    if found["weights"] is None:
        return []
    text = f"<b>{number_text(found['weights'][key])}</b>"
    if found["softmax"] and found["scores"] is not None:
        scores = [score for score, seen in zip(found["scores"], found["visible"], strict=True) if seen]
        terms = [_power(score) for score in scores[:_SHOWN]] + (["…"] if len(scores) > _SHOWN else [])
        text = f"{_power(found['scores'][key])} / ({' + '.join(terms)}) = {text}"
    return [("p", text)]


def _power(score: float | str) -> str:
    return f"e<sup>{number_text(score)}</sup>"


def _output(found: Mapping[str, Any]) -> str:
    """Return the output of the query: the values, the heaviest first, each times its weight."""
    result = f"<b>{vector_text(found['output'], _SHOWN)}</b>"
    if found["weights"] is None:
        return result
    seen = [place for place, visible in enumerate(found["visible"]) if visible]
    heavy = sorted(seen, key=lambda place: -abs(float(found["weights"][place])))[:3]
    terms = [f"{number_text(found['weights'][place])}·{vector_text(found['values'][place], 3)}" for place in heavy]
    return " + ".join([*terms, "…"] if len(seen) > len(heavy) else terms) + f" = {result}"
