"""What exhibits share: parameters, the stage, checks that can fail, and the drawings."""

from __future__ import annotations

import builtins
import io
import json
import math
import runpy
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import Field
from rich.console import Console

from attnlab.errors import InputError, SpecError, UnknownNameError
from attnlab.exhibits import (
    Outcome,
    Parameters,
    Stage,
    bars,
    exhibit,
    histogram,
    line,
    number_text,
    points,
    vector_text,
)
from attnlab.exhibits.blocks import Heatmap, Plot, cell_text, powers, round_places
from attnlab.exhibits.gallery import setting_text
from attnlab.exhibits.heads import kqv_construction
from attnlab.exhibits.terminal import Printer, Watcher, heatmap_text, plot_text
from attnlab.pages import render
from attnlab.statistics import Estimate


class Dice(Parameters):
    sides: int = Field(6, ge=2, le=100, description="how many sides a die has")
    loaded: bool = Field(False, description="whether it is loaded")
    faces: tuple[int, ...] = Field((1, 2), description="some faces")
    seed: int = Field(0, ge=0, description="of the random numbers")


@exhibit("dice", "Dice are fair", chapter="geometry", claims=("x", "y"), equation="E = (n + 1)/2", smoke={"sides": 3})
def dice(show: Stage, parameters: Dice) -> None:
    """The mean of a die is half of one more than its sides.

    More words that are not part of the claim.
    """
    draws = torch.randint(parameters.sides, (4000,)) + 1.0
    if parameters.loaded:
        draws = draws.clamp(min=2)
    show.say("A die\n  is thrown.")
    show.formula("a = b\nc = d")
    show.numbers("Numbers", {"sides": parameters.sides, "words": "yes"})
    show.table("Table", ("a", "b", "c"), [("x", 1234567, float("nan")), ("y", True, torch.tensor(0.25))])
    show.plot(
        "Curve", line("derived", [1, 2], [1, 2]), points("sampled", [1, 2], [1, 2], [0.1, 0.2]), x="x (m)", y="y (s)"
    )
    show.plot("Spread", histogram("sampled", draws), x="face", y="density", caption="Flat.")
    show.plot("Bars", bars("with", [1.0, -2.0]), bars("without", [0.5, math.inf]), labels=["a", "b"], x="", y="loss")
    show.heatmap("Map", [[1, 2], [3, math.nan]], rows=["r", "s"], columns=["t", "t"], x="key", y="query", unit="weight")
    show.slip(claim="x", says="it is n/2", computed="it is (n + 1)/2")
    for _ in show.progress(range(3), "throwing"):
        pass
    show.sampled("mean", claim="x", samples=draws, derived=(parameters.sides + 1) / 2)
    show.check("sides", claim="y", found=parameters.sides, expected=parameters.sides)


def test_a_run_keeps_everything_in_order() -> None:
    before = torch.get_rng_state()
    outcome = dice.run(sides=8)
    assert torch.equal(torch.get_rng_state(), before)
    assert outcome.ok
    assert [check.claim for check in outcome.checks] == ["x", "y"]
    data = json.loads(json.dumps(outcome.to_dict(), allow_nan=False))
    assert data["claim"] == "The mean of a die is half of one more than its sides."
    assert data["parameters"] == {"sides": 8, "loaded": False, "faces": [1, 2], "seed": 0}
    assert data["checks"][0]["samples"] == 4000
    kinds = [block["kind"] for block in data["blocks"]]
    assert kinds == ["words", "formula", "tableblock", "tableblock", "plot", "plot", "plot", "heatmap", "slip"]
    assert data["blocks"][0]["text"] == "A die is thrown."
    assert "blocks" not in outcome.to_dict(blocks=False)
    assert [check.figure for check in dice.run(sides=8).checks] == [check.figure for check in outcome.checks]


