"""The report: the verdict first, then all that it rests on, in one file that is not too large."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attnlab.experiments.judging.claims import Claim, judge_claims
from attnlab.experiments.reporting.answer import TONES
from attnlab.experiments.reporting.attention import measure_names
from attnlab.experiments.reporting.report import comparison_page, machine_words, write_report
from attnlab.experiments.reporting.tables import plan_rows
from attnlab.experiments.reporting.wording import VERDICTS
from attnlab.experiments.results import Comparison
from attnlab.pages import Details, Equations, Page, Points, Section, Table, render
from support.comparisons import EFFECTS, make_comparison
from support.runs import make_run

MEGABYTE = 1_000_000
EIGHT = tuple(EFFECTS)[:8]


def headings(page: Page) -> list[str]:
    return [section.heading for section in page.sections]


def section(comparison: Comparison, heading: str) -> Section:
    return next(found for found in comparison_page(comparison).sections if found.heading == heading)


def words_of(html: str) -> str:
    """The text of a page without its scripts, with plain spaces."""
    return re.sub(r"<script>.*?</script>|<style>.*?</style>|<[^>]+>|\u00a0", " ", html, flags=re.DOTALL)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, str]:
    comparison = make_comparison(EIGHT, seeds=10, first_look=5, diverged={"relu": (3, 5)}, tuned=True)
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(comparison, path)
    return comparison, path.read_text(encoding="utf-8")


def test_eight_variants_and_ten_seeds_fit(large: tuple[Comparison, str]) -> None:
    assert len(large[1].encode()) <= 6 * MEGABYTE


def test_the_verdict_comes_first_and_the_limits_with_it(large: tuple[Comparison, str]) -> None:
    words = words_of(large[1])
    verdict = words.index("Against softmax at 230 k parameters and 253 k tokens (context 64, 10 paired seeds):")
    limits = words.index("GPT-2 small has 539 times as many parameters")
    assert verdict < limits < words.index("Paired differences")
    assert limits - verdict < 500


def test_sections_stand_in_their_order() -> None:
    assert headings(comparison_page(make_comparison(tuned=True))) == [
        "Verdict",
        "Paired differences",
        "Along the run",
        "Cost against loss",
        "Train–validation gap",
        "Measures",
        "Learning rates",
        "The plan",
        "Provenance",
    ]
    assert "Learning rates" not in headings(comparison_page(make_comparison()))


def test_every_run_has_its_seed_hash_and_command(large: tuple[Comparison, str]) -> None:
    comparison, html = large
    content = section(comparison, "Provenance").content
    details = next(part for part in content if isinstance(part, Details))
    assert details.summary == "All 90 runs"
    table = next(part for part in details.content if isinstance(part, Table))
    rows = [dict(zip(table.headings, row, strict=True)) for row in table.rows]
    for arm in comparison.arms:
        for cell, row in zip(arm.runs, [row for row in rows if row["variant"] == arm.name], strict=True):
            assert row["seed"] == str(cell.seed)
            assert row["spec"] == arm.arm.hash
            assert row["command"] == cell.command
            assert row["outcome"] == cell.outcome
    assert html.count("attnlab train --variant") == 90
    assert any("relu, seed 3: the loss was not a number" in item for item in points(details))


def points(details: Details) -> list[str]:
    return [item for part in details.content if isinstance(part, Points) for item in part.items]


def test_the_plan_is_told_in_words(large: tuple[Comparison, str]) -> None:
    comparison, html = large
    words = words_of(html)
    for expected in (
        "validation loss in nats after the last step, never the best of a curve",
        "corrected for 8 arms by Holm",
        "margin of 1 % of perplexity",
        "8.4 minutes on 2 processes of 1 thread",
        "were taken for all interim analyses together",
        "a recorded search (docs/log.md)",
        "degrees of freedom",
        "by flipping the signs of 5 differences",
        *comparison.plan.warnings,
    ):
        assert expected in words
    assert len(comparison.plan.warnings) > 0


def test_a_plan_has_rows_before_anything_ran() -> None:
    rows = dict(plan_rows(make_comparison().plan))
    assert rows["variants"] == "tied-kv, cosine, cosine-learned; against softmax"
    assert re.fullmatch(
        r"can detect a difference of [\d.]+ % of perplexity \([\d.]+ nats\) at 90 % power; an identical arm is shown "
        r"to be equivalent with \d+ % power; for 1 %, the margin, \d+ seeds are needed",
        rows["power"],
    )
    rates = "softmax 0.003, tied-kv 0.003, cosine 0.003, cosine-learned 0.003"
    assert rows["rates"] == f"nano: {rates} – a recorded search (docs/log.md)"
    assert rows["size"].startswith("nano: 230,000 parameters (786,432 without embeddings), 253 k tokens in 330 steps")
    assert not any(value.startswith(("+", "−")) for value in rows.values())


def test_measures_are_explained_and_those_unknown_are_shown_too(large: tuple[Comparison, str]) -> None:
    comparison, html = large
    names = measure_names(comparison)
    assert names == ["row mass", "entropy", "first-token share", "sparsity", "norm explains"]
    assert "how evenly a row spreads its weight" in html
    for cell in comparison.arms[0].runs:
        assert not set(names) - set(cell.measures)


def test_a_comparison_without_measures_has_no_section_on_them() -> None:
    comparison = make_comparison(("cosine",), seeds=2, diverged={"softmax": (0, 1), "cosine": (0, 1)})
    page = comparison_page(comparison)
    assert headings(page) == ["Verdict", "Paired differences", "The plan", "Provenance"]
    assert "cosine is undecided" in render(page)


def test_verdicts_are_coloured_and_said() -> None:
    assert set(VERDICTS) <= set(TONES)
    html = render(comparison_page(make_comparison()))
    assert '<td class="text bad">worse</td>' in html
    assert '<td class="text good">better</td>' in html


def test_the_machine_is_that_of_the_runs(tmp_path: Path) -> None:
    comparison = make_comparison(("tied-kv",), seeds=2, path=tmp_path)
    assert "records of the runs are missing" in machine_words(comparison).items[0]
    for cell in comparison.baseline.runs:
        make_run(cell.path)
    assert (
        "records of the runs are missing" in machine_words(comparison).items[0]
    )  # one without a processor is as good as none
    record = (
        '{"machine": {"processor": "A processor", "cores": 2, "system": "Linux"}, '
        '"versions": {"python": "3.11", "torch": "2.13", "attnlab": "0.1"}}'
    )
    for number, arm in enumerate(comparison.arms):
        for cell in arm.runs:
            cell.path.mkdir(parents=True, exist_ok=True)
            (cell.path / "run.json").write_text(record, encoding="utf-8")
        count = "2 of 4 runs: " if number == 0 else ""
        words = f"{count}A processor, 2 cores, Linux; Python 3.11, PyTorch 2.13, attnlab 0.1."
        assert words in machine_words(comparison).items


def test_no_path_of_the_machine_is_in_the_report(tmp_path: Path) -> None:
    comparison = make_comparison(("tied-kv",), seeds=2, path=tmp_path / "compare-it")
    html = render(comparison_page(comparison))
    assert str(tmp_path) not in html
    assert "compare-it" in html


def test_claims_are_shown_if_they_were_judged() -> None:
    comparison = make_comparison()
    card = Claim(
        id="tied",
        statement="Tying is mild",
        arm="tied-kv",
        low=-1,
        high=5,
        published="+2 %",
        setting="GPT-2",
        source="a paper",
    )
    page = comparison_page(comparison, judge_claims(comparison, [card]))
    assert headings(page)[2] == "Published claims"
    html = render(page)
    assert "Tying is mild" in html
    assert '<td class="text good">reproduced</td>' in html


def test_names_stay_text() -> None:
    comparison = make_comparison(("tied-kv",), seeds=2)
    html = render(comparison_page(comparison))
    assert "<script>alert" not in html
    attacked = comparison.plan.arms[1].model_copy(update={"meaning": "<script>alert(1)</script>"})
    plan = comparison.plan.model_copy(update={"arms": (comparison.plan.arms[0], attacked)})
    html = render(comparison_page(Comparison(plan, *_rest(comparison))))
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert" in html


def _rest(comparison: Comparison) -> tuple[object, ...]:
    return comparison.path, comparison.arms, comparison.judgements, comparison.looks, comparison.seconds


def test_the_same_comparison_is_the_same_file(tmp_path: Path) -> None:
    for name in ("one.html", "two.html"):
        write_report(make_comparison(("tied-kv",), seeds=3), tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_the_plan_states_the_equations_of_every_arm_at_its_size() -> None:
    comparison = make_comparison(("cosine", "low-rank-value"))
    details = next(part for part in section(comparison, "The plan").content if isinstance(part, Details))
    texts = [part.text if isinstance(part, Equations) else part for part in details.content]
    assert texts[0] == "`softmax`"
    assert "p_j = e^s_j / Σ e^s_l" in texts[1]
    spec = comparison.plan.arms[2].run.attention()[0]
    assert texts[2:] == [
        "`cosine`",
        "s_j = q·k / (|q| |k|)",
        "`low-rank-value`",
        f"D_k = {spec.key_width}, D_v = {spec.value_width}",
    ]
