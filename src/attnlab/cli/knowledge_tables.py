"""How `attnlab knowledge` shows what it found."""

from __future__ import annotations

from collections.abc import Mapping

from attnlab.cli.printing import make_table, say, show
from attnlab.knowledge.answers.evaluation import Evaluation, Proportion
from attnlab.knowledge.pipeline import KEPT, Story
from attnlab.statistics import Interval

_HEADINGS = ["right", "of", "share", "95 % interval"]


def show_evaluation(found: Evaluation) -> None:
    """Exact matches beside what one gets who knows nothing, and by how many documents name somebody."""
    rows = {"exact match": found.exact_match}
    if found.commonest is not None:
        rows[f"always {found.commonest_answer}"] = found.commonest
    show(make_table(["", *_HEADINGS], score_rows(rows)))
    by_exposure = found.by_exposure
    if len(by_exposure) > 1:
        show("", make_table(["documents about them", *_HEADINGS], score_rows(by_exposure)))
    unfit = sum(not answer.fits for answer in found.answers)
    if unfit:
        say(f"{unfit} questions are not of the kind that the model was trained on")
    for answer in found.answers:
        if answer.problem is not None:
            say(f"not answered: {answer.problem}")
    say(f"{len(found.answers)} questions in {found.seconds:.1f} s")


def show_story(story: Story) -> None:
    """The generated world's story, as three tables."""
    outcome = story.outcome
    found = outcome.evaluation
    rows: dict[str, Proportion] = {}
    if outcome.alone is not None:
        rows["finetuned without having read the text"] = outcome.alone.exact_match
    if found.commonest is not None:
        rows[f"always the commonest place, {found.commonest_answer}"] = found.commonest
    rows["pretrained, then finetuned"] = found.exact_match
    rows["the same about people who are nowhere in the text"] = story.invented
    show("Questions that were never learned", "", make_table(["", *_HEADINGS], score_rows(rows)))
    show("", "By how many documents speak of a person", "")
    show(make_table(["documents", *_HEADINGS], score_rows(found.by_exposure)))
    show("", "Known or made up: does the confidence tell?", "")
    table = [
        [
            one.score.replace("_", "-"),
            f"{one.auroc.mean:.3f}",
            _range(one.auroc, 3),
            f"{one.threshold:.3g}",
            f"{one.turned_away.share.mean:.1%}",
            _percent(one.turned_away.share),
        ]
        for one in story.separations
    ]
    headings = ["score", "AUROC", "95 % interval", "threshold", "turned away", "95 % interval"]
    show(make_table(headings, table, wrap=()))
    say(
        f"The threshold keeps {KEPT:.0%} of the people in the text who were asked about; below it unseen entities are "
        f"rejected. Ask the model: attnlab ask {outcome.path}"
    )


def score_rows(scores: Mapping[str, Proportion]) -> list[list[str]]:
    return [
        [words, str(score.correct), str(score.total), f"{score.share.mean:.1%}", _percent(score.share)]
        for words, score in scores.items()
    ]


def _percent(share: Interval) -> str:
    return f"{share.low:.1%} – {share.high:.1%}"


def _range(interval: Interval, digits: int) -> str:
    return f"{interval.low:.{digits}f} – {interval.high:.{digits}f}"
