"""A model of attnlab for Transformers, in one file that needs neither attnlab nor anything else.

AutoModelForCausalLM.from_pretrained("folder", trust_remote_code=True)

The config holds attnlab's specification of the model: its norms, perceptrons, positions, and for each layer the score,
normaliser, mask, sharing and widths of its attention. Attention is computed by its definition, all weights at once, and
without a cache; attnlab itself has faster kernels and caches.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

_LATENT_EPSILON = 1e-6
Fields = dict[str, Any]  # of a specification, as JSON holds it


class AttnlabConfig(PretrainedConfig):
    """attnlab's specification of a model, under `spec`."""

    model_type = "attnlab"

    def __init__(self, spec: Fields | None = None, **others: Any) -> None:
        self.spec = spec or {}
        super().__init__(**others)


class _RMSNorm(nn.Module):
    def __init__(self, width: int, epsilon: float, weighted: bool) -> None:
        super().__init__()
        self.width, self.epsilon = width, epsilon
        self.weight = nn.Parameter(torch.ones(width)) if weighted else None

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (self.width,), self.weight, self.epsilon)


def _norm(spec: Fields) -> nn.Module:
    width, epsilon = spec["model_width"], spec["norm_epsilon"]
    if spec["norm"] == "layer":
        return nn.LayerNorm(width, epsilon, bias=spec["bias"])
    return _RMSNorm(width, epsilon, spec["norm"] == "rms-weight")


_ACTIVATIONS = {
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu": F.gelu,
    "relu-squared": lambda x: F.relu(x).square(),
    "silu": F.silu,
}


class _Perceptron(nn.Module):
    def __init__(self, spec: Fields) -> None:
        super().__init__()
        width, inner, bias = spec["model_width"], spec["mlp_width"], spec["bias"]
        self.activation = _ACTIVATIONS[spec["activation"]]
        self.gate = nn.Linear(width, inner, bias) if spec.get("gated") else None
        self.widen = nn.Linear(width, inner, bias)
        self.narrow = nn.Linear(inner, width, bias)

    def forward(self, x: Tensor) -> Tensor:
        wide = self.widen(x)
        hidden = self.activation(wide) if self.gate is None else self.activation(self.gate(x)) * wide
        result: Tensor = self.narrow(hidden)
        return result


