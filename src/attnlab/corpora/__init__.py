"""Text and tasks: corpora, tokenizers, batches.

spec             a corpus as a value, with the options of the generated ones
sources          text from files and folders
python_sources   `pydoc`, `python` and `docstrings`
generated        texts and tasks that are generated on the fly
tokenizer        text to token ids and back
tokens           tokens on disk
cache            the folder where texts and tokens are kept
batches          the interface of a corpus, its batches, and the base of the tasks
text             a corpus of text, the windows that each step reads, and the bigram loss
catalogue        from a spec to a corpus
randomness       random numbers from a key and a counter
"""

from attnlab.corpora.batches import IGNORED, Batch, Corpus
from attnlab.corpora.cache import CacheWarning, default_cache
from attnlab.corpora.catalogue import open_corpus
from attnlab.corpora.generated.adjectives import AdjectivesCorpus
from attnlab.corpora.generated.kinship import Kinship, Relative
from attnlab.corpora.generated.recall import MatchingCorpus, MqarCorpus
from attnlab.corpora.generated.translation import TranslationCorpus
from attnlab.corpora.generated.world import Person, World
from attnlab.corpora.spec import (
    AdjectivesOptions,
    CorpusSpec,
    KinshipOptions,
    MatchingOptions,
    MqarOptions,
    TranslationOptions,
    WorldOptions,
)
from attnlab.corpora.text import TextCorpus, bigram_loss
from attnlab.corpora.tokenizer import (
    BpeTokenizer,
    ByteTokenizer,
    CharTokenizer,
    Gpt2Tokenizer,
    PretrainedTokenizer,
    SymbolTokenizer,
    TokenIds,
    Tokenizer,
    WordTokenizer,
)
from attnlab.corpora.tokens import Tokens

__all__ = [
    "IGNORED",
    "AdjectivesCorpus",
    "AdjectivesOptions",
    "Batch",
    "BpeTokenizer",
    "ByteTokenizer",
    "CacheWarning",
    "CharTokenizer",
    "Corpus",
    "CorpusSpec",
    "Gpt2Tokenizer",
    "Kinship",
    "KinshipOptions",
    "MatchingCorpus",
    "MatchingOptions",
    "MqarCorpus",
    "MqarOptions",
    "Person",
    "PretrainedTokenizer",
    "Relative",
    "SymbolTokenizer",
    "TextCorpus",
    "TokenIds",
    "Tokenizer",
    "Tokens",
    "TranslationCorpus",
    "TranslationOptions",
    "WordTokenizer",
    "World",
    "WorldOptions",
    "bigram_loss",
    "default_cache",
    "open_corpus",
]
