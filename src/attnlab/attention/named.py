"""A variant: a named change of attention, and how it reads as equations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from attnlab.attention.kernels import Kernel, kernel_for
from attnlab.attention.scores import Score
from attnlab.attention.spec import AttentionSpec

Change = Any | Callable[[AttentionSpec], Any]


@dataclass(frozen=True)
class OfContext:
    """A change that is a function of the context's length."""

    make: Callable[[int], Any]


@dataclass(frozen=True)
class Variant:
    """A named change of attention. A change may be a function of the spec that it starts from."""

    name: str
    meaning: str
    changes: Mapping[str, Change]
    source: str = ""
    asks: str = ""  # what the notes ask of it, with the ids of their claims
    builtin: bool = False

    def spec(
        self, model_width: int = 768, num_heads: int = 12, context_length: int = 1024, **fields: Any
    ) -> AttentionSpec:
        """The variant at a size; `fields` are those of the spec that is changed, such as `bias` or `source`."""
        base = AttentionSpec(model_width=model_width, num_heads=num_heads, **fields)
        return self.change(base, context_length)

    def change(self, base: AttentionSpec, context_length: int = 1024) -> AttentionSpec:
        """The same change made to another spec."""
        changes = {name: _made(change, base, context_length) for name, change in self.changes.items()}
        if "score" in changes:
            needed = Score.parse(changes["score"]).needs_context
            changes["context_length"] = context_length if needed else None
        return base.replace(**changes)

    @property
    def kernel(self) -> Kernel:
        """Which kernel serves it in training on whole sequences."""
        return kernel_for(self.spec())

    def equations(self) -> list[str]:
        """What it computes, line by line."""
        return equations(self.spec())


def _made(change: Change, base: AttentionSpec, context_length: int) -> Any:
    if isinstance(change, OfContext):
        return change.make(context_length)
    return change(base) if callable(change) else change


def equations(spec: AttentionSpec) -> list[str]:
    """A spec as equations, in the order of computing."""
    made = {
        "none": "q = x W_Q,  k = y W_K,  v = y W_V",
        "key-value": "q = x W_Q,  k = v = y W_K",
        "query-key": "q = x W_Q,  k = y W_Q,  v = y W_V",
        "query-key-value": "q = x W_Q,  k = v = y W_Q",
        "identity": "q = x,  k = v = y",
    }[spec.sharing]
    if not spec.score.projects_key:
        made = "v = y W_V"
    lines = [made.replace("y", "x") if spec.source == "self" else made]
    if spec.group_size > 1:
        lines.append(f"each key and value head serves {spec.group_size} query heads")
    ordinary = spec.model_width / spec.num_heads
    if {spec.key_width, spec.value_width} != {ordinary} and spec.value_map == "factored":
        lines.append(f"D_k = {spec.key_width}, D_v = {spec.value_width}")
    if spec.position is not None and spec.position.kind == "rope":
        lines.append("q and k turned by their position")
    if spec.operator is not None:
        lines.append(f"o = {spec.operator.equation}")
    else:
        bias = " − slope·|i − j|" if spec.position is not None and spec.position.kind == "alibi" else ""
        lines.append(f"s_j = {spec.score.formula()}{bias}")
        lines.append(f"p_j = {spec.normaliser.formula()}")
        lines.append("o = Σ p_j v_j")
    lines.append(f"over the keys j that the mask shows: {spec.mask}")
    inner = {"projection": "(o_1, …, o_H)", "average": "mean(o_1, …, o_H)"}[spec.join] if spec.num_heads > 1 else "o"
    if spec.value_map == "full":
        inner = {"projection": "o_1 + … + o_H", "average": inner}[spec.join]
    lines.append(f"out = {inner}" + ("" if spec.value_map == "full" else " W_O"))
    return lines
