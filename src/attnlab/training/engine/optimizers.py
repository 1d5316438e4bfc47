"""AdamW, and Muon combined with AdamW.

AdamW (arXiv 1711.05101)
    m ← β₁m + (1 − β₁)g,   v ← β₂v + (1 − β₂)g²,   w ← w − η(m̂ / (√v̂ + ε) + λw)

Muon, for the matrices inside the blocks (Jordan et al. 2024, "Muon: an optimizer for hidden layers")
    m ← μm + g,   u = g + μm,   w ← w − η √max(1, rows / columns) · orthogonal(u)

`orthogonal` replaces the singular values of a matrix by numbers near 1, by Newton–Schulz steps in the precision that is
fast on the device. Matrices of the same shape are processed as a batch. Embeddings, the head, biases and gains use
AdamW. Weight decay applies only to matrices and embeddings, and to parameters of attention that declare it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from attnlab.attention import MultiHeadAttention
from attnlab.training.engine.parameters import WHOLE, Allocate, FlatParameters, Group, Shard
from attnlab.training.recipes import OptimizerSpec

# The quintic of Jordan et al.: steep at 0, so that small singular values grow fast.
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_PIECE = 1 << 18  # numbers that AdamW updates at a time on a CPU, so that they and their state fit into the cache
_LONG = 2  # ratio of the longer to the shorter side, from which on the factors are combined


class Optimizer:
    """Updates all parameters of a model. Its state is saved and loaded by name."""

    def __init__(
        self,
        spec: OptimizerSpec,
        model: nn.Module,
        precision: torch.dtype = torch.float32,
        allocate: Allocate = torch.zeros_like,
    ) -> None:
        self.spec = spec
        self.precision = precision  # of the Newton–Schulz steps
        self._decays = {
            f"{path}.extras.{name}": declared.decay
            for path, module in model.named_modules()
            if isinstance(module, MultiHeadAttention)
            for name, declared in module.spec.parameters.items()
            if declared.decay is not None
        }
        self.flat = FlatParameters(model, self._kind_of, batched=["matrix"], allocate=allocate)
        self.first = allocate(self.flat.values)  # AdamW's first moment, and Muon's momentum
        adam = [group for group in self.flat.groups if group.kind != "matrix"]
        self.second = {group: allocate(self.flat.values[group.start : group.stop]) for group in adam}
        self.count = torch.zeros((), dtype=torch.float32, device=self.flat.values.device)

    def _kind_of(self, name: str, parameter: nn.Parameter) -> str:
        if not self._decays.get(name, parameter.dim() >= 2):
            return "plain"
        in_block = ".blocks." in name and parameter.dim() == 2 and ".extras." not in name
        return "matrix" if in_block and self.spec.kind == "muon" else "decayed"

    @torch.no_grad()
    def step(self, factor: float, shard: Shard = WHOLE, scale: float = 1.0, also_clear: Sequence[Tensor] = ()) -> None:
        """Update the parameters, or a shard of each group, by `scale` times their gradients.

        `factor` is that of the learning rate. The gradients are cleared at once, while they are still in the cache, and
        so is the same shard of `also_clear`, other gradients that were added to them.
        """
        self.count += 1
        for group in self.flat.groups:
            move = self._muon if group.kind == "matrix" else self._adamw
            for span in self._spans(group, shard):
                gradients = self.flat.gradients[span]
                if scale != 1.0:
                    gradients.mul_(scale)
                move(group, span, factor)
                for used in (gradients, *(other[span] for other in also_clear)):
                    used.zero_()

    def _spans(self, group: Group, shard: Shard) -> Iterator[slice]:
        """Yield the slices of a group that belong to a shard; a matrix is never divided."""
        size = group.stop - group.start
        if group.shape is not None:
            mine, numbers = shard.of(len(group.names)), math.prod(group.shape)
            yield slice(group.start + mine.start * numbers, group.start + mine.stop * numbers)
            return
        mine = shard.of(size)
        piece = _PIECE if self.flat.values.is_cpu else max(1, size)
        for start in range(mine.start, mine.stop, piece):
            yield slice(group.start + start, group.start + min(start + piece, mine.stop))

    def _adamw(self, group: Group, span: slice, factor: float) -> None:
        inside = slice(span.start - group.start, span.stop - group.start)
        torch._fused_adamw_(
            [self.flat.values[span]],
            [self.flat.gradients[span]],
            [self.first[span]],
            [self.second[group][inside]],
            [],
            [self.count],
            lr=self.spec.learning_rate * factor,
            beta1=self.spec.betas[0],
            beta2=self.spec.betas[1],
            weight_decay=self.spec.weight_decay if group.kind == "decayed" else 0.0,
            eps=self.spec.epsilon,
            amsgrad=False,
            maximize=False,
        )

    def _muon(self, group: Group, span: slice, factor: float) -> None:
        assert group.shape is not None
        rows, columns = group.shape
        values, gradients, momentum = (
            flat[span].view(-1, rows, columns) for flat in (self.flat.values, self.flat.gradients, self.first)
        )
        momentum.mul_(self.spec.momentum).add_(gradients)
        ahead = gradients.add(momentum, alpha=self.spec.momentum)
        update = orthogonal(ahead, self.spec.iterations, self.precision)
        rate = self.spec.matrix_learning_rate * factor
        values.mul_(1 - rate * self.spec.weight_decay)
        values.add_(update, alpha=-rate * max(1.0, rows / columns) ** 0.5)

    def state(self) -> dict[str, Tensor]:
        """Return the state by name: `first.<parameter>`, `second.<parameter>` and `count`."""
        second = torch.zeros_like(self.first)
        for group, tensor in self.second.items():
            second[group.start : group.stop] = tensor
        adam = {name for group in self.second for name in group.names}
        kept = {f"first.{name}": tensor for name, tensor in self.flat.named(self.first).items()}
        kept |= {f"second.{name}": tensor for name, tensor in self.flat.named(second).items() if name in adam}
        return {**kept, "count": self.count}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state` returned."""
        for name, tensor in self.flat.named(self.first).items():
            tensor.copy_(state[f"first.{name}"])
        for group, second in self.second.items():
            for name in group.names:
                start, stop = (position - group.start for position in self.flat.spans[name])
                second[start:stop].copy_(state[f"second.{name}"].flatten())
        self.count.copy_(state["count"])