def test_a_spoilt_exhibit_fails_with_its_figure() -> None:
    outcome = dice.run(loaded=True)
    assert not outcome.ok
    failed = outcome.checks[0]
    assert not failed.ok
    assert "derived 3.5" in failed.figure
    assert failed.found is not None
    assert failed.found > 3.6
    out = io.StringIO()
    printer = Printer(Console(file=out, width=100, highlight=False), Console(file=io.StringIO()))
    printer.run(dice, loaded=True)
    assert "✗ FAILS  x" in out.getvalue()
    assert "1 of 2 checks hold" in out.getvalue()
    assert "FAILS" in render(outcome.page())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sides": "1"}, r"sides = 1 is impossible: .*greater than or equal to 2"),
        ({"sides": "many"}, "sides = many is impossible"),
        ({"sides": "nan"}, "sides = nan is impossible"),
        ({"faces": "1,x"}, "faces = x is impossible"),
        ({"seed": "5000000000"}, "seed = 5000000000 is more than a generator takes"),
    ],
)
def test_impossible_values_are_refused_with_what_is_allowed(settings: dict[str, str], words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        dice.run(**settings)
    assert caught.value.hint
    assert next(iter(settings)) in str(caught.value)


def test_values_are_read_as_they_are_typed() -> None:
    found = Dice.parse({"sides": "12", "loaded": "true", "faces": "3, 4,5"})
    assert found == Dice(sides=12, loaded=True, faces=(3, 4, 5))
    with pytest.raises(UnknownNameError, match="no parameter called 'side'"):
        Dice.parse({"side": 3})
    with pytest.raises(UnknownNameError, match="no parameter called 'side'"):
        Dice(side=3)
    with pytest.raises(SpecError, match="no parameter"):
        Parameters.parse({"seed": 1})
    with pytest.raises(Exception, match="frozen"):
        found.sides = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("value", "text"), [(2015.0, "2015"), ([2.0, -0.5], "2,-0.5"), (1e-06, "1e-06"), (True, "True"), ("dot", "dot")]
)
def test_settings_are_shown_as_they_are_typed(value: object, text: str) -> None:
    assert setting_text(value) == text


def test_a_claim_without_a_check_and_a_check_without_a_claim_are_defects() -> None:
    @exhibit("silent", "Nothing", chapter="cost", claims=("x",), equation="")
    def silent(show: Stage, parameters: Parameters) -> None:
        """Nothing is checked."""

    @exhibit("stray", "Something else", chapter="cost", claims=("x",), equation="")
    def stray(show: Stage, parameters: Parameters) -> None:  # noqa: ARG001
        """Something else is checked."""
        show.check("other", claim="z", found=1, expected=1)

    with pytest.raises(AssertionError, match="no check for the claims"):
        silent.run()
    with pytest.raises(AssertionError, match="several claims"):
        Stage(("x", "y")).check("which", found=1, expected=1)
    with pytest.raises(AssertionError, match="does not name the claim 'z'"):
        stray.run()


@pytest.mark.parametrize(
    ("found", "expected", "within", "ok"),
    [
        (1.0, 1.0, 0.0, True),
        (1.0, 1.0 + 1e-9, 0.0, False),
        ([1, 2, 3], torch.tensor([1, 2, 3.1]), 0.11, True),
        ([1, 2, 3], [1, 2, 3.2], 0.1, False),
        ([1, math.nan], [1, 2], 9.0, False),
        (math.nan, math.nan, 1.0, False),
        (math.inf, math.inf, 0.0, True),
        ([2, 2], 2, 0.0, True),
    ],
)
def test_check(found: object, expected: object, within: float, ok: bool) -> None:
    stage = Stage(("x",))
    assert stage.check("what", claim="x", found=found, expected=expected, within=within) is ok
    assert stage.checks[0].figure


