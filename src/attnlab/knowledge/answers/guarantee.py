"""When a model may answer from memory: a threshold on its confidence, and the guarantee that it gives.

The threshold is chosen on the calibration pairs of a run, which nothing else uses, for a risk that the user sets
(`statistics.risk_control`). The candidate thresholds come from the held-out questions, without using their answers.
The threshold is kept in the run's folder with the digest of the weights. New weights, as after `learn`, have no
guarantee until it is set again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from attnlab.errors import FileError, InputError, UnknownNameError
from attnlab.knowledge.answers.model import KnowledgeModel, ModelAnswer
from attnlab.knowledge.pairs import Pair
from attnlab.statistics import control_risk, fewest_needed, spread_thresholds
from attnlab.storage.records import read_json, write_json

FILE = "threshold.json"
RISK, DELTA = 0.05, 0.1
SAMPLES = 10  # answers per question, for measuring agreement

ScoreName = Literal["probability", "length_normalised", "agreement"]
SCORES: tuple[ScoreName, ...] = get_args(ScoreName)


class Guarantee(BaseModel):
    """A threshold, the risk that it guarantees, and the calibration data behind it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    score: ScoreName
    risk: float
    delta: float
    threshold: float | None  # answer where the score reaches it; None: never
    count: int  # calibration pairs
    answered: int
    errors: int
    p_value: float | None
    tried: int  # thresholds
    weights_sha256: str
    pairs_sha256: str
    at: str

    def allows(self, answer: ModelAnswer) -> bool:
        """Return whether the model may give this answer from memory."""
        return self.threshold is not None and answer.problem is None and score_of(answer, self.score) >= self.threshold

    @property
    def words(self) -> str:
        """Return what is guaranteed, in a sentence."""
        if self.threshold is None:
            return (
                f"no threshold keeps the risk below {100 * self.risk:g} % with a confidence of "
                f"{100 * (1 - self.delta):g} % on {self.count} calibration pairs: the model never answers from memory"
            )
        return (
            f"of the answers from memory at most {100 * self.risk:g} % are wrong, with a confidence of "
            f"{100 * (1 - self.delta):g} %: {self.errors} of {self.answered} that reach {self.score.replace('_', ' ')} "
            f"{self.threshold:.3g} were wrong on {self.count} calibration pairs"
        )

    @property
    def promise(self) -> str:
        """Return what is guaranteed and, if there is a threshold, what is not."""
        return self.words if self.threshold is None else f"{self.words}. {self.limits[0].upper()}{self.limits[1:]}"

    @property
    def limits(self) -> str:
        """Return what is not guaranteed."""
        return (
            "it holds for questions drawn like the calibration pairs: not for unseen entities (people whom the model "
            "never read about), not for other kinds of questions, not for what is looked up, and not after the weights "
            "have changed"
        )


def score_of(answer: ModelAnswer, score: ScoreName) -> float:
    value = getattr(answer, score)
    if value is None:
        raise InputError("the agreement was not measured", hint="ask with samples")
    return float(value)


def samples_for(score: ScoreName) -> int:
    return SAMPLES if score == "agreement" else 0


def set_guarantee(
    model: KnowledgeModel, risk: float = RISK, delta: float = DELTA, score: ScoreName = "probability", seed: int = 0
) -> Guarantee:
    """Choose the threshold of a run for a risk, and save it in the run's folder; the same request gives the same one.

    Parameters
    ----------
    model
        A finetuned model with calibration pairs.
    risk
        The accepted share of wrong answers among those given.
    delta
        The probability with which the guarantee may fail.
    score
        The confidence score that the threshold applies to.
    seed
        The seed of the random numbers; the same seed gives the same result.
    """
    found = compute_guarantee(model, risk, delta, score, seed)
    write_json(model.path / FILE, found.model_dump(mode="json"))
    return found


def compute_guarantee(
    model: KnowledgeModel, risk: float = RISK, delta: float = DELTA, score: ScoreName = "probability", seed: int = 0
) -> Guarantee:
    """Compute the threshold that keeps a risk, without writing it to the run's folder."""
    if score not in SCORES:
        raise UnknownNameError("score", score, SCORES)
    fewest = fewest_needed(risk, delta)  # also rejects invalid values
    pairs, others = model.pairs("calibration"), model.pairs("heldout")
    if not pairs or not others:
        raise InputError(
            f"{model.path} has {len(pairs)} calibration pairs and {len(others)} held-out ones, and a threshold needs "
            f"both (at least {fewest} of the first for this risk)",
            hint="finetune with more pairs, or with larger `calibration_share` and `heldout_share`",
        )
    count = samples_for(score)
    scores = [score_of(one, score) for one in model.answer([pair.question for pair in others], count, seed)]
    answers = model.answer([pair.question for pair in pairs], count, seed)
    right = [answer.text == pair.answer for answer, pair in zip(answers, pairs, strict=True)]
    sequence = spread_thresholds(scores, len(pairs), risk, delta)
    found = control_risk([score_of(one, score) for one in answers], right, sequence, risk, delta)
    return Guarantee(
        score=score,
        risk=risk,
        delta=delta,
        threshold=found.threshold,
        count=len(pairs),
        answered=found.answered,
        errors=found.errors,
        p_value=None if found.accepted is None else found.accepted.p_value,
        tried=len(found.steps),
        weights_sha256=model.weights_sha256,
        pairs_sha256=digest_pairs(pairs),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def find_guarantee(model: KnowledgeModel) -> Guarantee | None:
    """Return the guarantee that was set for these weights and these calibration pairs.

    Parameters
    ----------
    model
        The model.

    Returns
    -------
    Guarantee | None
        None if there is none or it is void.
    """
    path = model.path / FILE
    if not path.exists():
        return None
    try:
        found = Guarantee.model_validate(read_json(path))
    except (ValidationError, FileError, ValueError):
        return None  # unreadable: it can be set again, so nothing is lost
    pairs = digest_pairs(model.pairs("calibration"))
    return found if (found.weights_sha256, found.pairs_sha256) == (model.weights_sha256, pairs) else None


def digest_pairs(pairs: Sequence[Pair]) -> str:
    lines = "".join(f"{pair.question}\t{pair.answer}\n" for pair in pairs)
    return hashlib.sha256(lines.encode()).hexdigest()
