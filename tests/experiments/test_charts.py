"""Figures show every arm and every seed, and tell arms apart without colour."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

import pytest

from attnlab.experiments.judging.trends import arm_trends
from attnlab.experiments.planning.plan import Trial
from attnlab.experiments.reporting.charts import (
    DifferenceAxis,
    cost_chart,
    differences_chart,
    series_style,
    size_chart,
)
from attnlab.experiments.reporting.curves import curve_figures, gap_figures, measure_figures, rate_chart, rate_figures
from attnlab.experiments.results import Comparison
from support.comparisons import EFFECTS, make_comparison
from support.ladders import make_ladder

TWELVE = tuple(EFFECTS)[:11]


def large() -> Comparison:
    return make_comparison(TWELVE, seeds=10, diverged={"relu": (3, 5)})


def test_every_difference_of_every_seed_is_drawn() -> None:
    comparison = large()
    figure = differences_chart(comparison)
    seeds, means, diverged = figure.data
    assert len(seeds.x) == sum(len(one.differences) for one in comparison.judgements) == 10 * 10 + 8
    assert len(means.x) == 10
    assert list(diverged.text) == ["2 "]
    assert len(figure.layout.annotations) == 11


def test_the_best_is_on_top_with_its_verdict() -> None:
    labels = [label.text for label in differences_chart(make_comparison()).layout.annotations]
    assert labels == ["<b>cosine</b> worse", "<b>tied-kv</b> worse", "<b>cosine-learned</b> better"]


def test_the_mean_and_its_interval_stand_where_they_are() -> None:
    comparison = make_comparison(("tied-kv",), noise=0.002)
    one = comparison.judgements[0]
    means = differences_chart(comparison).data[1]
    assert means.x[0] == pytest.approx(one.mean)
    assert means.x[0] + means.error_x.array[0] == pytest.approx(one.high)
    assert means.x[0] - means.error_x.arrayminus[0] == pytest.approx(one.low)
    band = differences_chart(comparison).layout.shapes[0]
    assert (band.x0, band.x1) == (-comparison.plan.procedure.margin, comparison.plan.procedure.margin)


def test_an_axis_is_bent_only_where_differences_go_far() -> None:
    straight = DifferenceAxis(-0.02, 0.05, 0.01)
    bent = DifferenceAxis(-0.02, 0.5, 0.01)
    assert straight.place(0.03) == 0.03
    assert bent.place(0.5) < 10 * bent.place(0.02)
    assert bent.place(-0.01) == -bent.place(0.01)


@pytest.mark.parametrize("high", [0.021, 0.05, 0.11, 0.5, 3.0, 9.0])
@pytest.mark.parametrize("low", [-0.02, -0.05, -0.4])
def test_ticks_lie_inside_the_axis_apart_from_each_other_and_zero_is_one(low: float, high: float) -> None:
    axis = DifferenceAxis(low, high, 0.01)
    places = [place for place, _ in axis.ticks()]
    begin, end = axis.range()
    assert "0" in [text for _, text in axis.ticks()]
    assert 3 <= len(places) <= 7
    assert places == sorted(places)
    assert all(begin <= place <= end for place in places)
    gaps = [after - before for before, after in pairwise(places)]
    assert min(gaps) >= (end - begin) / 6


def test_each_variant_has_its_own_small_figure_with_the_baseline_in_dashes() -> None:
    comparison = large()
    figures = curve_figures(comparison)
    assert [figure.caption for figure in figures][-1] == "relu"
    assert len(figures) == 11
    for figure in figures:
        lines = {trace.name: trace.line.dash for trace in figure.chart.data if trace.name}
        assert lines["softmax"] == "dash"
        assert lines[figure.caption] == "solid"
    assert len({tuple(figure.chart.layout.yaxis.range) for figure in figures}) == 1  # so that they can be compared


def test_bands_hold_all_seeds() -> None:
    comparison = make_comparison(("tied-kv",))
    band = curve_figures(comparison)[0].chart.data[1]
    for cell in comparison.arm("tied-kv").runs:
        for step, loss in cell.curve:
            edges = [y for x, y in zip(band.x, band.y, strict=True) if x == step]
            assert min(edges) <= loss <= max(edges)


def test_diverged_runs_are_drawn_as_far_as_they_came() -> None:
    comparison = large()
    figure = next(figure for figure in curve_figures(comparison) if figure.caption == "relu")
    lost = [trace for trace in figure.chart.data if trace.name and "diverged" in trace.name]
    assert [trace.name for trace in lost] == ["seed 3, diverged", "seed 5, diverged"]
    assert list(lost[0].x) == [55, 110]
    assert list(lost[0].text) == ["3.400", "5.900"]
    assert max(lost[0].y) <= figure.chart.layout.yaxis.range[1]


def test_a_curve_that_is_no_number_is_no_trouble() -> None:
    comparison = make_comparison(("cosine",), seeds=3, diverged={"cosine": (0,)})
    arm = comparison.arms[1]
    broken = dataclasses.replace(arm.runs[0], curve=((55, math.nan), (110, math.inf)), training_curve=())
    arm = dataclasses.replace(arm, runs=(broken, *arm.runs[1:]))
    figures = curve_figures(dataclasses.replace(comparison, arms=(comparison.arms[0], arm)))
    lost = next(trace for trace in figures[0].chart.data if trace.name == "seed 0, diverged")
    assert len(lost.x) == len(lost.y) == 0


def test_the_difference_along_the_run_ends_where_the_verdict_was_made() -> None:
    comparison = make_comparison(("tied-kv",))
    line = gap_figures(comparison)[0].chart.data[1]
    assert line.y[-1] == pytest.approx(comparison.judgements[0].mean)
    assert line.x[-1] == comparison.plan.steps


def test_cost_names_every_arm_and_no_name_hides_another() -> None:
    comparison = large()
    figure = cost_chart(comparison)
    assert figure is not None
    front, points = figure.data
    labels = figure.layout.annotations
    assert {label.text for label in labels} == {arm.name for arm in comparison.arms}
    assert len(points.x) == 12
    begin, end = figure.layout.yaxis.range
    heights = sorted((label.y - begin) / (end - begin) * (figure.layout.height - 60) - label.ay for label in labels)
    assert all(later - earlier >= 15.99 for earlier, later in pairwise(heights))
    assert all(later < earlier for earlier, later in pairwise(front.y))
    assert min(front.y) == min(points.y)


def test_labels_of_sizes_begin_to_the_right_of_all_intervals_and_hide_no_other() -> None:
    effects = {"tied-kv": (0.02, 0.05), "cosine": (0.3, 0.35), "sigmoid": (0.03, 0.051), "relu": (0.02, 0.049)}
    trends = arm_trends(make_ladder(effects, sizes=("14k", "25k"), seeds=4))
    figure = size_chart(trends, "softmax", 0.03)
    labels = figure.layout.annotations
    assert {label.text for label in labels} == set(effects)
    rightmost = max(math.log10(line.x[-1]) for line in figure.data)
    begin, end = figure.layout.xaxis.range
    assert all(label.axref == "x" and label.ax > rightmost + 0.02 * (end - begin) for label in labels)
    begin, end = figure.layout.yaxis.range
    heights = sorted((label.y - begin) / (end - begin) * (figure.layout.height - 70) - label.ay for label in labels)
    assert all(later - earlier >= 15.99 for earlier, later in pairwise(heights))


def test_without_a_loss_there_is_nothing_to_draw() -> None:
    comparison = make_comparison(("cosine",), seeds=2, diverged={"softmax": (0, 1), "cosine": (0, 1)})
    assert cost_chart(comparison) is None
    assert curve_figures(comparison) == []
    assert gap_figures(comparison) == []


def test_rates_are_drawn_only_if_they_were_tried() -> None:
    assert rate_figures(make_comparison()) == []
    figures = rate_figures(make_comparison(tuned=True))
    assert [figure.caption for figure in figures] == ["softmax", "tied-kv", "cosine", "cosine-learned"]
    baseline, own, lost = figures[1].chart.data
    assert baseline.line.dash == "dash"
    assert list(own.x) == [3e-4, 1e-3, 3e-3]
    assert list(lost.x) == [1e-2]


def test_ticks_of_rates_do_not_run_into_each_other() -> None:
    rates = (0.002436, 0.004871, 0.006888, 0.009741, 0.01378, 0.03897)
    trials = [Trial(learning_rate=rate, loss=2.0) for rate in rates]
    axis = rate_chart(trials, None, ()).layout.xaxis
    assert list(axis.ticktext) == ["0.0024", "0.0069", "0.039"]
    assert list(rate_chart(trials[:1], None, ()).layout.xaxis.tickvals) == [0.002436]


def test_a_measure_leaves_a_row_empty_for_an_arm_that_has_none() -> None:
    comparison = make_comparison()
    figure = measure_figures(comparison, ["norm explains"])[0].chart
    assert list(figure.layout.yaxis.ticktext) == ["cosine", "tied-kv", "cosine-learned", "softmax"]
    assert list(figure.data[0].y) == [1, 3]


def test_no_two_of_twenty_series_look_alike() -> None:
    assert len({series_style(number) for number in range(20)}) == 20
    assert len({colour for colour, _, _ in map(series_style, range(10))}) == 10
