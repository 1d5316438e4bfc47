"""Verification: whether a recorded result is what it says, for someone who did not train it.

checks             what holds, what differs, and what could not be checked
run_checks         receipts, record, metrics, result and weights of one run
segments           segments of training, chosen at random and replayed
figures            every figure computed again from recorded losses
comparison_checks  the plan of a comparison, its runs and its figures
study_checks       the findings of a study over sizes
bundles            one file with all that is needed
verifying          all of these in one call
wording            the findings as rows, sentences, a page and JSON
"""

from attnlab.verification.verifying import Verification, verify

__all__ = ["Verification", "verify"]
