"""The words of a comparison say what was found, in plain terms and with the figures."""

from __future__ import annotations

import dataclasses
import math

import pytest

from attnlab.experiments.numbers import measure_text, percent_interval, percent_text, seeds_text, share_text, with_ends
from attnlab.experiments.reporting.tables import HEADINGS, rows
from attnlab.experiments.reporting.wording import (
    VERDICTS,
    analysis_words,
    bigram_words,
    diverged_words,
    first_lines,
    headline,
    matching_words,
    notes,
    pilot_words,
    scale_words,
    verdict_sentence,
    verdict_sentences,
)
from attnlab.experiments.results import Comparison
from attnlab.formats import count
from attnlab.statistics import Interval
from support.comparisons import EFFECTS, STEPS, make_comparison

SCOPE = "at 230 k parameters and 253 k tokens"


def sized(parameters: int, tokens: int) -> Comparison:
    """Return a comparison at another size and length."""
    comparison = make_comparison(("tied-kv",), seeds=3)
    arm = comparison.plan.baseline.model_copy(update={"parameters": parameters})
    plan = comparison.plan.model_copy(update={"arms": (arm, *comparison.plan.others), "tokens": tokens})
    return dataclasses.replace(comparison, plan=plan)


def test_the_verdict_comes_first_and_then_how_far_it_reaches() -> None:
    first, second = first_lines(make_comparison(("tied-kv", "cosine-learned", "entmax15", "cosine")))
    assert first.startswith(
        f"Against softmax {SCOPE} (context 64, 8 paired seeds): cosine-learned is better; tied-kv and cosine are worse"
    )
    assert second.startswith("GPT-2 small has 539 times as many parameters.")
    assert "`attnlab scale` measures the trend" in second


def test_one_variant_has_its_sentence_as_the_headline() -> None:
    comparison = make_comparison(("tied-kv",))
    sentence = headline(comparison)
    assert sentence.startswith(f"Against softmax {SCOPE} (context 64, 8 paired seeds), tied-kv is worse: +")
    assert "% perplexity (97.5 % interval +" in sentence
    assert "fewer steps" in sentence
    assert "0.50 × the cache" in sentence
    assert "0.92 × the parameters" in sentence


@pytest.mark.parametrize(
    ("parameters", "expected"), [(30_000, "4,133 times"), (800_000, "155 times"), (10_000_000, "12 times")]
)
def test_a_small_model_is_set_against_gpt2_and_the_way_to_larger_ones_is_named(parameters: int, expected: str) -> None:
    words = scale_words(sized(parameters, 4_000_000).plan)
    assert f"GPT-2 small has {expected} as many parameters" in words
    assert "`attnlab scale`" in words


def test_a_model_of_gpt2s_size_is_not_called_small() -> None:
    words = scale_words(sized(124_000_000, 5_000_000).plan)
    assert "mall" not in words
    assert "5.00 M tokens" in words


@pytest.mark.parametrize(("parameters", "tokens"), [(31_000, 4_000_000), (124_000_000, 2_500_000_000)])
def test_every_verdict_carries_its_scope(parameters: int, tokens: int) -> None:
    comparison = sized(parameters, tokens)
    scope = f"at {count(parameters)} parameters and {count(tokens)} tokens"
    assert scope in headline(comparison)
    assert f"tied-kv is worse {scope}" in verdict_sentences(comparison)[0]


def test_what_is_unsettled_gets_no_verdict_but_a_reason() -> None:
    comparison = make_comparison(("tied-kv",))
    judgement = dataclasses.replace(comparison.judgements[0], verdict="unsettled", reason="It still grows.")
    words = verdict_sentence(comparison, judgement)
    assert words == f"tied-kv gets no verdict {SCOPE}: the runs are too short to judge it. It still grows."
    assert "unsettled" in VERDICTS


def test_each_verdict_has_its_words() -> None:
    comparison = make_comparison(tuple(EFFECTS), diverged={"relu": (3, 5)}, seeds=10)
    sentences = {one.arm: verdict_sentence(comparison, one) for one in comparison.judgements}
    verdicts = {one.arm: one.verdict for one in comparison.judgements}
    assert set(verdicts.values()) == {"better", "worse", "equivalent", "undecided", "unstable"}
    assert sentences["relu"] == f"relu is unstable {SCOPE} (diverged at seeds 3 and 5, 2 of 10)."
    same = next(name for name, verdict in verdicts.items() if verdict == "equivalent")
    assert f"{same} is equivalent {SCOPE} within the margin of 1 %:" in sentences[same]
    assert all(verdicts[name] in words for name, words in sentences.items())


