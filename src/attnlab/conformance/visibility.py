"""Hidden tokens have no influence, on weights, denominators or counts; and visible tokens have some."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from attnlab.attention import AttentionSpec, Mask
from attnlab.conformance.subject import CONTEXT, AnyLayer, Subject, difference, run, visible_grid
from attnlab.errors import InputError

_LEAK = 1e-9
_DRAWS = 12


def _influence(layer: AnyLayer, x: Tensor, **options: Tensor | None) -> Tensor:
    """Return by how much each query's output changes with each token, (queries, tokens)."""
    tokens = x.shape[1]
    changed = x.expand(tokens, -1, -1).clone()
    places = torch.arange(tokens)
    changed[places, places] = -2 * x[0, places] + 0.5
    both = torch.cat([x, changed])
    found = run(layer, both, **options)
    scale = found[0].abs().max().clamp(min=1e-30)
    return ((found[1:] - found[0]).abs().amax(-1) / scale).T


def _first_leak(layer: AnyLayer, allowed: Tensor, found: Tensor) -> str | None:
    leaks = (~allowed & ~(found <= _LEAK)).nonzero()
    if not len(leaks):
        return None
    query, key = leaks[0].tolist()
    mask = layer.spec.mask
    return (
        f"mask {mask}, {len(found)} tokens: changing token {key + 1} changes the output at token {query + 1} by a "
        f"relative {float(found[query, key]):.2g}, although the mask hides it there"
    )


def _masks(subject: Subject) -> Iterator[AttentionSpec]:
    yield subject.spec
    for mask in (Mask(window=3), Mask(prefix=3)):
        spec = subject.masked(mask)
        if spec is not None and spec.mask != subject.spec.mask:
            yield spec


def hidden_tokens(subject: Subject) -> str | None:
    """Return where a token changes the output at a token that does not see it, on the shortest input that shows it."""
    for spec in _masks(subject):
        layer = subject.layer(spec)
        for tokens in range(2, CONTEXT + 1):
            for seed in range(3):
                found = _influence(layer, subject.tokens(tokens, seed=seed))
                leak = _first_leak(layer, visible_grid(spec, tokens), found)
                if leak is not None:
                    return leak
    return None


def own_pattern(subject: Subject) -> str | None:
    """Return where a pattern of the caller's does not hide a token."""
    layer = subject.layer()
    tokens = CONTEXT
    pattern = (torch.arange(tokens)[:, None] * 3 + torch.arange(tokens)) % 4 != 1
    pattern |= torch.eye(tokens, dtype=torch.bool)
    found = _influence(layer, subject.tokens(tokens), visible=pattern[None, None])
    return _first_leak(layer, visible_grid(layer.spec, tokens) & pattern, found)


def visible_tokens(subject: Subject) -> str | None:
    """Return which visible token never changes the output, over several draws."""
    for spec in _masks(subject):
        seen = torch.zeros(CONTEXT, CONTEXT, dtype=torch.bool)
        for seed in range(_DRAWS):
            seen |= _influence(subject.layer(spec, seed), subject.tokens(CONTEXT, seed=seed)) > 1e-12
        visible = visible_grid(spec, CONTEXT)
        if spec.head_output is not None and spec.head_output.takes_value:  # it may remove the whole output
            visible &= ~torch.eye(CONTEXT, dtype=torch.bool) | (visible.sum(-1, keepdim=True) > 1)
        blind = (visible & ~seen).nonzero()
        if len(blind):
            query, key = blind[0].tolist()
            return (
                f"mask {spec.mask}, {CONTEXT} tokens: token {query + 1} sees token {key + 1}, and changing it changes "
                f"nothing in {_DRAWS} draws"
            )
    return None


def cut_sequences(subject: Subject) -> str | None:
    """Return where the first tokens of a sequence get another output than alone: hidden keys are counted."""
    layer = subject.layer()
    for tokens in range(2, CONTEXT + 1):
        x = subject.tokens(tokens)
        whole = run(layer, x)
        for kept in range(1, tokens):
            error = difference(whole[:, :kept], run(layer, x[:, :kept]))
            if error > _LEAK:
                return (
                    f"the first {kept} of {tokens} tokens differ by a relative {error:.2g} from the same "
                    "tokens alone: hidden keys take part, perhaps in a sum or a count"
                )
    return None


def padding(subject: Subject) -> str | None:
    """Return where padding changes the output at real tokens, by its content or by its number."""
    layer = subject.layer()
    tokens = CONTEXT
    real = torch.ones(1, tokens, dtype=torch.bool)
    real[:, :2] = False
    found = _influence(layer, subject.tokens(tokens), padding=real.expand(tokens + 1, -1))
    allowed = (visible_grid(layer.spec, tokens) & real) | torch.eye(tokens, dtype=torch.bool)
    leak = _first_leak(layer, allowed, found)
    if leak is not None:
        return f"{leak}: it is padding"
    both = subject.masked(Mask(causal=False))
    if both is None:
        return None
    layer, x = subject.layer(both), subject.tokens(tokens)
    real = torch.arange(tokens)[None] < tokens - 3
    error = difference(run(layer, x, padding=real)[:, : tokens - 3], run(layer, x[:, : tokens - 3]))
    if error > _LEAK:
        return f"{tokens - 3} tokens and 3 of padding differ by a relative {error:.2g} from the tokens alone"
    return None


def takes_patterns(subject: Subject) -> bool:
    """Return whether the layer takes a pattern of the caller's."""
    try:
        run(subject.layer(), subject.tokens(2), visible=torch.ones(1, 1, 2, 2, dtype=torch.bool))
    except InputError:
        return False
    return True
