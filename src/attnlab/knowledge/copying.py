"""Copying a name out of a text: the model decides where it begins and where it ends, and cannot misspell it.

Behind `text before` the model goes on token by token. Only two things are allowed: the next token of some stretch of
the text that reads so far like what was copied, or the end, which is the first token of `after`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from attnlab.models import LanguageModel

_TOGETHER = 64  # texts


@torch.no_grad()
def copy_from(
    model: LanguageModel,
    texts: Sequence[Sequence[int]],
    before: Sequence[int],
    after: Sequence[int],
    longest: int,
) -> list[tuple[int, ...]]:
    """For each text, the stretch that the model puts between `before` and `after`; empty where there is no end."""
    by_length: dict[int, list[int]] = {}
    for number, text in enumerate(texts):
        by_length.setdefault(len(text), []).append(number)
    found: dict[int, tuple[int, ...]] = {}
    model.eval()
    for _, numbers in sorted(by_length.items()):
        for first in range(0, len(numbers), _TOGETHER):
            some = numbers[first : first + _TOGETHER]
            copied = _copy(model, [list(texts[number]) for number in some], list(before), list(after), longest)
            found |= zip(some, copied, strict=True)
    return [found[number] for number in range(len(texts))]


def _copy(
    model: LanguageModel, texts: list[list[int]], before: list[int], after: list[int], longest: int
) -> list[tuple[int, ...]]:
    """Stretches of texts of one length."""
    device = model.embedding.weight.device
    cache = model.new_cache()
    tokens = torch.tensor([text + before for text in texts])
    places = [list(range(len(text))) for text in texts]  # where the next token may stand
    written: list[list[int]] = [[] for _ in texts]
    open_rows = set(range(len(texts)))
    for _ in range(min(longest, model.spec.context_length - tokens.shape[1])):
        logits = model(tokens.to(device), cache=cache, last_only=True)[:, -1].float().cpu()
        chosen = [after[0]] * len(texts)
        for row in sorted(open_rows):
            text = texts[row]
            allowed = sorted({text[place] for place in places[row]} | set(after[:1] if written[row] else ()))
            chosen[row] = token = allowed[int(logits[row, allowed].argmax())] if allowed else after[0]
            places[row] = [place + 1 for place in places[row] if text[place] == token and place + 1 < len(text)]
            if token == after[0]:
                open_rows.discard(row)
            else:
                written[row].append(token)
        if not open_rows:
            break
        tokens = torch.tensor(chosen)[:, None]
    return [() if row in open_rows else tuple(written[row]) for row in range(len(texts))]
