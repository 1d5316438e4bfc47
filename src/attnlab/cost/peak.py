"""The peak memory of a training step, and the moment when it occurs.

Weights, gradients and the optimizer's state are in memory all the time. Temporary memory peaks at one of a few moments,
each with the activations that autograd still keeps, and with tensors of its own. With R = B N tokens in a step, a chunk
of C rows in the loss, the widths D of the model and M of the MLP, a vocabulary of V, and numbers of one size:

    loss                 all activations, C V in chunks (3 C V in half precision: old and new, and their copies) and
                         R D; if the loss is computed at once, 2 R V for its gradient
    backward of head     all activations, the gradient V D of the head's weight, and R D
    backward of MLP      all but those of the loss; V D, which is kept for the embedding's if they are tied; R D;
                         and either k R M during the backward pass of φ, or R M and both weights' gradients
    backward of          all but those of the loss and the last MLP; V D; R D; gradients and copies of
    attention            queries, keys, values, outputs and the score's own parameters
    the last two         with activation checkpointing, also the recomputed activations of the last block
    backward of          3 V D if it is tied: its gradient, the head's, and their sum
    embedding
    optimizer            Muon's: 5 times the square matrices of the blocks, or 3 times the long ones

k is 1 for GELU's tanh form if its derivative is kept, 3 for a gated MLP, and 2 otherwise. Memory allocated outside
PyTorch's allocator is not counted. How often a kernel copies is documented nowhere: the factors were measured with
PyTorch's allocator, and tests compare them with it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from attnlab.attention.kernels import blocked
from attnlab.cost.attention import AttentionCost
from attnlab.cost.model import ModelCost
from attnlab.cost.tensors import NamedTensor, named_tensors
from attnlab.models import ModelSpec, loss, mlp
from attnlab.models.spec import OptimizerKind

_EXACT_BYTES = 4  # per number that mixed precision keeps in float32
_LONG = 2  # ratio of the longer to the shorter side, from which on Muon combines its factors


@dataclass(frozen=True)
class TrainingMemory:
    """The bytes of a training step. `moments` are the temporary bytes, by the name of the moment."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    moments: dict[str, int]
    master_weights: int = 0

    @property
    def always(self) -> int:
        """Return the bytes of the weights, the gradients, the optimizer state and the master weights."""
        return self.weights + self.gradients + self.optimizer + self.master_weights

    @property
    def moment(self) -> str:
        """Return the moment of peak memory."""
        return max(self.moments, key=lambda name: self.moments[name])

    @property
    def peak(self) -> int:
        return self.always + self.moments[self.moment]


def training_memory(
    cost: ModelCost, optimizer: OptimizerKind = "adamw", *, mixed_precision: bool = False
) -> TrainingMemory:
    """Return the memory that a step of `model_cost` holds, whose optimizer is AdamW, or Muon with AdamW.

    With mixed precision there are float32 master weights in addition to those used in the computation, and the
    optimizer's state is in float32 too: for AdamW 16 bytes per parameter in all, as in ZeRO (arXiv 1910.02054).

    Parameters
    ----------
    cost
        The cost of the step.
    optimizer
        adamw or muon.
    mixed_precision
        Whether there are float32 master weights in addition to those used in the computation.
    """
    tensors, number = named_tensors(cost.call.spec), cost.call.bytes_per_number
    exact = _EXACT_BYTES if mixed_precision else number
    return TrainingMemory(
        weights=cost.weight_bytes,
        gradients=cost.weight_bytes,
        optimizer=_optimizer_numbers(tensors, optimizer) * exact,
        activations=cost.activation_bytes,
        moments={**_moments(cost), "the optimizer moves": _optimizer_scratch(tensors, optimizer) * number},
        master_weights=cost.parameters * exact if mixed_precision else 0,
    )


def _optimizer_numbers(tensors: tuple[NamedTensor, ...], kind: OptimizerKind) -> int:
    """Return the numbers in the optimizer state: two per parameter, or one in the matrices that Muon updates."""
    hidden = sum(tensor.parameters for tensor in tensors if tensor.is_hidden_matrix)
    return 2 * sum(tensor.parameters for tensor in tensors) - (hidden if kind == "muon" else 0)


