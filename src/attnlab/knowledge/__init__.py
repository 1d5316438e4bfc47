"""What a small model knows, what it makes up, and what it does when it does not know.

material         text and pairs
training         pretraining, finetuning, learning more
answers          answers, confidence, guarantee
store            the fact store, and looking up
asking           recall, look-up, or an honest unknown
pipeline         all of it in one call
story            all of it on a world that is made up
report           the page about a model, with report_charts
"""

from attnlab.knowledge.answers.answering import Answer, KnowledgeModel
from attnlab.knowledge.answers.evaluating import Evaluation, evaluate
from attnlab.knowledge.answers.guarantee import Guarantee, find_guarantee, set_guarantee
from attnlab.knowledge.asking import Asker, Reply
from attnlab.knowledge.material.material import Material, PracticePair, gather, gather_world
from attnlab.knowledge.material.pairs import Pair, PairList, QuestionTemplate, read_pairs, write_pairs
from attnlab.knowledge.pipeline import Outcome, run
from attnlab.knowledge.report import Description, describe, report_page
from attnlab.knowledge.store.facts import Added, Document, Fact, Imported
from attnlab.knowledge.store.importing import import_file
from attnlab.knowledge.store.looking_up import Evidence, LookUp
from attnlab.knowledge.store.store import FactStore
from attnlab.knowledge.story import Story, tell
from attnlab.knowledge.training.finetuning import finetune, learn
from attnlab.knowledge.training.learning import Learned, learn_kept
from attnlab.knowledge.training.pretraining import pretrain
from attnlab.knowledge.training.recipes import RECIPES, KnowledgeRecipe, recipe
from attnlab.knowledge.training.staging import Length, Options

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
