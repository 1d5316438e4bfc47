"""What a small model knows, what it makes up, and what it does when it does not know."""

from attnlab.knowledge.answering import Answer, KnowledgeModel
from attnlab.knowledge.evaluating import Evaluation, evaluate
from attnlab.knowledge.finetuning import finetune, learn
from attnlab.knowledge.material import Material, PracticePair, gather, gather_world
from attnlab.knowledge.pairs import Pair, PairList, QuestionTemplate, read_pairs, write_pairs
from attnlab.knowledge.pipeline import Outcome, run
from attnlab.knowledge.pretraining import pretrain
from attnlab.knowledge.recipes import RECIPES, KnowledgeRecipe, recipe
from attnlab.knowledge.staging import Length, Options
from attnlab.knowledge.story import Story, tell

__all__ = [
    "RECIPES",
    "Answer",
    "Evaluation",
    "KnowledgeModel",
    "KnowledgeRecipe",
    "Length",
    "Material",
    "Options",
    "Outcome",
    "Pair",
    "PairList",
    "PracticePair",
    "QuestionTemplate",
    "Story",
    "evaluate",
    "finetune",
    "gather",
    "gather_world",
    "learn",
    "pretrain",
    "read_pairs",
    "recipe",
    "run",
    "tell",
    "write_pairs",
]