def orthogonal(matrices: Tensor, iterations: int = 5, precision: torch.dtype = torch.float32) -> Tensor:
    """Return matrices (batch, rows, columns) with the same singular vectors and singular values near 1.

    A step is X ← (aI + bG + cG²) X with G = X Xᵀ. If X is much longer than wide, the factors are multiplied together in
    a matrix of the small size, and X is multiplied once at the end.
    """
    a, b, c = _NEWTON_SCHULZ
    x = matrices.to(precision)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / (torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True) + 1e-7)
    gram = x @ x.transpose(1, 2)
    long = x.shape[2] >= _LONG * x.shape[1]
    gathered: Tensor | None = None
    for step in range(iterations):
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)  # without a on the diagonal
        last = step == iterations - 1
        if not long:
            x = torch.baddbmm(x, factor, x, beta=a)
            gram = gram if last else x @ x.transpose(1, 2)
            continue
        factor.diagonal(dim1=1, dim2=2).add_(a)
        gathered = factor if gathered is None else factor @ gathered
        gram = gram if last else factor @ gram @ factor
    if gathered is not None:
        x = gathered @ x
    return (x.transpose(1, 2) if tall else x).to(matrices.dtype)


def clip_factor(norm: float, limit: float) -> float:
    """Return the factor that clips a gradient of this norm to the norm `limit`."""
    return limit / norm if norm > limit else 1.0
