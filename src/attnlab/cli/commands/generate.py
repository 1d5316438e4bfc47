"""Generate text with a trained model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from attnlab.attention import load_variants
from attnlab.cli.options import RUNS, JsonFlag, RunsFolder, VariantsFile
from attnlab.cli.printing import say, show_json
from attnlab.corpora import Tokenizer
from attnlab.errors import FileError, InputError
from attnlab.models import LanguageModel, Sampling, open_pretrained, stream
from attnlab.models.pretrained.opening import locate_pretrained, memory_words
from attnlab.processes.machine import check_memory
from attnlab.runs.ledger import locate_run
from attnlab.training import load_run

_TOKEN_BYTES = 8  # per token in a list
_HALF_A_CHARACTER = "\N{REPLACEMENT CHARACTER}"


def generate(
    run: Path,
    prompts: Annotated[list[str] | None, Parameter(negative="")] = None,
    /,
    *,
    tokens: int = 200,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    samples: int = 1,
    variants_from: VariantsFile = None,
    out: RunsFolder = RUNS,
    as_json: JsonFlag = False,
) -> None:
    """Generate a continuation of each prompt, and print it as it is decoded.

    Parameters
    ----------
    run
        A run, a folder of Hugging Face (GPT-2 or Llama), a GGUF file (Llama), or smollm2.
    prompts
        What to begin with; several are written together. Without one, a new line.
    tokens
        How many tokens to write.
    temperature
        Below 1 bolder in what is likely, above 1 more varied; 0 always takes the likeliest.
    top_k
        Choose among so many of the likeliest tokens.
    top_p
        Choose among the fewest tokens whose probabilities reach this.
    seed
        The same seed writes the same text.
    samples
        How many texts for each prompt.
    as_json
        Print the texts as JSON.
    """
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed)
    if samples < 1:
        raise InputError(f"{samples} samples cannot be generated", hint="use `samples=1` or more")
    if variants_from is not None:
        load_variants(variants_from)
    model, tokenizer = _load(run, out)
    _check_memory(model, len(prompts or [""]) * samples, tokens)
    begin = [prompt for prompt in prompts or [""] for _ in range(samples)]
    encoded = [tokenizer.encode(prompt or "\n") for prompt in begin]
    if len(begin) == 1 and not as_json:
        _write_live(model, tokenizer, encoded[0], begin[0], tokens, sampling)
        return
    written: list[list[int]] = [[] for _ in begin]
    for number, token in stream(model, encoded, tokens, sampling):
        written[number].append(token)
    texts = [tokenizer.decode(ids) for ids in written]
    if as_json:
        show_json([{"prompt": prompt, "text": text} for prompt, text in zip(begin, texts, strict=True)])
    else:
        print("\n\n---\n\n".join(prompt + text for prompt, text in zip(begin, texts, strict=True)))


def _load(run: Path, out: Path) -> tuple[LanguageModel, Tokenizer]:
    path = locate_run(run, out)
    if path is not None:
        loaded = load_run(path)
        return loaded.model, loaded.tokenizer
    place = locate_pretrained(run)
    if place is not None:
        say(f"opening {place.name}: {memory_words(place)}")
        pretrained = open_pretrained(place)
        for note in pretrained.notes:
            say(f"note: {note}")
        return pretrained.model, pretrained.tokenizer
    raise FileError(
        f"{run} is neither a run nor a pretrained model",
        hint="`attnlab runs list` shows the runs; `attnlab train` makes one",
    )


def _check_memory(model: LanguageModel, texts: int, tokens: int) -> None:
    """Refuse more texts at a time than memory holds: the keys, values and logits of each, and the tokens written."""
    spec = model.spec
    cached = 2 * spec.num_layers * spec.model_width * min(spec.context_length, max(1, tokens))
    needed = texts * (4 * (cached + spec.vocabulary_size) + _TOKEN_BYTES * tokens)
    check_memory("this generation", needed, hint="use fewer `samples` or `tokens`, or fewer prompts")


def _write_live(
    model: LanguageModel, tokenizer: Tokenizer, encoded: Sequence[int], prompt: str, tokens: int, sampling: Sampling
) -> None:
    """Print every piece of text as soon as it is whole: a character may take several tokens."""
    sys.stdout.write(prompt)
    ids: list[int] = []
    shown = ""
    for _, token in stream(model, [encoded], tokens, sampling):
        ids.append(token)
        text = tokenizer.decode(ids)
        if not text.endswith(_HALF_A_CHARACTER):
            sys.stdout.write(text[len(shown) :])
            sys.stdout.flush()
            shown = text
    sys.stdout.write(tokenizer.decode(ids)[len(shown) :] + "\n")
