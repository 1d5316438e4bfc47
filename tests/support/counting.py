"""What PyTorch itself counts: the FLOPs of a forward and a backward pass, and the bytes that autograd keeps."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

_IN_PLACE = {  # products in place, which the counter does not know
    torch.ops.aten.baddbmm_: lambda _, a, b, **__: 2 * a[0] * a[1] * a[2] * b[2],
    torch.ops.aten.addmm_: lambda _, a, b, **__: 2 * a[0] * a[1] * b[1],
}


def counted(run: Callable[[], Tensor]) -> tuple[int, int]:
    """Return the FLOPs of a forward and of a backward pass."""
    with FlopCounterMode(display=False, custom_mapping=_IN_PLACE) as counter:
        output = run()
        forward = counter.get_total_flops()
        output.sum().backward()
    return forward, counter.get_total_flops() - forward


def saved_bytes(run: Callable[[], Tensor], module: nn.Module) -> int:
    """Return the bytes of the storages that autograd keeps of a pass, without those of the module's parameters."""
    kept: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage

    with saved_tensors_hooks(pack, lambda _: torch.empty(0)):
        assert run().requires_grad
    own = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    return sum(storage.nbytes() for place, storage in kept.items() if place not in own)
