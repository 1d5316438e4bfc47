"""Where the playground can begin: the discussion sheet, and what the exhibits show that fits into a few small matrices.

Rows of x are tokens. Where an exhibit speaks of keys and queries themselves, x holds unit vectors and the projections
hold what it speaks of.
"""

from __future__ import annotations

from typing import Any

Matrix = list[list[float]]

_EVERYTHING: dict[str, Any] = {"mask": {"kind": "interval", "causal": False}}
_SHEET: dict[str, Any] = {
    "tokens": ["x1", "x2", "x3"],
    "x": [[2, 3], [-1, 0], [1, -2]],
    "projections": {
        "query": [[1, 0, 2], [0, 1, -3]],
        "key": [[0, 0, -1], [-2, 0, 1]],
        "value": [[8, 0], [0, 9]],
    },
    "spec": {"score": {"kind": "dot"}, "key_width": 3, "value_width": 2, **_EVERYTHING},
}


def _unit(size: int, factor: float = 1.0) -> Matrix:
    return [[factor * (row == column) for column in range(size)] for row in range(size)]


def _rows(*rows: list[float]) -> Matrix:
    return list(rows)


def presets() -> dict[str, Any]:
    """Every preset: its name, what to see in it, the exhibit that tells more, and its state."""
    return {
        "presets": [
            _preset("The discussion sheet", "x3 attends to x2 almost alone: (0.00247, 0.99753, 6.90e−13).", _SHEET),
            _preset(
                "The sheet, scaled",
                "The same scores divided by √3: the weights of x3 are less sharp.",
                {**_SHEET, "spec": {**_SHEET["spec"], "score": {"kind": "scaled-dot"}}},
                "scaling",
            ),
            _preset(
                "Masked",
                "No token sees a later one: their weights are exactly 0, and the first token sees itself alone.",
                {**_SHEET, "spec": {**_SHEET["spec"], "mask": {"kind": "interval", "causal": True}}},
                "masking",
            ),
            _preset(
                "Length draws attention",
                "k2 points where k1 does and is twice as long, so it gets more of every query that likes it. "
                "Choose the score cosine: the two become equal.",
                {
                    "tokens": ["q", "2q", "other"],
                    "x": _rows([1, 1], [2, 2], [1, -1]),
                    "projections": {"query": _unit(2), "key": _unit(2), "value": _unit(2)},
                    "spec": {"score": {"kind": "dot"}, **_EVERYTHING},
                },
                "magnitude",
            ),
            _preset(
                "Copying",
                "One key lies far above the others for each query, so each token copies one value. Lower the scale, "
                "and the copy blurs.",
                _copying(),
                "copying",
            ),
            _preset(
                "Averaging two values",
                "The first query is C (k2 + k3): its output is the mean of v2 and v3.",
                _averaging(),
                "averaging",
            ),
            _preset(
                "Identity attention",
                "With q = k = v = x, x2 = u_a can only return itself: no sum of u_c or u_d to it brings u_b.",
                {**_four(), "spec": {"score": {"kind": "dot"}, "sharing": "identity", **_EVERYTHING}},
                "identity-attention",
            ),
            _preset(
                "With K, Q and V it can",
                "The same tokens with matrices: the second output is near u_b, and the first near u_b − u_c.",
                {**_four(), "projections": _construction()},
                "kqv-construction",
            ),
            _preset(
                "One projection for key and value",
                "What is matched is what is returned: compare the output with that of the sheet.",
                {
                    **_SHEET,
                    "spec": {"score": {"kind": "dot"}, "sharing": "key-value", "key_width": 3, "value_width": 3}
                    | _EVERYTHING,
                },
            ),
        ]
    }


def _preset(name: str, see: str, state: dict[str, Any], exhibit: str = "worked-example") -> dict[str, Any]:
    return {"name": name, "see": see, "exhibit": exhibit, "state": state}


def _copying() -> dict[str, Any]:
    return {
        "tokens": ["a", "b", "c"],
        "x": _unit(3),
        "projections": {
            "query": _rows([0, 10, 0], [0, 0, 10], [10, 0, 0]),
            "key": _unit(3),
            "value": _rows([1, 0, 0], [0, 2, 0], [0, 0, 3]),
        },
        "spec": {"score": {"kind": "dot"}, **_EVERYTHING},
    }


def _averaging() -> dict[str, Any]:
    return {
        "tokens": ["asks", "a", "b", "c"],
        "x": _unit(4),
        "projections": {
            "query": _rows([0, 12, 12, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]),
            "key": _unit(4),
            "value": _rows([0, 0], [2, 0], [0, 4], [9, 9]),
        },
        "spec": {"score": {"kind": "dot"}, "key_width": 4, "value_width": 2, **_EVERYTHING},
    }


def _four() -> dict[str, Any]:
    """x1 = u_d + u_b, x2 = u_a, x3 = u_c + u_b, of length √20 in the coordinates a, b, c, d."""
    return {
        "tokens": ["u_d + u_b", "u_a", "u_c + u_b"],
        "x": _rows([0, 4, 0, 4], [4, 0, 0, 0], [0, 4, 4, 0]),
        "projections": {},
        "spec": {"score": {"kind": "dot"}, **_EVERYTHING},
    }


def _construction() -> dict[str, Matrix]:
    """u_a asks for u_d, and u_d for u_c; values take u_b from a token with u_d, and u_b − u_c from one with u_c."""
    return {
        "query": _rows([0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]),
        "key": _rows([0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]),
        "value": _rows([0, 0, 0, 0], [0, 1, 0, 0], [0, 0, -1, 0], [0, 0, 0, 0]),
    }
