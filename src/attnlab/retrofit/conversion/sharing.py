"""Merge key and value heads, reduce their width or tie them, by least squares on real activations.

Attention does not change if keys are multiplied by an invertible matrix and queries by its inverse transpose, nor if
values are multiplied and the output projection inverts it. Merging heads therefore means finding one small vector z for
each token from which their keys or values are best reconstructed linearly: the principal components of their stacked
activations. The reconstruction is folded into queries and output projection, and costs nothing.

    keys      k_h ≈ A_h z          q_h·k_h ≈ (A_hᵀ q_h)·z
    values    v_h ≈ B_h z          W_O_h v_h ≈ (W_O_h B_h) z
    K = V     k ≈ A z, v ≈ B z     the same z for both

The error δ of a key is weighted by the queries, E[(q·δ)²], and that of a value by the output projection, |W_O δ|². If
the heads were equal before, nothing is lost.

RoPE rotates the pairs (x[i], x[i + d/2]) of a key. A matrix A_h commutes with the rotation only if it multiplies each
pair, taken as a complex number, by one complex factor: z then has one complex component for each pair, and the best one
is again given by an eigenvector. For K = V under RoPE, z is the key itself, and only values are reconstructed from it.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from attnlab.retrofit.conversion.heads import HeadMaps, blocks, principal, roots, total


def merge_keys(maps: HeadMaps, moments: Tensor, count: int, width: int) -> HeadMaps:
    """Return maps with `count` key heads of a width, for keys that are not rotated."""
    merged, old = len(maps.key) // count, maps.key.shape[1]
    keys, queries, factor = [], [], math.sqrt(width / old)  # scores are divided by the square root of the width
    for head in range(count):
        members = range(head * merged, (head + 1) * merged)
        metrics = [roots(maps.query_metric(one, moments)) for one in members]
        stack = torch.cat([root @ maps.key[one] for one, (root, _) in zip(members, metrics, strict=True)])
        chosen = principal(stack, moments, width)
        keys.append(chosen.T @ stack)
        for one, part, (_, inverse) in zip(members, blocks(chosen, [old] * merged), metrics, strict=True):
            queries.append(factor * (part.T @ inverse) @ maps.queries_of(one))
    return maps.replace(key=torch.stack(keys), query=torch.cat(queries))


def merge_rotated_keys(maps: HeadMaps, moments: Tensor, count: int) -> HeadMaps:
    """Return maps with `count` key heads, for keys whose pairs RoPE rotates."""
    merged = len(maps.key) // count
    key, query = as_pairs(maps.key), as_pairs(maps.query)  # (heads, pairs, model width + 1), complex
    second, keys, queries = moments.to(key.dtype), [], []
    for head in range(count):
        members = slice(head * merged, (head + 1) * merged)
        mine = query[members.start * maps.group_size : members.stop * maps.group_size]
        mine = mine.view(merged, maps.group_size, *mine.shape[1:])
        power = torch.einsum("hgpc,cd,hgpd->hp", mine, second, mine.conj()).real
        weight = power.clamp(min=1e-12 * float(power.max().clamp(min=1e-30))).sqrt()  # (merged, pairs)
        stack = weight[..., None] * key[members]  # (merged, pairs, model width + 1)
        gram = torch.einsum("hpc,cd,kpd->phk", stack, second, stack.conj())
        best = torch.linalg.eigh(gram)[1][..., -1]  # (pairs, merged)
        keys.append(torch.einsum("ph,hpc->pc", best.conj(), stack))
        taken = (best.T / weight).conj()  # (merged, pairs)
        queries.append((mine * taken[:, None, :, None]).flatten(0, 1))
    return maps.replace(key=as_numbers(torch.stack(keys)), query=as_numbers(torch.cat(queries)))


def merge_values(maps: HeadMaps, moments: Tensor, count: int, width: int) -> HeadMaps:
    """Return maps with `count` value heads of a width."""
    merged, old = len(maps.value) // count, maps.value.shape[1]
    values, outputs = [], []
    for head in range(count):
        members = range(head * merged, (head + 1) * merged)
        metrics = [roots(maps.output_metric(one)) for one in members]
        stack = torch.cat([root @ maps.value[one] for one, (root, _) in zip(members, metrics, strict=True)])
        chosen = principal(stack, moments, width)
        values.append(chosen.T @ stack)
        for one, part, (_, inverse) in zip(members, blocks(chosen, [old] * merged), metrics, strict=True):
            outputs.append(maps.outputs_of(one) @ (inverse @ part))
    return maps.replace(value=torch.stack(values), output=torch.cat(outputs, dim=1))


def tie(maps: HeadMaps, moments: Tensor, share: float, *, rotated: bool) -> HeadMaps:
    """Return projections in which each key is also the value.

    Key errors have the weight `share`, value errors the rest, each relative to their total variance.
    """
    width = maps.key.shape[1]
    made, queries, outputs = [], [], []
    for head, (key, value) in enumerate(zip(maps.key, maps.value, strict=True)):
        query, output = maps.queries_of(head), maps.outputs_of(head)
        seen = _pair_metric(query, moments) if rotated else maps.query_metric(head, moments)
        (root, inverse), (passed, back) = roots(seen), roots(maps.output_metric(head))
        alpha = math.sqrt(share / total(root @ key, moments))
        beta = math.sqrt((1 - share) / total(passed @ value, moments))
        stack = torch.cat([alpha * root @ key, beta * passed @ value])
        chosen = principal(stack, moments, width)
        of_key, of_value = inverse @ chosen[:width] / alpha, back @ chosen[width:] / beta
        vector = chosen.T @ stack
        if rotated:  # the tied vector is the key, and the value is reconstructed from it
            vector, of_value = of_key @ vector, of_value @ torch.linalg.pinv(of_key, rtol=1e-3)
            queries.append(query)
        else:
            queries.append(of_key.T @ query)
        made.append(vector)
        outputs.append(output @ of_value)
    tied = torch.stack(made)
    return maps.replace(key=tied, value=tied, query=torch.cat(queries), output=torch.cat(outputs, dim=1))


def repeat_heads(maps: HeadMaps, count: int) -> HeadMaps:
    """Return maps with more key and value heads, of which several are equal: the layer is the same."""
    times = count // len(maps.key)
    return maps.replace(key=maps.key.repeat_interleave(times, 0), value=maps.value.repeat_interleave(times, 0))


def as_pairs(maps: Tensor) -> Tensor:
    """Return maps (heads, width, columns) as complex ones (heads, pairs, columns), as RoPE pairs their rows."""
    first, second = maps.chunk(2, dim=1)
    return torch.complex(first, second)


def as_numbers(pairs: Tensor) -> Tensor:
    """Undo `as_pairs`."""
    return torch.cat([pairs.real, pairs.imag], dim=1)


def _pair_metric(queries: Tensor, moments: Tensor) -> Tensor:
    """Return E[|q|²] of each pair, on the diagonal: what is left of Σ E[q qᵀ] when all rotations are averaged."""
    pairs = as_pairs(queries)
    power = torch.einsum("hpc,cd,hpd->p", pairs, moments.to(pairs.dtype), pairs.conj()).real / 2
    return torch.diag(power.repeat(2))
