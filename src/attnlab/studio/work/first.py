"""The presets of the playground, and the numbers of the first one without PyTorch, which takes seconds to import.

s = q·k    p_j = e^s_j / Σ e^s_l    o = Σ p_j v_j        every token sees every token
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any

Rows = Sequence[Sequence[float]]

_EQUATIONS = (
    "q = x W_Q,  k = x W_K,  v = x W_V",
    "D_k = {key_width}, D_v = {value_width}",
    "s_j = q·k",
    "p_j = e^s_j / Σ e^s_l",
    "o = Σ p_j v_j",
    "over the keys j that the mask shows: bidirectional",
)


def load_presets() -> list[dict[str, Any]]:
    """Return every preset: its name, what to see in it, the exhibit that tells more, and its state."""
    text = resources.files("attnlab.studio.work").joinpath("presets.toml").read_text("utf-8")
    found: list[dict[str, Any]] = tomllib.loads(text)["presets"]
    return found


def first_answer() -> dict[str, Any]:
    """Return every step of the first preset, one head of plain dot products, as `attend` returns them.

    The link is missing, and the spec has only the number of heads.
    """
    state = {"scale": 1.0, "temperature": 1.0, **load_presets()[0]["state"]}
    x, projections, spec = state["x"], state["projections"], state["spec"]
    query, key, value = (_product(x, projections[name]) for name in ("query", "key", "value"))
    scores = _product(query, [list(column) for column in zip(*key, strict=True)])
    weights = [_softmax(row) for row in scores]
    steps = {"query": query, "key": key, "value": value, "scores": scores, "weights": weights}
    count = len(x)
    return {
        "state": state,
        "link": "",
        "spec": {"num_heads": 1, "num_key_value_heads": 1},
        "used": ["query", "key", "value"],
        "group": 1,
        "equations": [line.format(**spec) for line in _EQUATIONS],
        "steps": {name: [rows] for name, rows in {**steps, "output": _product(weights, value)}.items()},
        "visible": [[True] * count for _ in range(count)],
    }


def _product(left: Rows, right: Rows) -> list[list[float]]:
    columns = list(zip(*right, strict=True))
    return [[math.fsum(a * b for a, b in zip(row, column, strict=True)) for column in columns] for row in left]


def _softmax(row: Sequence[float]) -> list[float]:
    largest = max(row)
    powers = [math.exp(score - largest) for score in row]
    return [power / math.fsum(powers) for power in powers]
