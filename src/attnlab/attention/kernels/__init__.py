"""The kernels: fast ways to the same result as the reference. The spec selects one, never the user.

dispatch          from a spec to its kernel
fused             PyTorch's fused softmax, also with a sink
blocked           any score, normaliser and mask, block by block
differentiable    the blocked kernel as one operation for autograd and `torch.compile`
dropout           dropout of weights, drawn from a counter
"""

from attnlab.attention.kernels.dispatch import Kernel, attend, kernel_for

__all__ = ["Kernel", "attend", "kernel_for"]
