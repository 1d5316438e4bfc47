"""The kernels: fast ways to the same result as the reference. The spec selects one, never the user."""

from attnlab.attention.kernels.dispatch import Kernel, attend, kernel_for

__all__ = ["Kernel", "attend", "kernel_for"]
