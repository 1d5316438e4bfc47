"""Conformance: whether a variant of attention, perhaps one's own, is what it says.

subject       a variant at a small size: its layer, and numbers to put in
finding       what a check found, and all of them as a table, a page and JSON
visibility    what is hidden stays hidden, and what is visible is seen
derivatives   gradients against finite differences, and the kernel against the definition
behaviour     shapes, corner cases, decoding, determinism and exact resumption
measurement   parameters, cache, time and memory against what is predicted and against softmax
suite         which checks there are, and the quick ones that training begins with
"""

from attnlab.conformance.finding import CheckReport, Finding
from attnlab.conformance.suite import check_variant, require_sound

__all__ = ["CheckReport", "Finding", "check_variant", "require_sound"]
