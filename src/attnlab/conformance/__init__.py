"""Conformance checks: whether a variant of attention, built-in or custom, behaves as declared.

subject       a variant at a small size: its layer and test inputs
finding       the result of a check, and all results as a table, a page and JSON
visibility    hidden tokens have no influence, and visible tokens have some
derivatives   gradients against finite differences, and the kernel against the definition
behaviour     shapes, corner cases, decoding, determinism and exact resumption
measurement   parameters, cache, time and memory, compared with the prediction and with softmax
suite         the list of checks, and the quick ones that run before training
"""

from attnlab.conformance.finding import CheckReport, Finding
from attnlab.conformance.suite import check_variant, require_sound

__all__ = ["CheckReport", "Finding", "check_variant", "require_sound"]
