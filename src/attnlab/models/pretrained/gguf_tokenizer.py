"""The tokenizer of a GGUF file: a byte-level BPE with the pre-tokenizer that the file names.

    gpt-2        GPT-2's words
    smollm       every digit separately, then GPT-2's words
    llama-bpe    Llama 3's words, with up to three digits together

Control tokens, such as `<|im_start|>`, are recognised anywhere in a text.
"""

from __future__ import annotations

from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as Inner

from attnlab.corpora import PretrainedTokenizer
from attnlab.errors import FileError, UnsupportedError
from attnlab.models.pretrained.gguf_header import Header

_LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_CONTROL, _OWN = 3, 4  # token types that are not parts of words


def gguf_tokenizer(header: Header) -> PretrainedTokenizer:
    """Return the tokenizer of a GGUF file."""
    kind, words = (header.fields.get(f"tokenizer.ggml.{name}") for name in ("model", "pre"))
    cut = _cutting(words if words not in (None, "default") else "gpt-2")
    if kind != "gpt2" or cut is None:
        raise UnsupportedError(
            f"{header.path} has a tokenizer of the kind {kind!r} with the words of {words!r}",
            hint="the supported kind is gpt2 with the words of gpt-2, smollm or llama-bpe; token ids work without",
        )
    tokens, merges, types = (header.fields.get(f"tokenizer.ggml.{name}") for name in ("tokens", "merges", "token_type"))
    if not isinstance(tokens, list) or not isinstance(merges, list) or len(set(tokens)) < len(tokens):
        raise _damaged(header, "it lacks tokens or merges, or has a token twice")
    if types is None or len(types) != len(tokens):
        raise _damaged(header, "it does not say of every token what it is")
    vocabulary = {token: number for number, token in enumerate(tokens)}
    pairs = [tuple(merge.split(" ")) for merge in merges]
    try:
        inner = Inner(models.BPE(vocabulary, pairs, ignore_merges=words == "llama-bpe"))
    except Exception as error:  # the library raises nothing narrower
        raise _damaged(header, str(error)) from None
    inner.pre_tokenizer, inner.decoder = cut, decoders.ByteLevel()
    for which, add in ((_CONTROL, inner.add_special_tokens), (_OWN, inner.add_tokens)):
        named = [token for token, one in zip(tokens, types, strict=True) if one == which]
        add([AddedToken(token, normalized=False) for token in named])
    return PretrainedTokenizer(inner)


def _cutting(words: object) -> Any:
    """Return how a text is cut into words; None if that is not known."""
    bytes_of_words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if words == "gpt-2":
        return bytes_of_words
    if words == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_of_words])
    if words == "llama-bpe":
        split = pre_tokenizers.Split(Regex(_LLAMA3), "isolated")
        return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return None


def _damaged(header: Header, reason: str) -> FileError:
    return FileError(f"the tokenizer in {header.path} is damaged: {reason}", hint="fetch the file again")
