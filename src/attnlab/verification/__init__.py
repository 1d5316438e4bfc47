"""Verification of recorded results by someone who did not train them.

checks             checks that hold, fail or could not be made
run_checks         receipts, record, metrics, result and weights of one run
segments           segments of training, drawn at random and replayed
figures            every figure, recomputed from recorded losses
comparison_checks  the plan of a comparison, its runs and its figures
study_checks       the findings of a study over sizes
bundles            one file with everything needed for verification
verifying          all of these in one call
wording            the findings as rows, sentences, a page and JSON
"""

from attnlab.verification.verifying import Verification, verify

__all__ = ["Verification", "verify"]