def test_a_difference_inside_the_margin_says_so() -> None:
    comparison = make_comparison(("tied-kv",))
    judgement = dataclasses.replace(comparison.judgements[0], within_margin=True)
    words = verdict_sentence(comparison, judgement)
    assert f"tied-kv is worse {SCOPE}, though by less than the margin of 1 %:" in words


def test_those_that_differ_are_told_first() -> None:
    comparison = make_comparison(("entmax15", "cosine", "cosine-learned"))
    assert [words.split()[0] for words in verdict_sentences(comparison)][:2] == ["cosine-learned", "cosine"]


def test_a_row_for_each_arm_the_best_first() -> None:
    comparison = make_comparison(("cosine", "tied-kv", "cosine-learned"), diverged={"cosine": (1,)})
    found = rows(comparison)
    assert [row[0] for row in found] == ["softmax", "cosine-learned", "tied-kv", "cosine"]
    assert all(len(row) == len(HEADINGS) for row in found)
    row = dict(zip(HEADINGS, found[2], strict=True))
    assert row["verdict"] == "worse"
    assert row["Δ loss\n(nats)"].startswith("+0.0")
    assert row["Δ perplexity"].startswith("+")
    assert row["worth\nin steps"].startswith("−")
    assert row["p\n(Holm)"] == "< 0.001"
    assert row["cache"] == "0.50 ×"
    lost = dict(zip(HEADINGS, found[3], strict=True))
    assert lost["verdict"] == "unstable"
    assert lost["worth\nin steps"] == lost["Δ perplexity"] == lost["interval"] == lost["p\n(Holm)"] == "–"


def test_a_single_analysis_is_not_counted() -> None:
    made = make_comparison()
    procedure = dataclasses.replace(made.plan.procedure, looks=1)
    alone = dataclasses.replace(made, plan=made.plan.model_copy(update={"procedure": procedure}))
    assert analysis_words(alone).startswith("This is the only analysis planned; it tests at a level of 0.05.")


def test_looks_are_counted_and_what_they_changed_is_said() -> None:
    first = make_comparison(seeds=4)
    assert analysis_words(first).startswith(
        "This is interim analysis 1 of 2 planned; each tests at a level of 0.05 / 2 = 0.025."
    )
    second = make_comparison(("sparsemax", "sigmoid", "entmax15"), seeds=12, first_look=3)
    words = analysis_words(second)
    assert words.startswith("This is interim analysis 2 of 2 planned")
    assert "Analysis 2 added seeds 3–11 to seeds 0–2: it changed" in words
    before, after = (look.verdicts for look in second.looks)
    for name in after:
        assert (f"{name} from {before[name]} to {after[name]}" in words) == (before[name] != after[name])


def test_what_is_undecided_may_have_more_seeds_if_a_look_is_left() -> None:
    early = make_comparison(("sigmoid",), seeds=3, noise=0.02)
    assert early.judgements[0].verdict == "undecided"
    assert "Seeds can be added once more (`add_seeds=3`). About" in analysis_words(early)
    late = make_comparison(("sigmoid",), seeds=4, first_look=3, noise=0.02)
    assert late.judgements[0].verdict == "undecided"
    assert "No analysis is left" in analysis_words(late)


def test_diverged_runs_are_named_those_of_the_baseline_too() -> None:
    comparison = make_comparison(diverged={"softmax": (0,), "cosine": (1, 2, 3)})
    assert diverged_words(comparison) == [
        "Diverged: softmax at seed 0 and cosine at seeds 1–3. They are counted and shown, never dropped."
    ]
    assert {one.verdict for one in comparison.judgements} == {"undecided"}
    assert diverged_words(make_comparison()) == []


def test_everything_diverged_is_still_a_comparison() -> None:
    comparison = make_comparison(("cosine",), seeds=2, diverged={"softmax": (0, 1), "cosine": (0, 1)})
    assert headline(comparison).endswith("cosine is undecided.")
    assert rows(comparison)[0][2] == "–"
    assert bigram_words(comparison) == ""


@pytest.mark.parametrize(
    ("bigram", "expected"),
    [
        (2.02, "nats below the best bigram table (2.020)."),
        (1.80, "nats below the best bigram table (1.800): these runs are too short or too small"),
        (1.50, "nats above the best bigram table (1.500): these runs are too short or too small"),
        (None, ""),
    ],
)
def test_the_baseline_stands_against_the_best_bigram_table(bigram: float | None, expected: str) -> None:
    assert expected in bigram_words(make_comparison(bigram_loss=bigram))
    assert (bigram is None) == (bigram_words(make_comparison(bigram_loss=bigram)) == "")


