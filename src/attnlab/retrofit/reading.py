"""Read the result of a finished retrofit from its folder, with the rounding of `answer.json`.

result = read_result(Path("runs/retrofit-…"))
result.page()
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.errors import AttnlabError, FileError
from attnlab.retrofit.costs import LayerCost, Subset
from attnlab.retrofit.folder import ANSWER
from attnlab.retrofit.gains import Gains
from attnlab.retrofit.healing.curves import HealedRun, Healing
from attnlab.retrofit.request import RetrofitRequest
from attnlab.retrofit.result import RetrofitResult, VariantResult
from attnlab.statistics import Interval
from attnlab.storage.records import read_json


def read_result(folder: Path) -> RetrofitResult:
    """Return what the retrofit in a folder found; verdicts are judged anew (`attnlab.experiments`)."""
    answer = read_json(folder / ANSWER)
    try:
        return RetrofitResult(
            answer["title"],
            folder,
            RetrofitRequest.from_plain(answer["request"]),
            answer["layers"],
            answer["tokens_per_text"],
            answer["texts"],
            answer["text"],
            _number(answer["original_loss"]),
            tuple(_variant(one) for one in answer["variants"]),
            None if answer["control"] is None else _healing(answer["control"]),
        )
    except (LookupError, TypeError, ValueError, AttnlabError):
        raise FileError(
            f"{folder / ANSWER} is damaged, or of another version", hint="the same retrofit again writes it anew"
        ) from None


def _variant(one: Mapping[str, Any]) -> VariantResult:
    subset = one["subset"]
    return VariantResult(
        one["name"],
        one["meaning"],
        tuple(LayerCost(cost["layer"], _interval(cost["cost"]), _number(cost["error"])) for cost in one["costs"]),
        _interval(one["all_layers"]),
        None if subset is None else _subset(subset),
        tuple(one["layers"]),
        _number(one["converted_loss"]),
        Path(one["converted"]),
        Gains(**one["gains"]),
        tuple(_healing(healing) for healing in one["healing"]),
    )


def _subset(one: Mapping[str, Any]) -> Subset:
    cost = one["cost"]
    return Subset(one["budget"], tuple(one["layers"]), None if cost is None else _interval(cost), one["sum_of_costs"])


def _healing(one: Mapping[str, Any]) -> Healing:
    runs = (
        HealedRun(
            run["seed"],
            Path(run["path"]),
            tuple((_number(tokens), _number(loss)) for tokens, loss in run["curve"]),
            run["diverged"],
        )
        for run in one["runs"]
    )
    return Healing(one["method"], tuple(runs))


def _interval(one: Mapping[str, Any]) -> Interval:
    return Interval(*(_number(one[name]) for name in ("mean", "low", "high")))


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