def _optimizer_scratch(tensors: tuple[NamedTensor, ...], kind: OptimizerKind) -> int:
    if kind == "adamw":
        return 0
    groups: Counter[tuple[int, ...]] = Counter()
    for tensor in tensors:
        if tensor.is_hidden_matrix:
            groups[tensor.shape] += tensor.parameters
    return max((n * (3 if max(shape) >= _LONG * min(shape) else 5) for shape, n in groups.items()), default=0)


def _moments(cost: ModelCost) -> dict[str, int]:
    call, spec, number = cost.call, cost.call.spec, cost.call.bytes_per_number
    rows, kept = call.batch * call.tokens, cost.activation_bytes
    flow = rows * spec.model_width * number  # the gradient of the residual stream
    head = spec.vocabulary_size * spec.model_width * number
    waiting = head if spec.tied_embedding else 0
    last = f"{'decoder ' if spec.encoder_attention else ''}layer {spec.num_layers}: "
    final = "decoder: final norm" if spec.encoder_attention else "final norm"
    before_loss = kept - cost.part("head").activation_bytes - cost.part(final).activation_bytes
    perceptron = cost.part(f"{last}mlp").activation_bytes + cost.part(f"{last}mlp norm").activation_bytes
    if cost.last_block is not None:  # its activations have just been recomputed
        before_loss += cost.last_block.activation_bytes
        perceptron = sum(cost.last_block.part(name).activation_bytes for name in ("mlp", "mlp norm"))
    return {
        "the loss is taken": kept + _loss_scratch(spec, rows, number),
        "the head goes backward": kept + head + flow,
        "the last mlp goes backward": before_loss + waiting + flow + _mlp_scratch(spec, rows, number),
        "the last attention goes backward": before_loss
        - perceptron
        + waiting
        + flow
        + _attention_scratch(cost.attention[-1], flow),
        "the embedding goes backward": (3 if spec.tied_embedding else 1) * head,
    }


def _loss_scratch(spec: ModelSpec, rows: int, number: int) -> int:
    words = spec.vocabulary_size * max(4, number)
    at_once = loss.rows_at_once(rows, spec.vocabulary_size, number)
    if rows <= at_once:
        return 2 * rows * words
    copies = 1 if number >= 4 else 3  # half precision is converted to float32, in copies
    return copies * at_once * words + rows * spec.model_width * number


def _mlp_scratch(spec: ModelSpec, rows: int, number: int) -> int:
    wide, weights = rows * spec.mlp_width * number, spec.model_width * spec.mlp_width * number
    copies = 1 if spec.activation == "gelu-tanh" and wide <= mlp._LARGE else 2
    if spec.gated:
        copies = 3  # of the product and of both its factors
    flow = rows * spec.model_width * number
    return max(copies * wide + weights, wide + flow + 2 * weights)


def _attention_scratch(cost: AttentionCost, flow: int) -> int:
    """Return the bytes of gradients and their copies: of the kernel's inputs and output, or of its projections."""
    call, spec = cost.call, cost.call.spec
    if spec.layer is not None:  # assume at most as many gradients as tensors kept
        return max(flow, cost.part("layer").activation_bytes)
    query = call.batch * spec.num_heads * call.queries * spec.key_width * spec.score.projects_query
    key = call.batch * spec.num_key_value_heads * call.keys * spec.key_width * spec.score.projects_key
    values = spec.num_key_value_heads * call.keys + spec.num_heads * call.queries  # and outputs
    value = call.batch * values * spec.value_width
    kernel = (1 if call.kernel == "fused" else 2) * (query + key + value)
    extras = cost.part("scores").parameters
    projected = sum(cost.part(f"{name} projection").parameters for name in ("query", "key", "value"))
    behind = 2 * projected + query + key + value // 2
    inside = (kernel + extras) * call.bytes_per_number + _blocks(cost)
    return max(inside, behind * call.bytes_per_number + flow)


def _blocks(cost: AttentionCost) -> int:
    """Return the bytes of the score blocks that a blocked kernel works in."""
    if cost.call.kernel != "blocked":
        return 0
    one = blocked._ROWS * cost.call.keys
    heads = min(cost.call.batch * cost.call.spec.num_heads, max(1, blocked._CACHED // one))
    blocks = cost.call.spec.normaliser.blocks
    return blocks * heads * one * cost.call.exact.itemsize
