"""The results of a study on one corpus, as its page shows them: verdicts, trends, forecasts and charts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attnlab.experiments.numbers import percent_range, percent_text
from attnlab.experiments.planning.plan import Trial
from attnlab.experiments.reporting.curves import rate_chart
from attnlab.experiments.scale.findings import tested_words
from attnlab.formats import NOTHING
from attnlab.studio.work.experiments.charts import forecast_figure, forest_figure, sizes_figure
from attnlab.studio.work.pages import drawn_figure

_INTERVAL = ("mean", "low", "high")
_MOST = math.log(10)  # largest value that is printed, in nats: 900 % of perplexity


def verdicts_of(judged: Mapping[str, Any]) -> dict[str, Any]:
    """Return the intervals with their verdicts, trends and forecasts in the words of the report."""
    rungs = [(arm, rung) for arm in judged["arms"] for rung in arm["rungs"]]
    intervals = [
        {
            "arm": arm["arm"],
            "rung": rung["rung"],
            "seeds": len(rung["seeds"]),
            "parameters": None if rung["halved"] else rung["parameters"],
            "non_embedding": None if rung["halved"] else rung["non_embedding"],
            **{name: rung[name] for name in ("verdict", *_INTERVAL)},
        }
        for arm, rung in rungs
        if _is_known(rung)
    ]
    order = max(([rung["rung"] for rung in arm["rungs"]] for arm in judged["arms"]), key=len, default=[])
    tested = judged["tested_distance"] if judged["backtest"] is not None else None
    return {
        "headline": judged["headline"],
        "intervals": sorted(intervals, key=lambda row: -order.index(row["rung"])),
        "forecasts": {arm["arm"]: list(_forecasts(arm, tested)) for arm in judged["arms"]},
        "forecast_words": tested_words(tested, judged["target_size"]),
        "verdicts": [_verdict_row(arm, rung) for arm, rung in rungs if not rung["halved"]],
        "trends": [_trend_row(arm, tested) for arm in judged["arms"]],
    }


def _forecasts(arm: Mapping[str, Any], tested: float | None) -> Iterator[dict[str, Any]]:
    """Yield the forecasts of an arm as they are drawn; what reaches beyond the back-test is an extrapolation."""
    for one in (arm["next_rung"], arm["target"]):
        if _is_known(one):
            numbers = {name: one[name] for name in _INTERVAL}
            far = tested is None or one["distance"] > tested + 1e-9
            yield {**numbers, "size": one["target_size"], "is_extrapolation": far}


def _verdict_row(arm: Mapping[str, Any], rung: Mapping[str, Any]) -> list[str]:
    if not _is_known(rung):
        return [arm["arm"], rung["rung"], rung["verdict"], NOTHING, NOTHING]
    return [
        arm["arm"],
        rung["rung"],
        rung["verdict"],
        percent_text(rung["mean"]),
        percent_range(rung["low"], rung["high"]),
    ]


def _is_known(found: Mapping[str, Any] | None) -> bool:
    """Return whether a mean and its interval are numbers; a seed that diverged leaves none."""
    return found is not None and all(isinstance(found[name], int | float) for name in _INTERVAL)


def _trend_row(arm: Mapping[str, Any], tested: float | None) -> list[str]:
    slope, trend = arm["nats_per_decade"], arm["trend"]
    if _is_known(slope):
        trend = f"{trend}: {percent_text(slope['mean'])} for each factor of ten in size"
    ahead = [_range(one) + (", extrapolation" if one["is_extrapolation"] else "") for one in _forecasts(arm, tested)]
    return [arm["arm"], trend, *(ahead if len(ahead) == 2 else [NOTHING] * 2)]


def _range(one: Mapping[str, Any]) -> str:
    """Return a forecast with its interval; numbers that mean nothing are not spelled out."""
    low, mean, high = (_MOST if one[name] > _MOST else one[name] for name in ("low", "mean", "high"))
    words = f"{percent_text(mean)} ({percent_range(low, high)})"
    return f"{words} or more" if high == _MOST else words


def charts_of(one: Mapping[str, Any]) -> dict[str, Any]:
    """Draw what there is of one corpus."""
    charts: dict[str, Any] = {}
    if one["intervals"]:
        charts["intervals"] = forest_figure(one)
        charts["sizes"] = sizes_figure(one, "non_embedding")
    if any(one.get("forecasts", {}).values()):
        charts["forecast"] = forecast_figure(one)
    charts["rates"] = [
        {"words": f"{arm} at {size}", "figure": drawn_figure(rate_chart(tried, None, _of_baseline(one, size, arm)))}
        for (size, arm), tried in one["trials"].items()
    ]
    return charts


def _of_baseline(one: Mapping[str, Any], size: str, arm: str) -> Sequence[Trial]:
    baseline = one["baseline"]
    return () if arm == baseline else one["trials"].get((size, baseline), ())
