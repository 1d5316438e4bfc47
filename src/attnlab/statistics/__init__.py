"""Numbers in, numbers out: intervals, paired tests, corrections, and how many seeds a question needs."""

from attnlab.statistics.paired import (
    Interval,
    bca_interval,
    equivalence,
    holm,
    mean_interval,
    paired_t,
    sign_flip,
)
from attnlab.statistics.power import (
    count_needed,
    detectable_difference,
    equivalence_count_needed,
    equivalence_power,
    exceeds,
    pooled_sd,
    smallest_sign_flip_p,
    upper_sd,
)

__all__ = [
    "Interval",
    "bca_interval",
    "count_needed",
    "detectable_difference",
    "equivalence",
    "equivalence_count_needed",
    "equivalence_power",
    "exceeds",
    "holm",
    "mean_interval",
    "paired_t",
    "pooled_sd",
    "sign_flip",
    "smallest_sign_flip_p",
    "upper_sd",
]
