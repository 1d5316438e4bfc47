"""A user-defined module as a layer of a model, with the interface of multi-head attention.

When decoding with a cache, the module gets a dict of its own if `forward` takes one. Otherwise the cache keeps the
inputs, and the module recomputes all tokens for each new one. Buffers are constants: they come from the constructor and
are not stored in checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from attnlab.attention.cache import Cache
from attnlab.attention.functional import check_tokens
from attnlab.attention.layer import MultiHeadAttention
from attnlab.attention.layers.own import NO_MAPS, OwnLayer
from attnlab.attention.observer import Observed
from attnlab.attention.parts.masks import Visibility
from attnlab.attention.parts.values import FirstValues
from attnlab.attention.spec import AttentionSpec
from attnlab.errors import AttnlabError, InputError, UnsupportedError


class WholeLayer(Observed):
    """The module that a spec names, in place of attention."""

    reported: ClassVar[tuple[str, ...]] = ()

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__()
        self.spec = spec
        self.module = self.part.build(spec)
        for inner in self.module.modules():
            inner._non_persistent_buffers_set.update(inner._buffers)
        self.dropout = nn.Dropout(spec.output_dropout)
        self.drops = spec.output_dropout > 0

    @property
    def part(self) -> OwnLayer:
        """The part of the spec that names the module."""
        assert self.spec.layer is not None
        return self.spec.layer

    @torch.no_grad()
    def restart(self, seed: int) -> None:
        """Copy the parameters and buffers of a newly built module, on the CPU and from a seed."""
        mine = dict(self.module.named_parameters())
        for name, tensor in self._fresh(seed).named_parameters():
            mine[name].copy_(tensor)
        self.restore_buffers()

    @torch.no_grad()
    def restore_buffers(self) -> None:
        """Restore the constants of the constructor, as for a module that was built on the meta device."""
        if not any(True for _ in self.module.buffers()):
            return
        device = next((parameter.device for parameter in self.module.parameters()), torch.device("cpu"))
        fresh = dict(self._fresh(0).named_modules())
        for path, inner in self.module.named_modules():
            for name, tensor in inner._buffers.items():
                found = fresh[path]._buffers[name]
                if tensor is not None and found is not None:
                    inner._buffers[name] = found.to(device, tensor.dtype)

    def _fresh(self, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.manual_seed(seed)
            return self.part.build(self.spec)

    def forward(
        self,
        x: Tensor,
        source: Tensor | None = None,
        *,
        padding: Tensor | None = None,
        visible: Tensor | None = None,
        cache: Cache | None = None,
        first_values: FirstValues | None = None,  # noqa: ARG002 — it has no values to give or to mix
        return_weights: bool = False,
    ) -> Tensor:
        """Map (batch, tokens, model width) to the same. The arguments are those of `MultiHeadAttention`.

        A user-defined layer neither provides nor uses the values of the first layer.
        """
        check_tokens(self.spec, x, source, cache)
        if return_weights:
            raise UnsupportedError(f"{self.part.kind}: {NO_MAPS}", hint="ask for the output alone")
        count, tokens, start = x.shape[1], x, 0
        if cache is not None:
            if self.spec.source == "cross":
                source = self._held(cache, "source", source)
            elif "cache" in self.part.takes:
                start = cache.length
                cache.length += count
            else:
                tokens = self._held(cache, "tokens", x)
        keys = start + tokens.shape[1] if source is None else source.shape[1]
        visibility = Visibility(self.spec.mask, tokens.shape[1], keys, start, padding, visible)
        result = self._run(tokens, source, visibility, cache)[:, -count:]
        return self.dropout(result) if self.drops else result

    def _held(self, cache: Cache, name: str, new: Tensor | None) -> Tensor:
        """Return the cached vectors (batch, tokens, model width), with the new ones; a source is cached once."""
        if new is None or (name == "source" and cache.length):
            return cache.held[name][:, 0]
        return cache.append({name: new[:, None].detach()})[name][:, 0]

    def _run(self, x: Tensor, source: Tensor | None, visibility: Visibility, cache: Cache | None) -> Tensor:
        takes = self.part.takes
        given: dict[str, Tensor | None] = {}
        visibility.check(x.shape[0], self.spec.num_heads)
        if "mask" in takes:
            given["mask"] = visibility.grid(x.device)
        elif visibility.pattern is not None or (visibility.padding is not None and not visibility.padding.all()):
            raise InputError(
                f"the layer {self.part.kind} takes no mask, so it cannot leave out padding or follow a pattern",
                hint="give sequences of one length, or a module whose forward takes `mask`",
            )
        if "source" in takes:
            given["source"] = source
        own: dict[str, Any] | None = cache.own if cache is not None else None
        try:
            result = self.module(x, **given, **({"cache": own} if "cache" in takes else {}))
        except (AttnlabError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:
            raise InputError(
                f"the layer {self.part.kind} failed on x of shape {tuple(x.shape)}: {type(error).__name__}: {error}",
                hint="call the module by itself on such a tensor to see where",
            ) from error
        self._check(result, x, own)
        return result  # type: ignore[no-any-return]

    def _check(self, result: object, x: Tensor, own: Mapping[str, object] | None) -> None:
        if not isinstance(result, Tensor) or result.shape != x.shape:
            found = tuple(result.shape) if isinstance(result, Tensor) else f"a {type(result).__name__}"
            raise InputError(
                f"the layer {self.part.kind} made {found} of x of shape {tuple(x.shape)}",
                hint="return one tensor of the shape of x",
            )
        odd = [name for name, tensor in (own or {}).items() if not isinstance(tensor, Tensor)]
        if odd:
            raise InputError(
                f"the cache of the layer {self.part.kind} holds {odd[0]!r}, which is no tensor",
                hint="keep tensors only",
            )

    def extra_repr(self) -> str:
        return f"layer={self.part}, mask={self.spec.mask}"


def make_layer(spec: AttentionSpec) -> MultiHeadAttention | WholeLayer:
    """Return the layer of a spec: multi-head attention, or a user-defined module."""
    return MultiHeadAttention(spec) if spec.layer is None else WholeLayer(spec)