def test_bound_sampled_distributed_and_require_can_fail() -> None:
    stage = Stage(("x",))
    assert stage.bound("b", claim="x", found=1.0, at_least=1.0, at_most=2)
    assert not stage.bound("b", claim="x", found=math.nan, at_most=2)
    assert not stage.bound("b", claim="x", found=3, at_most=2)
    assert stage.sampled("s", claim="x", samples=Estimate(1.0, 0.1, 50), derived=1.4)
    assert not stage.sampled("s", claim="x", samples=Estimate(1.0, 0.1, 50), derived=1.41)
    assert not stage.sampled("s", claim="x", samples=Estimate(math.nan, 0.1, 50), derived=1.41)
    draws = np.random.default_rng(0).random(1000)
    assert stage.distributed("d", claim="x", samples=draws, cumulative=lambda x: x)
    assert not stage.distributed("d", claim="x", samples=draws**1.5, cumulative=lambda x: x)
    assert not stage.require("r", claim="x", holds=False, figure="0 of 1")
    with pytest.raises(InputError, match="no limit"):
        stage.bound("b", claim="x", found=1.0)
    with pytest.raises(InputError, match="compares 2 numbers with 3"):
        stage.check("c", claim="x", found=[1, 2], expected=[1, 2, 3])


def test_drawings_that_do_not_fit_are_refused() -> None:
    stage = Stage(())
    with pytest.raises(InputError, match="2 x and 1 y"):
        line("a", [1, 2], [1])
    with pytest.raises(InputError, match="errors"):
        points("a", [1, 2], [1, 2], [1])
    with pytest.raises(InputError, match="label for each bar"):
        stage.plot("p", bars("a", [1, 2]), labels=["x"], x="", y="")
    with pytest.raises(InputError, match="label for each bar"):
        stage.plot("p", x="", y="")
    with pytest.raises(InputError, match="shape"):
        stage.heatmap("h", [[1, 2]], rows=["r"], columns=["c"], x="", y="", unit="")
    with pytest.raises(InputError, match="2 cells"):
        stage.table("t", ("a", "b"), [("x",)])


def test_a_histogram_is_a_density_of_all_samples() -> None:
    made = histogram("h", [0.0, 0.5, 1.0, 9.0], bins=2, low=0, high=1)
    assert made.x == (0.0, 0.5, 1.0)
    assert made.y == (0.5, 1.0)  # a quarter and a half of the samples, over half a unit each


@pytest.mark.parametrize(
    ("cell", "text"),
    [(True, "yes"), (1234567, "1,234,567"), (1234, "1234"), (-0.5, "−0.5"), (-0.0, "0"), (math.inf, "∞"), ("x", "x")],
)
def test_cells(cell: object, text: str) -> None:
    assert cell_text(cell) == text  # type: ignore[arg-type]


def test_numbers() -> None:
    assert number_text(-math.inf) == "−∞"
    assert number_text(math.nan) == "not a number"
    assert vector_text(torch.tensor([2.0, 8, -20])) == "(2, 8, −20)"


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize(("log_x", "log_y"), [(False, False), (True, True)])
def test_terminal_plots_keep_to_the_width(width: int, log_x: bool, log_y: bool) -> None:
    series = (line("a", [1, 10, 100], [1e-9, 1, math.nan]), points("b", [1, 10, 100], [0.0, 1, 2], [0, 0.5, 1]))
    plot = Plot("t", series, "x (m)", "y (s)", log_x=log_x, log_y=log_y)
    text = plot_text(plot, width, colour=False)
    assert "\x1b" not in text
    assert all(len(row) <= max(width, 40) for row in text.splitlines())
    assert "x (m)" in text
    assert "y (s)" in text
    assert "● b" in text
    assert "●" in text.split("\n", 1)[1]
    assert "\x1b" in plot_text(plot, width, colour=True)


