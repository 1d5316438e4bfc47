"""The report on what a model knows: one page that works offline and begins with what the model can be trusted with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from attnlab.errors import FileError, InputError
from attnlab.formats import fixed, interval, percent
from attnlab.knowledge.answers.evaluation import (
    UNSEEN,
    Evaluation,
    Proportion,
    ScoreComparison,
    ScoreFindings,
    difference_text,
    evaluate,
    invent_names,
    measure_scores,
    name_of,
)
from attnlab.knowledge.answers.guarantee import DELTA, RISK, Guarantee, ScoreName, score_of, set_guarantee
from attnlab.knowledge.answers.model import KnowledgeModel, ModelAnswer
from attnlab.knowledge.material import read_record
from attnlab.knowledge.pairs import Pair
from attnlab.knowledge.report_charts import (
    reliability_figures,
    risk_figures,
    separation_chart,
    shares_chart,
    threshold_line,
)
from attnlab.pages import Details, Figure, Gallery, Note, Page, Part, Points, Section, Table
from attnlab.runs.ledger import find_paths
from attnlab.statistics import Interval

_ROWS = 50  # examples of each kind


@dataclass(frozen=True)
class Description:
    """Everything that was measured on a run."""

    model: KnowledgeModel
    found: Evaluation  # of the held-out questions
    alone: Evaluation | None  # of the same recipe without pretraining, if such a run exists in the same folder
    unseen: tuple[ModelAnswer, ...]  # to questions about unseen entities
    scores: tuple[ScoreFindings, ...]
    comparisons: tuple[ScoreComparison, ...]
    guarantee: Guarantee | None

    @cached_property
    def baselines(self) -> dict[str, Proportion]:
        """Return the exact matches of the model and of the baselines."""
        rows = {"this model": self.found.exact_match}
        if self.alone is not None:
            rows["finetuned without having read the text"] = self.alone.exact_match
        if self.found.commonest is not None:
            rows[f"always {self.found.commonest_answer}"] = self.found.commonest
        return rows

    @cached_property
    def answered(self) -> Proportion | None:
        """Return how many of the held-out questions that the threshold lets the model answer are answered exactly."""
        if self.guarantee is None or self.guarantee.threshold is None:
            return None
        let = [
            right
            for answer, right in zip(self.found.answers, self.found.right, strict=True)
            if self.guarantee.allows(answer)
        ]
        return Proportion(sum(let), len(let))

    def sentences(self) -> list[str]:
        """Return the findings as sentences."""
        score = self.found.exact_match
        lines = [f"{score.correct} of {score.total} held-out questions are answered exactly: {_percent(score.share)}"]
        for one in self.scores:
            separation = "" if one.auroc is None else f", detects unseen entities with AUROC {_three(one.auroc)}"
            area = one.risk_coverage.area
            lines.append(f"{name_of(one.score)}: ECE {_three(one.reliability.ece)}, area {_three(area)}{separation}")
        lines += [one.sentence for one in self.comparisons]
        if self.guarantee is not None:
            lines.append(self.guarantee.promise)
        return lines

    def to_dict(self) -> dict[str, object]:
        return {
            "run": str(self.model.path),
            **self.found.plain(answers=False),
            "without_pretraining": None if self.alone is None else self.alone.exact_match.plain(),
            "scores": [one.to_dict() for one in self.scores],
            "comparisons": [
                {"first": one.first, "second": one.second, "area": vars(one.area), "says": one.sentence}
                for one in self.comparisons
            ],
            "unseen_entities": len(self.unseen),
            "guarantee": None if self.guarantee is None else self.guarantee.model_dump(mode="json"),
            "held_out_at_the_threshold": None if self.answered is None else self.answered.plain(),
        }


def describe(
    path: Path,
    *,
    samples: int = 10,
    risk: float = RISK,
    delta: float = DELTA,
    score: ScoreName = "probability",
    seed: int = 0,
    unseen: int = UNSEEN,
) -> Description:
    """Ask a run its held-out questions and questions about unseen entities, and set its threshold.

    Parameters
    ----------
    path
        The folder of a finetuned run.
    samples
        Answers that are sampled for each question, to measure their agreement.
    risk
        The accepted share of wrong answers among those given.
    delta
        The probability with which the guarantee may fail.
    score
        The confidence score that the threshold applies to.
    seed
        The seed of the random numbers; the same seed gives the same result.
    unseen
        The number of questions about unseen entities.
    """
    model = KnowledgeModel.open(path)
    pairs = model.pairs("heldout")
    if not pairs:
        raise InputError(f"{path} kept no pairs back", hint="finetune with a larger `heldout_share`")
    found = evaluate(model, pairs, samples, seed)
    names = invent_names(model, unseen, seed)
    invented = tuple(model.answer([model.template.ask(name) for name in names], samples, seed))
    seen = [bool(exposure) for exposure in found.exposures]
    scores, comparisons = measure_scores(found.answers, found.right, seen, invented)
    guarantee = set_guarantee(model, risk, delta, score, seed) if model.pairs("calibration") else None
    return Description(model, found, _evaluate_alone(model, pairs), invented, scores, comparisons, guarantee)


def _evaluate_alone(model: KnowledgeModel, pairs: Sequence[Pair]) -> Evaluation | None:
    """Evaluate the run beside this one with the same recipe and held-out pairs but no pretraining, if there is one."""
    for path in find_paths(model.path.parent):
        try:
            record = read_record(path)
            if record.get("parent") is not None or record.get("stage") != "finetune" or path == model.path:
                continue
            other = KnowledgeModel.open(path)
        except FileError:
            continue  # not a knowledge run, or not finished
        alike = all(record.get(name) == model.record.get(name) for name in ("recipe", "settings"))
        if alike and other.pairs("heldout") == tuple(pairs):
            return evaluate(other, pairs)
    return None


def report_page(found: Description) -> Page:
    """Return the whole report as a page.

    Parameters
    ----------
    found
        The description of a run.
    """
    score = found.found.exact_match
    sections = [_knows(found), _trusted(found), _unseen(found), _calibrated(found), _covered(found), _made(found)]
    return Page(
        title="What the model knows",
        lead=(
            f"Of {score.total} questions that it was never taught, the model answers {_percent(score.share)} exactly. "
            "What it says to the others sounds the same: below is how good its confidence is, and when to trust it."
        ),
        sections=[section for section in sections if section.content],
        facts={
            "run": found.model.path.name,
            "recipe": str(found.model.record.get("recipe", "")),
            "read": f"{len(found.model.material.documents):,} documents",
            "taught": f"{len(found.model.pairs('train')):,} pairs like “{found.model.template}”",
        },
    )


def _knows(found: Description) -> Section:
    content: list[Part] = [Figure(shares_chart(found.baselines), "Exact matches, with 95 % Clopper–Pearson intervals.")]
    by_exposure = found.found.by_exposure
    if len(by_exposure) > 1:
        rows = {f"named in {words} document{'s' * (words != '1')}": score for words, score in by_exposure.items()}
        content.append(
            Figure(shares_chart(rows), "The same, by how many documents of the text name the person asked about.")
        )
    rows_table = [
        (name, str(one.correct), str(one.total), _percent(one.share)) for name, one in found.baselines.items()
    ]
    content.append(Details("In numbers", [Table(("", "right", "of", "share, 95 % interval"), rows_table)]))
    return Section("Exact match", content)


def _trusted(found: Description) -> Section:
    guarantee = found.guarantee
    if guarantee is None:
        return Section(
            "Guarantee for answers from memory",
            [Note("No pairs were kept for setting a threshold, so nothing is guaranteed.")],
        )
    content: list[Part] = [Note(f"{_sentence(guarantee.words)}.")]
    if guarantee.threshold is not None:
        content.append(f"{_sentence(guarantee.limits)}.")
    rows = [
        ("the score", name_of(guarantee.score)),
        ("threshold", "none is safe" if guarantee.threshold is None else f"{guarantee.threshold:.4g}"),
        ("risk that is named", f"{100 * guarantee.risk:g} %"),
        ("chance that it is exceeded, at most", f"{100 * guarantee.delta:g} %"),
        ("calibration pairs", str(guarantee.count)),
        ("answered among them", str(guarantee.answered)),
        ("wrong among those", str(guarantee.errors)),
        ("thresholds tried, from strict to loose", str(guarantee.tried)),
    ]
    if found.answered is not None and found.answered.total:
        wrong = Proportion(found.answered.total - found.answered.correct, found.answered.total)
        rows.append(("held-out questions that reach it", f"{found.answered.total} of {found.found.exact_match.total}"))
        rows.append(("wrong among those", f"{wrong.correct} ({_percent(wrong.share)})"))
    content.append(Table(("what it rests on", ""), rows))
    return Section("Guarantee for answers from memory", content)


def _unseen(found: Description) -> Section:
    if not found.unseen or found.scores[0].auroc is None:
        return Section("Detection of unseen entities", ["The pairs name too few people to invent names."])
    figures, rows = [], []
    for one in found.scores:
        answers = zip(found.found.answers, found.found.exposures, strict=True)
        seen = [score_of(answer, one.score) for answer, exposure in answers if exposure]
        chart = separation_chart(seen, [score_of(answer, one.score) for answer in found.unseen])
        if found.guarantee is not None and found.guarantee.score == one.score:
            threshold_line(chart, found.guarantee.threshold)
        assert one.auroc is not None
        figures.append(Figure(chart, f"{name_of(one.score)}: AUROC {fixed(one.auroc.mean, 3)}"))
        rows.append((name_of(one.score), _three(one.auroc)))
    caption = (
        f"The share of held-out questions about people in the text, and of {len(found.unseen)} about unseen entities, "
        "that reach a confidence. The vertical line is the threshold."
    )
    words = (
        "Unseen entities are names put together from parts of real ones that stand nowhere in the text. Whatever is "
        "answered about them is invented. AUROC is the probability that a person in the text gets a higher confidence "
        "than an unseen entity: 0.5 is chance, 1 is perfect."
    )
    table = Table(("score", "AUROC, 95 % interval (DeLong)"), rows)
    sentences = [one.separation for one in found.comparisons if one.separation is not None]
    return Section(
        "Detection of unseen entities",
        [
            words,
            Gallery(figures, caption),
            table,
            "Compared on the same names, with intervals that hold together:",
            Points(sentences),
        ],
    )


def _calibrated(found: Description) -> Section:
    rows = [
        (
            name_of(one.score),
            _three(one.reliability.ece),
            *(fixed(n, 3) for n in (one.reliability.expected, one.reliability.confidence, one.reliability.accuracy)),
        )
        for one in found.scores
    ]
    caption = (
        "Dots are answers of a like confidence, the larger the more there are, with 95 % intervals; on the dashed "
        "line, confidence is the share that is right; below it, the model is overconfident."
    )
    headings = ("score", "ECE, 95 % interval", "ECE if it were\ncalibrated", "mean\nconfidence", "accuracy")
    words = (
        "ECE is the mean distance between confidence and accuracy over ten bins; on few answers, even a calibrated "
        "model shows some."
    )
    return Section("Calibration", [Gallery(reliability_figures(found.scores), caption), Table(headings, rows), words])


def _covered(found: Description) -> Section:
    rows = [
        (
            name_of(one.score),
            _three(one.risk_coverage.area),
            fixed(one.risk_coverage.area_best, 3),
            fixed(one.risk_coverage.area_blind, 3),
        )
        for one in found.scores
    ]
    caption = (
        "Answering only the surest: the share of wrong ones among them, with a 95 % bootstrap band. The dots are what "
        "a score that knows nothing would do."
    )
    headings = ("score", "area, 95 % interval", "best possible", "knows nothing")
    sentences = [f"{one.sentence} (difference of areas {difference_text(one.area, 4)})" for one in found.comparisons]
    return Section(
        "Risk and coverage",
        [
            Gallery(risk_figures(found.scores), caption),
            Table(headings, rows, caption="The area under the curve: less is better."),
            "Compared on the same answers, with intervals that hold together:",
            Points(sentences),
        ],
    )


def _made(found: Description) -> Section:
    rows = [
        (pair.question, pair.answer, answer.text, "right" if right else "wrong", f"{answer.probability:.3f}")
        for pair, answer, right in zip(found.found.pairs, found.found.answers, found.found.right, strict=True)
    ]
    rows.sort(key=lambda row: -float(row[4]))
    table = Table(
        ("question", "true", "said", "", "probability"),
        rows[:_ROWS],
        text_columns=(0, 1, 2, 3),
        wrap_columns=(0,),
        tones={"right": "good", "wrong": "bad"},
    )
    made = [(answer.question, answer.text, f"{answer.probability:.3f}") for answer in found.unseen]
    made.sort(key=lambda row: -float(row[2]))
    headings = ("question about an unseen entity", "invented", "probability")
    invented = Table(headings, made[:_ROWS], text_columns=(0, 1), wrap_columns=(0,))
    return Section(
        "Examples",
        [
            Details(f"The {min(_ROWS, len(rows))} surest of {len(rows)} held-out answers", [table]),
            *([Details(f"The {min(_ROWS, len(made))} surest inventions", [invented])] if made else []),
        ],
    )


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}"


def _percent(share: Interval) -> str:
    return f"{percent(share.mean, 1)} ({interval(100 * share.low, 100 * share.high, 1, sign=False)})"


def _three(value: Interval) -> str:
    return f"{fixed(value.mean, 3)} ({interval(value.low, value.high, 3, sign=False)})"
