"""Attribution: the logits as a sum over the parts that wrote into the residual path.

    x = embedding + position + Σ over blocks of (Σ over heads of W_O[:, h] o_h  +  b_O  +  mlp)
    logits = W norm(x),    norm(x) = g (x − mean x) / σ + b      (LayerNorm; without mean and b for RMSNorm)

With σ fixed at its value for the whole x, the norm is linear, and each part has logits of its own. How the logits
change without a part is a different question: see `ablation.py`.

    parts = attribute(model, tokens)
    parts.logits(targets)                   (parts, batch, tokens): what each adds to the logit of the right token
    parts.logits()                          (parts, batch, tokens, vocabulary), which is large
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.errors import InputError, UnknownNameError
from attnlab.lens.taps import Given, Inputs, evaluating, head_outputs, output_bias
from attnlab.models import LanguageModel, tap_names
from attnlab.models.blocks import RMSNorm


@dataclass(frozen=True, eq=False)
class Attribution:
    """What each part wrote, after the last norm: the sum over parts is the input of the output head.

    Names are `embedding`, `position`, `blocks.0.attention.heads.3`, `blocks.0.attention.bias` (which belongs to no
    head), `blocks.0.mlp` (with its bias) and `norm.bias`.
    """

    names: tuple[str, ...]
    written: Tensor  # (parts, batch, tokens, model width)
    head_weight: Tensor  # (vocabulary, model width)

    def logits(self, targets: Tensor | None = None) -> Tensor:
        """Return the logits of each part, (parts, batch, tokens) for `targets` (batch, tokens), or for all tokens."""
        if targets is None:
            return F.linear(self.written, self.head_weight)
        if targets.shape != self.written.shape[1:3]:
            raise InputError(
                f"targets have shape {tuple(targets.shape)}, not {tuple(self.written.shape[1:3])}",
                hint="give one token for each position; `expand` repeats the same",
            )
        if targets.numel() and (int(targets.min()) < 0 or int(targets.max()) >= len(self.head_weight)):
            raise InputError(
                f"targets lie between {int(targets.min())} and {int(targets.max())}, and the model knows 0 to "
                f"{len(self.head_weight) - 1}",
                hint="put any token where there is no target, and leave its position out afterwards",
            )
        return torch.einsum("pbtd,btd->pbt", self.written, self.head_weight[targets.to(self.head_weight.device)])

    def __getitem__(self, name: str) -> Tensor:
        """Return what one part wrote, (batch, tokens, model width)."""
        if name not in self.names:
            raise UnknownNameError("part", name, self.names)
        return self.written[self.names.index(name)]


def attribute(model: LanguageModel, inputs: Given) -> Attribution:
    """Decompose the input of the output head into parts. An encoder contributes through cross-attention.

    Parameters
    ----------
    model
        The model.
    inputs
        Tokens (rows, tokens), or a batch; all rows are of one length.
    """
    read = ["embedding", "norm.in", "blocks.*.mlp.output", *_attention_names(model)]
    if model.stack.positions is not None:
        read.append("position")
    with evaluating(model):
        with model.tap(*read) as seen:
            Inputs.of(inputs).read(model)
        parts = _parts(model, seen)
        x = seen.pop("norm.in")
        written = torch.stack([part.expand_as(x) for part in parts.values()])
        written = _through_norm(model.stack.norm, written, x)
    names = tuple(parts)
    bias = getattr(model.stack.norm, "bias", None)
    if bias is not None:
        names, written = (*names, "norm.bias"), torch.cat([written, bias.detach().expand_as(written[:1])])
    return Attribution(names, written, model.head_weight.detach())


def _attention_names(model: LanguageModel) -> list[str]:
    """Return where attention is read: at its heads, or, if it has none, at its output."""
    names = tap_names(model)
    own = [name.removesuffix(".in") for name in names if name.startswith("blocks.") and name.endswith("attention.in")]
    return [f"{name}.{'heads' if f'{name}.heads' in names else 'output'}" for name in own]


def _parts(model: LanguageModel, seen: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the parts of the residual path, each (batch, tokens, model width) or broadcastable to it."""
    parts: dict[str, Tensor] = {name: seen[name] for name in ("embedding", "position") if name in seen}
    for number, block in enumerate(model.stack.blocks):
        for name in ("attention", "cross_attention"):
            layer: Any = getattr(block, name)
            if layer is None:
                continue
            path = f"blocks.{number}.{name}"
            if not layer.spec.observed_heads:
                parts[path] = seen[f"{path}.output"]
                continue
            heads = head_outputs(layer, seen[f"{path}.heads"]).unbind(1)
            parts |= {f"{path}.heads.{head}": written for head, written in enumerate(heads)}
            bias = output_bias(layer)
            if bias is not None:
                parts[f"{path}.bias"] = bias
        parts[f"blocks.{number}.mlp"] = seen[f"blocks.{number}.mlp.output"]
    return parts


def _through_norm(norm: nn.Module, written: Tensor, x: Tensor) -> Tensor:
    """Return the parts of x after the norm, with the scale of the whole x."""
    if isinstance(norm, RMSNorm):
        scale = (x.square().mean(-1, keepdim=True) + norm.epsilon).rsqrt()
        return written * (scale if norm.weight is None else scale * norm.weight)
    assert isinstance(norm, nn.LayerNorm)
    scale = (x.var(-1, keepdim=True, unbiased=False) + norm.eps).rsqrt()
    return (written - written.mean(-1, keepdim=True)) * (scale * norm.weight)
