"""What a small model knows, what it makes up, and how it abstains when it does not know.

text             how texts are cleaned and compared; documents
pairs            questions with their answers
codec            texts and pairs as tokens
material         text and pairs, each with one use
training         pretraining, finetuning, learning more
answers          answers, confidence, guarantee
store            the fact store, and look-up
asker            recall, look-up, or an honest unknown
pipeline         all stages in one call
report           the page about a model, with report_charts
"""

from attnlab.knowledge.answers.evaluation import Evaluation, evaluate
from attnlab.knowledge.answers.guarantee import Guarantee, find_guarantee, set_guarantee
from attnlab.knowledge.answers.model import KnowledgeModel, ModelAnswer
from attnlab.knowledge.asker import Asker, Reply
from attnlab.knowledge.material import Material, SyntheticPair, gather, gather_world
from attnlab.knowledge.pairs import Pair, PairList, QuestionTemplate, read_pairs, write_pairs
from attnlab.knowledge.pipeline import PipelineResult, Story, run, tell
from attnlab.knowledge.report import Description, describe, report_page
from attnlab.knowledge.store.files import import_file
from attnlab.knowledge.store.lookup import Evidence, LookUp
from attnlab.knowledge.store.schema import Added, Document, Imported, StoredFact
from attnlab.knowledge.store.store import FactStore
from attnlab.knowledge.training.learning import LearningResult, learn_kept
from attnlab.knowledge.training.recipes import RECIPES, KnowledgeRecipe, recipe
from attnlab.knowledge.training.stage_run import Length, Options
from attnlab.knowledge.training.stages import finetune, learn, pretrain

__all__ = [
    "RECIPES",
    "Added",
    "Asker",
    "Description",
    "Document",
    "Evaluation",
    "Evidence",
    "FactStore",
    "Guarantee",
    "Imported",
    "KnowledgeModel",
    "KnowledgeRecipe",
    "LearningResult",
    "Length",
    "LookUp",
    "Material",
    "ModelAnswer",
    "Options",
    "Pair",
    "PairList",
    "PipelineResult",
    "QuestionTemplate",
    "Reply",
    "StoredFact",
    "Story",
    "SyntheticPair",
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
