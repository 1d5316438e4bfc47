"""The whole story on a world that attnlab makes up, where it is known who was in the text and who was not.

nothing but the pairs      a model that was finetuned without having read the text
the commonest place        what one gets who knows nobody
pretrained, then asked     the same model after reading, by how often a person is spoken of
the never-seen             people who appear nowhere: whatever is answered is made up. How well does each measure of
                           confidence tell them from the known, and how many are turned away at the threshold that
                           keeps nine tenths of the known?
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from attnlab.corpora import World
from attnlab.knowledge.answers.answering import Answer, KnowledgeModel
from attnlab.knowledge.answers.evaluating import Evaluation, Score, evaluate
from attnlab.knowledge.material.material import gather_world
from attnlab.knowledge.material.pairs import Pair
from attnlab.knowledge.pipeline import Outcome, run
from attnlab.knowledge.training.recipes import KnowledgeRecipe
from attnlab.knowledge.training.recipes import recipe as recipe_by_name
from attnlab.knowledge.training.staging import Length, Options
from attnlab.statistics import Interval, auroc

StorySize = Literal["full", "smoke"]
SCORES = ("probability", "length_normalised", "agreement")
KEPT = 0.9  # of the known
_SAMPLES = 10

_WORLDS: dict[StorySize, dict[str, Any]] = {
    "full": {"people": 600, "unseen": 200, "places": 60, "exposures": "1,2,4,8"},
    "smoke": {"people": 30, "unseen": 10, "places": 6, "exposures": "1,2"},
}


@dataclass(frozen=True)
class Separation:
    """How well a measure of confidence tells the known from the never-seen."""

    score: str
    auroc: Interval
    threshold: float  # that keeps nine tenths of the known
    turned_away: Score  # of the never-seen, below it


@dataclass(frozen=True)
class Story:
    """What there is to tell."""

    world: World
    outcome: Outcome
    never_seen: tuple[Answer, ...]
    separations: tuple[Separation, ...]
    invented: Score  # never-seen people who got the true place by chance

    def plain(self) -> dict[str, Any]:
        assert self.outcome.alone is not None
        return {
            "run": str(self.outcome.path),
            "world": {"seed": self.world.seed, **self.world.options.model_dump()},
            "without_pretraining": self.outcome.alone.plain(answers=False),
            "pretrained": self.outcome.evaluation.plain(answers=False),
            "never_seen": {
                "right_by_chance": self.invented.plain(),
                "scores": [
                    {
                        "score": one.score,
                        "auroc": vars(one.auroc),
                        "threshold": one.threshold,
                        "turned_away": one.turned_away.plain(),
                    }
                    for one in self.separations
                ],
            },
        }


def story_recipe(size: StorySize) -> KnowledgeRecipe:
    """The fast recipe at the size of the world."""
    fast = recipe_by_name("fast")
    layers, width, heads, vocabulary = (3, 128, 4, 1024) if size == "full" else (1, 32, 2, 320)
    read, asked, alone = (6, 40, 20) if size == "full" else (1, 1, 1)
    return fast.replace(
        num_layers=layers,
        model_width=width,
        num_heads=heads,
        vocabulary_size=vocabulary,
        strangers=1.0,  # there are few pairs, so that this costs little
        pretraining=fast.pretraining.model_copy(update={"epochs": read}),
        finetuning=fast.finetuning.model_copy(update={"epochs": asked, "batch_size": 64}),
        epochs_alone=alone,
    )


def tell(size: StorySize = "full", options: Options | None = None, recipe: KnowledgeRecipe | None = None) -> Story:
    """Make a world, and let a model learn it."""
    options = options or Options()
    world = World.generate(options.seed, **_WORLDS[size])
    material = gather_world(world)
    outcome = run(material, recipe or story_recipe(size), Length(), options, alone=True)
    model = KnowledgeModel.open(outcome.path)
    known = evaluate(model, material.heldout, _SAMPLES, options.seed)
    strangers = evaluate(model, [Pair(*pair) for pair in world.pairs("unseen")], _SAMPLES, options.seed)
    separations = tuple(separate(score, known, strangers.answers) for score in SCORES)
    told = Outcome(outcome.path, outcome.pretrained, known, outcome.alone, outcome.alone_path)
    return Story(world, told, strangers.answers, separations, strangers.exact_match)


def separate(score: str, known: Evaluation, strangers: Sequence[Answer]) -> Separation:
    """The known against the never-seen by one measure of confidence."""
    ours = [_value(answer, score) for answer in known.answers]
    theirs = [_value(answer, score) for answer in strangers]
    threshold = keeping(ours, KEPT)
    return Separation(
        score, auroc(ours, theirs), threshold, Score(sum(value < threshold for value in theirs), len(theirs))
    )


def keeping(values: Sequence[float], share: float) -> float:
    """The largest threshold that at least this share of the values reaches."""
    ordered = sorted(values, reverse=True)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _value(answer: Answer, score: str) -> float:
    return float(getattr(answer, score) or 0.0)
