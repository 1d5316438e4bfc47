"""The cost of a layer whose keys and values are computed from a latent: its matrices, its products and its cache.

With the widths L of the latent and R of the rotary key, and C = D_k − R of the part that is not rotated, for N new
tokens and M keys in all:

    training, and prefill              N D (L + R) to compute the latents, N L H (C + D_v) to compute keys and values
    decoding                           N D (L + R), and the cheaper of two:
        keys and values are computed   M L H (C + D_v);  N M H (D_k + D_v) for scores and sums, as usual
        queries attend to latents      N L H (C + D_v);  N M H (L + R + L)
"""

from __future__ import annotations

from attnlab.attention import AttentionSpec, Latent
from attnlab.cost.call import AttentionCall


def absorbs(call: AttentionCall) -> bool:
    """Return whether queries attend to latents, and not to keys made from them."""
    part = call.spec.compression
    return part is not None and call.decodes and part.absorbs(call.spec, call.queries, call.visibility.num_keys)


def looked_at(call: AttentionCall) -> tuple[int, int, int]:
    """Return the widths of keys and of values as the kernel has them, and how many heads have their own."""
    spec = call.spec
    if not absorbs(call):
        return spec.key_width, spec.value_width, spec.num_key_value_heads
    part = part_of(spec)
    return part.cached_width(spec), part.width, 1


def projected(call: AttentionCall) -> dict[str, tuple[int, int, int]]:
    """Return the sizes of a layer's projections by name: rows, input width and output width."""
    spec, batch = call.spec, call.batch
    held = call.visibility.num_keys if call.decodes else call.keys
    up = call.queries if absorbs(call) else held
    rows = {"query_latent": call.queries, "query": call.queries, "key": up, "value": up}
    shapes = part_of(spec).shapes(spec)
    return {
        name: (batch * rows.get(name, call.new_keys), columns, width) for name, (width, columns, _) in shapes.items()
    }


def part_of(spec: AttentionSpec) -> Latent:
    assert spec.compression is not None
    return spec.compression