def test_terminal_bars_and_maps() -> None:
    plot = Plot("t", (bars("a", [1.0, -2.0]), bars("b", [0.0, math.nan])), "", "loss", labels=("one", "two"))
    text = plot_text(plot, 60, colour=False)
    assert text.splitlines()[1].endswith(" 1")
    assert "−2" in text
    assert "not a number" in text
    stage = Stage(())
    stage.heatmap("m", np.eye(30), rows=map(str, range(30)), columns=map(str, range(30)), x="k", y="q", unit="w")
    stage.heatmap("m", [[0.0, 1.0]], rows=["r"], columns=["c", "d"], x="k", y="q", unit="w")
    wide, small = stage.blocks
    assert isinstance(wide, Heatmap)
    assert isinstance(small, Heatmap)
    assert all(len(row) <= 80 for row in heatmap_text(wide, 80).splitlines())
    assert "█ 1" in heatmap_text(small, 80)


@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-3.0, 7.2), (0.1, 0.10001), (5.0, 5.0), (0.0, 1e9), (-1e-9, 0.0)]
)
def test_round_places_enclose_and_are_few(low: float, high: float) -> None:
    places = round_places(low, high)
    assert places[0] <= low + 1e-9 * abs(low)
    assert places[-1] >= high - 1e-9 * abs(high)
    assert 2 <= len(places) <= 9
    assert places == sorted(set(places))


def test_powers_of_ten() -> None:
    assert powers([1, 1000]) == [1, 10, 100, 1000]
    assert powers([3, 30]) == [5, 10, 20]
    assert len(powers([1e-20, 1e20])) <= 9


def test_progress_is_told_to_a_terminal_and_wiped() -> None:
    out = io.StringIO()
    watcher = Watcher(Console(file=out, force_terminal=True, width=40))
    watcher.progress("training", 0, 10)
    assert "training: 0 of 10" in out.getvalue()
    watcher.progress("training", 10, 10)
    assert out.getvalue().endswith("\r\x1b[2K")


def test_progress_is_plain_lines_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("attnlab.exhibits.terminal.time.monotonic", lambda: now[0])
    out = io.StringIO()
    watcher = Watcher(Console(file=out))
    for done in range(1, 31):
        now[0] += 1
        watcher.progress("training", done, 30)
    assert out.getvalue().splitlines() == ["training: 11 of 30   0:17 left", "training: 22 of 30   0:08 left"]


def test_no_colour_without_a_terminal_or_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    def printed(console: Console) -> str:
        Printer(console, Console(file=io.StringIO())).run(dice)
        return console.file.getvalue()  # type: ignore[attr-defined]

    assert "\x1b" not in printed(Console(file=io.StringIO(), width=80))
    assert "\x1b[38;5;33m" in printed(Console(file=io.StringIO(), width=80, force_terminal=True, color_system="256"))
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in printed(Console(file=io.StringIO(), width=80, force_terminal=True)).replace("\x1b[3m", "")


def test_a_page_holds_everything_and_a_notebook_shows_it() -> None:
    outcome = dice.run()
    html = render(outcome.page())
    for words in ("Dice are fair", "E = (n + 1)/2", "it is n/2", "2 of 2 hold", "sides = 6", "x (m)", "1,234,567"):
        assert words in html
    shown = outcome._repr_html_()
    assert shown.startswith("<iframe sandbox=")
    assert shown.count('"') == 8  # the page inside has none left


def test_a_file_of_an_exhibit_runs_by_itself(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(kqv_construction.__file__)), run_name="__main__")
    assert "4 of 4 checks hold" in capsys.readouterr().out


def test_a_spoilt_one_that_runs_by_itself_ends_with_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnlab.exhibits.stage.ERRORS", -1.0)
    with pytest.raises(SystemExit) as ended:
        dice.main()
    assert ended.value.code == 1
    assert "✗ FAILS" in capsys.readouterr().out


def test_in_a_notebook_it_is_displayed(monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[Outcome] = []
    notebook = types.ModuleType("IPython.display")
    notebook.display = displayed.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", notebook)
    monkeypatch.setattr(builtins, "get_ipython", lambda: None, raising=False)
    dice.main()
    assert [outcome.exhibit for outcome in displayed] == [dice]