class _Attention(nn.Module):
    """One layer, by the fields of attnlab's `AttentionSpec`."""

    def __init__(self, spec: Fields, shapes: dict[str, list[int]], extras: dict[str, list[int]]) -> None:
        super().__init__()
        self.spec = spec
        bias = {name: bool(biased) for name, (_, _, biased) in shapes.items()}
        self.projections = nn.ModuleDict(
            {name: nn.Linear(columns, rows, bias[name]) for name, (rows, columns, _) in shapes.items()}
        )
        self.output = nn.Linear(spec["num_heads"] * spec["value_width"], spec["model_width"], spec["bias"])
        self.extras = nn.ParameterDict({name: nn.Parameter(torch.zeros(shape)) for name, shape in extras.items()})

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        query, key, value = self._latent(x) if self.spec.get("compression") else self._vectors(x)
        groups = self.spec["num_heads"] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        visible = _visible(self.spec["mask"], x.shape[1], x.device)
        if padding is not None:
            visible = visible & padding[:, None, None, :].bool()
        weights = self._normalised(self._scores(query, key), visible)
        result: Tensor = self.output((weights @ value).transpose(1, 2).flatten(2))
        return result

    def _vectors(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        spec, sharing = self.spec, self.spec["sharing"]
        key_of = "query" if sharing in ("query-key", "query-key-value") else "key"
        value_of = {"none": "value", "query-key": "value", "key-value": "key", "query-key-value": "query"}[sharing]
        widths = {"query": spec["key_width"], "key": spec["key_width"], "value": spec["value_width"]}
        made = {name: _in_heads(self.projections[name](x), widths[name]) for name in self.projections}
        query, key, value = made["query"], made[key_of], made[value_of]
        if (spec["position"] or {}).get("kind", "").startswith("rope"):
            query, key = (_rotated(vectors, spec["position"]) for vectors in (query, key))
        return query, key, value

    def _latent(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        spec, maps = self.spec, self.projections
        read = x
        if "query_latent" in maps:
            read = _normed(maps["query_latent"](x)) * self.extras["compression_query_gain"]
        query = _in_heads(maps["query"](read), spec["key_width"])
        latent = _normed(maps["latent"](x)) * self.extras["compression_gain"]
        value = _in_heads(maps["value"](latent), spec["value_width"])
        if "rotary" not in maps:
            return query, _in_heads(maps["key"](latent), spec["key_width"]), value
        position = spec["position"]
        width = position["width"]
        key = _in_heads(maps["key"](latent), spec["key_width"] - width)
        rotary = _rotated(maps["rotary"](x)[:, None], position).expand(-1, spec["num_heads"], -1, -1)
        query = torch.cat([query[..., :-width], _rotated(query[..., -width:], position)], dim=-1)
        return query, torch.cat([key, rotary], dim=-1), value

    def _scores(self, query: Tensor, key: Tensor) -> Tensor:
        score, width = self.spec["score"], query.shape[-1]
        kind, extras = score["kind"], self.extras
        if kind == "cosine":
            product = F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).mT
            learned = score["temperature"] == "learned"
            return product / (_per_head(extras["log_temperature"]).exp() if learned else score["temperature"])
        if kind == "qk-norm":
            gains = [extras[name].repeat(width // len(extras[name])) for name in ("query_gain", "key_gain")]
            query, key = (F.normalize(one, dim=-1) * gain for one, gain in zip((query, key), gains, strict=True))
            return math.sqrt(width) * query @ key.mT
        product = query @ key.mT
        if kind == "dot":
            return product
        scaled = product / math.sqrt(width)
        return scaled + _per_head(extras["bias"]) if kind == "biased-dot" else scaled

    def _normalised(self, scores: Tensor, visible: Tensor) -> Tensor:
        normaliser, extras = self.spec["normaliser"], self.extras
        kind, count = normaliser["kind"], visible.sum(-1, keepdim=True).clamp(min=1).to(scores.dtype)
        if kind in ("sigmoid", "relu", "squared-relu"):
            if kind == "sigmoid":
                weights = torch.sigmoid(scores - count.log() if normaliser["bias"] else scores)
            elif kind == "relu":
                weights = scores.relu() / (count if normaliser["divide"] else 1.0)
            else:
                weights = scores.relu().square() / count
            return weights.masked_fill(~visible, 0.0)
        if kind == "softmax-capped":
            scores = normaliser["cap"] * torch.tanh(scores / normaliser["cap"])
        if kind == "scalable-softmax":
            scores = scores * _per_head(extras["normaliser_sharpness"]) * count.log()
        scores = scores.masked_fill(~visible, float("-inf"))
        if kind in ("softmax-plus-one", "softmax-sink"):
            sink = extras["normaliser_sink"] if kind == "softmax-sink" else scores.new_zeros(scores.shape[1])
            column = _per_head(sink).expand(len(scores), -1, scores.shape[2], 1)
            return torch.softmax(torch.cat([scores, column], dim=-1), dim=-1)[..., :-1]
        return torch.softmax(scores, dim=-1).nan_to_num()  # a row that sees nothing has no weights


def _normed(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + _LATENT_EPSILON)


def _per_head(numbers: Tensor) -> Tensor:
    return numbers.view(1, -1, 1, 1)


def _in_heads(x: Tensor, width: int) -> Tensor:
    return x.view(*x.shape[:2], -1, width).transpose(1, 2)


def _rotated(vectors: Tensor, position: Fields) -> Tensor:
    """Rotate the pairs (x[i], x[i + d/2]) of (batch, heads, tokens, d) by their positions."""
    tokens, width = vectors.shape[-2:]
    frequency = position["base"] ** -(torch.arange(0, width, 2, device=vectors.device).float() / width)
    if position["kind"] == "rope-linear":
        frequency = frequency / position["factor"]
    if position["kind"] == "rope-llama3":
        rotations = position["original_context_length"] * frequency / (2 * math.pi)
        low, high = position["low_rotations"], position["high_rotations"]
        kept = ((rotations - low) / (high - low)).clamp(0, 1)
        frequency = frequency * (kept + (1 - kept) / position["factor"])
    angle = torch.outer(torch.arange(tokens, device=vectors.device).float(), frequency)
    cos, sin = angle.cos().to(vectors.dtype), angle.sin().to(vectors.dtype)
    first, second = vectors.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def _visible(mask: Fields, tokens: int, device: torch.device) -> Tensor:
    """Return which keys each query sees, (1, 1, queries, keys)."""
    places = torch.arange(tokens, device=device)
    distance = places[:, None] - places
    seen = distance >= 0
    if mask["window"] is not None:
        seen = seen & ((distance < mask["window"]) | (places < (mask.get("first") or 0)))
    return seen[None, None]


class _Block(nn.Module):
    def __init__(self, spec: Fields, number: int) -> None:
        super().__init__()
        layer = spec["layers"][number]
        self.attention_norm = _norm(spec)
        self.attention = _Attention(spec["attention"][number], layer["projections"], layer["extras"])
        self.mlp_norm = _norm(spec)
        self.mlp = _Perceptron(spec)

    def forward(self, x: Tensor, padding: Tensor | None) -> Tensor:
        x = x + self.attention(self.attention_norm(x), padding)
        result: Tensor = x + self.mlp(self.mlp_norm(x))
        return result


class _Stack(nn.Module):
    def __init__(self, spec: Fields) -> None:
        super().__init__()
        learned = spec["learns_positions"]
        self.positions = nn.Embedding(spec["context_length"], spec["model_width"]) if learned else None
        self.blocks = nn.ModuleList([_Block(spec, number) for number in range(spec["num_layers"])])
        self.norm = _norm(spec)


class AttnlabForCausalLM(PreTrainedModel, GenerationMixin):
    """A decoder of attnlab, with the names of its weights."""

    config_class = AttnlabConfig
    main_input_name = "input_ids"
    _input_embed_layer = "embedding"

    def __init__(self, config: AttnlabConfig) -> None:
        super().__init__(config)
        spec = config.spec
        self.embedding = nn.Embedding(spec["vocabulary_size"], spec["model_width"])
        self.stack = _Stack(spec)
        self.head = (
            None if spec["tied_embedding"] else nn.Linear(spec["model_width"], spec["vocabulary_size"], bias=False)
        )
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **others: Any,
    ) -> CausalLMOutput:
        """Return logits (batch, tokens, vocabulary), and the loss of the labels, which are shifted here."""
        del others
        x = self.embedding(input_ids)
        if self.stack.positions is not None:
            x = x + self.stack.positions.weight[: input_ids.shape[1]]
        for block in self.stack.blocks:
            x = block(x, attention_mask)
        weight = self.embedding.weight if self.head is None else self.head.weight
        logits: Any = F.linear(self.stack.norm(x), weight)
        loss: Any = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten(), ignore_index=-100)
        return CausalLMOutput(loss=loss, logits=logits)
