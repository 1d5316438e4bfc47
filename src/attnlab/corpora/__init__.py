"""Text and tasks: corpora, tokenizers, batches."""

from attnlab.corpora.adjectives import AdjectivesCorpus
from attnlab.corpora.batches import IGNORED, Batch, Corpus
from attnlab.corpora.bigram import bigram_loss
from attnlab.corpora.bpe import BpeTokenizer, Gpt2Tokenizer
from attnlab.corpora.cache import CacheWarning, default_cache
from attnlab.corpora.kinship import Kinship, Relative
from attnlab.corpora.matching import MatchingCorpus
from attnlab.corpora.mqar import MqarCorpus
from attnlab.corpora.opening import open_corpus
from attnlab.corpora.options import (
    AdjectivesOptions,
    KinshipOptions,
    MatchingOptions,
    MqarOptions,
    TranslationOptions,
    WorldOptions,
)
from attnlab.corpora.spec import CorpusSpec
from attnlab.corpora.text import TextCorpus
from attnlab.corpora.tokenizer import ByteTokenizer, CharTokenizer, SymbolTokenizer, Tokenizer, WordTokenizer
from attnlab.corpora.tokens import Tokens
from attnlab.corpora.translation import TranslationCorpus
from attnlab.corpora.world import Person, World

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
