"""What a small model knows, what it makes up, and what it does when it does not know."""

from attnlab.knowledge.answering import Answer, KnowledgeModel
from attnlab.knowledge.asking import Asker, Reply
from attnlab.knowledge.evaluating import Evaluation, evaluate
from attnlab.knowledge.facts import Added, Document, Fact, Imported
from attnlab.knowledge.finetuning import finetune, learn
from attnlab.knowledge.guarantee import Guarantee, find_guarantee, set_guarantee
from attnlab.knowledge.importing import import_file
from attnlab.knowledge.learning import Learned, learn_kept
from attnlab.knowledge.looking_up import Evidence, LookUp
from attnlab.knowledge.material import Material, PracticePair, gather, gather_world
from attnlab.knowledge.pairs import Pair, PairList, QuestionTemplate, read_pairs, write_pairs
from attnlab.knowledge.pipeline import Outcome, run
from attnlab.knowledge.pretraining import pretrain
from attnlab.knowledge.recipes import RECIPES, KnowledgeRecipe, recipe
from attnlab.knowledge.report import Description, describe, report_page
from attnlab.knowledge.staging import Length, Options
from attnlab.knowledge.store import FactStore
from attnlab.knowledge.story import Story, tell

__all__ = [
    "RECIPES",
    "Added",
    "Answer",
    "Asker",
    "Description",
    "Document",
    "Evaluation",
    "Evidence",
    "Fact",
    "FactStore",
    "Guarantee",
    "Imported",
    "KnowledgeModel",
    "KnowledgeRecipe",
    "Learned",
    "Length",
    "LookUp",
    "Material",
    "Options",
    "Outcome",
    "Pair",
    "PairList",
    "PracticePair",
    "QuestionTemplate",
    "Reply",
    "Story",
    "describe",
    "evaluate",
    "find_guarantee",
    "finetune",
    "gather",
    "gather_world",
    "import_file",
    "learn",
    "learn_kept",
    "pretrain",
    "read_pairs",
    "recipe",
    "report_page",
    "run",
    "set_guarantee",
    "tell",
    "write_pairs",
]