def test_the_baselines_loss_is_told_in_bits_per_byte_where_bytes_are_known() -> None:
    comparison = make_comparison(bytes_per_token=2.0)
    assert comparison.baseline.loss is not None
    bits = comparison.baseline.loss / math.log(2) / 2
    assert bigram_words(comparison).endswith(f"(2.020); that is {bits:.3f} bits per byte.")
    assert "bits per byte" not in bigram_words(make_comparison())


def test_matching_says_whether_verdict_and_ranking_survive() -> None:
    words = matching_words(make_comparison(match=True))
    assert words[0].startswith(
        "tied-kv [parameters] is made equal in parameters (0.1 % more) by mlp_width = 430, and is still worse (+"
    )
    assert words[-1] == "The ranking survives the matching."
    assert matching_words(make_comparison()) == []


def test_a_ranking_that_turns_round_is_told() -> None:
    comparison = make_comparison(("tied-kv", "cosine"), match=True)
    turned = tuple(
        dataclasses.replace(one, mean=0.9, low=0.8, high=1.0) if one.arm.endswith("]") else one
        for one in comparison.judgements
    )
    words = matching_words(dataclasses.replace(comparison, judgements=turned))
    assert words[-1] == "The ranking does not survive the matching: tied-kv and cosine change places."


def test_the_plans_warnings_are_repeated() -> None:
    comparison = make_comparison(seeds=3)
    assert comparison.plan.warnings
    assert set(comparison.plan.warnings) <= set(notes(comparison))
    later = make_comparison(seeds=6, first_look=3)
    assert later.plan.warnings
    assert not set(later.plan.warnings) & set(notes(later))  # they spoke of the first look


def test_arms_without_a_mean_come_last() -> None:
    comparison = make_comparison(("cosine", "tied-kv"), diverged={"tied-kv": (0,)})
    assert [one.arm for one in comparison.ranking] == ["cosine", "tied-kv"]


def test_steps_that_an_arm_is_worth() -> None:
    comparison = make_comparison(("cosine-learned",), noise=0.0001)
    share = comparison.worth("cosine-learned")
    assert share is not None
    assert share > 1
    assert f"worth {share - 1:.0%}".replace("%", " % more steps") in headline(comparison)
    assert comparison.plan.steps == STEPS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (percent_text(0.0188), "+1.9 %"),
        (percent_text(-0.0003), "−0.03 %"),
        (percent_text(0.5), "+65 %"),
        (percent_interval(Interval(1.9, 1.2, 2.6), "95 %"), "+1.9 % (95 % interval +1.2 … +2.6)"),
        (percent_interval(None, "95 %"), "–"),
        (percent_text(0.0188, sign=False), "1.9 %"),
        (percent_text(None), "–"),
        (share_text(0.05), "5 %"),
        (share_text(0.975), "97.5 %"),
        (with_ends(Interval(0.02, -0.01, 0.05), 2), "+0.02 (−0.01 … +0.05)"),
        (seeds_text([3]), "seed 3"),
        (seeds_text([1, 2]), "seeds 1 and 2"),
        (seeds_text([7, 0, 1, 2, 3]), "seeds 0–3 and 7"),
        (seeds_text([]), "no seeds"),
        (measure_text(-0.04), "−0.040"),
        (measure_text(12345.0), "1.2e+04"),
        (measure_text(0.0012), "0.0012"),
        (measure_text(0.0), "0.000"),
    ],
)
def test_numbers_are_written_for_people(text: str, expected: str) -> None:
    assert text == expected


def test_a_pilot_that_was_not_used_is_told() -> None:
    comparison = make_comparison(("tied-kv", "cosine"), seeds=4)
    size = comparison.plan.request.size
    known = {size: {"tied-kv": (0.01, 0.02, 0.03)}}
    pilot = comparison.plan.pilot.model_copy(update={"differences": known, "seeds": (100, 101, 102)})
    piloted = dataclasses.replace(comparison, plan=comparison.plan.model_copy(update={"pilot": pilot}))
    assert pilot_words(comparison) == ""
    assert pilot_words(piloted).startswith("The pilot was not used for tied-kv, because these seeds are significantly")
    assert pilot_words(piloted) in notes(piloted)
    pooled = tuple(dataclasses.replace(one, degrees=5) for one in piloted.judgements)
    assert pilot_words(dataclasses.replace(piloted, judgements=pooled)) == ""
    own = pilot.model_copy(update={"seeds": (3, 4, 5)})
    shared = dataclasses.replace(comparison, plan=comparison.plan.model_copy(update={"pilot": own}))
    assert "because it has some of these seeds too" in pilot_words(shared)
