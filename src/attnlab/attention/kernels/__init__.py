"""Fast kernels with the same result as the reference. The spec selects the kernel, never the user.

dispatch          the kernel of a spec
fused             PyTorch's fused softmax, also with a sink
blocked           any score, normaliser and mask, block by block
differentiable    the blocked kernel as one operation for autograd and `torch.compile`
dropout           dropout of attention weights, drawn from a counter
"""

from attnlab.attention.kernels.dispatch import Kernel, attend, kernel_for

__all__ = ["Kernel", "attend", "kernel_for"]
