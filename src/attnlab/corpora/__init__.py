"""Text and tasks: corpora, tokenizers, batches.

spec           what to train on, as a value
sources        text from files and folders
python_text    `pydoc`
installed      `python` and `docstrings`
generated      texts and tasks that are made on the spot
tokenizer      text to numbers and back, with bpe
tokens         tokens on disk
cache          the folder where texts and tokens are kept
batches        what a corpus gives to training
order          which windows a step reads
text           a corpus of text
opening        from a spec to a corpus
bigram         the best without looking back
randomness     random numbers from a key and a counter
"""

from attnlab.corpora.batches import IGNORED, Batch, Corpus
from attnlab.corpora.bigram import bigram_loss
from attnlab.corpora.bpe import BpeTokenizer, Gpt2Tokenizer
from attnlab.corpora.cache import CacheWarning, default_cache
from attnlab.corpora.generated.adjectives import AdjectivesCorpus
from attnlab.corpora.generated.kinship import Kinship, Relative
from attnlab.corpora.generated.matching import MatchingCorpus
from attnlab.corpora.generated.mqar import MqarCorpus
from attnlab.corpora.generated.options import (
    AdjectivesOptions,
    KinshipOptions,
    MatchingOptions,
    MqarOptions,
    TranslationOptions,
    WorldOptions,
)
from attnlab.corpora.generated.translation import TranslationCorpus
from attnlab.corpora.generated.world import Person, World
from attnlab.corpora.opening import open_corpus
from attnlab.corpora.spec import CorpusSpec
from attnlab.corpora.text import TextCorpus
from attnlab.corpora.tokenizer import ByteTokenizer, CharTokenizer, SymbolTokenizer, Tokenizer, WordTokenizer
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
    "Relative",
    "SymbolTokenizer",
    "TextCorpus",
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
