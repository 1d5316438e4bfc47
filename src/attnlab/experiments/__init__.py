"""Experiments: a plan, its runs wherever they run, a verdict, a report. In the order in which they are carried out:

    request      what a user asks for: a comparison, or a study over sizes
    planning     the plan of a request: arms, sizes, rates, noise, power, time
    launching    its runs, on this machine, on Ray or on Slurm
    judging      verdicts, trends over sizes, published claims
    results      all that was found, and the interim analyses that are done
    receipt      one hash over the plan and the receipts of all runs
    numbers      numbers of a comparison as text
    reporting    the page, tables, words, JSON and CSV
    comparing    all of these in one call
    status       how far a comparison is, read from its folder
    scale        studies over many sizes, with forecasts

Names are imported when they are used, so that an answer that is there already can be given at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlab.experiments.comparing import compare
    from attnlab.experiments.judging.claims import Claim, published_claims
    from attnlab.experiments.judging.judgement import Judgement, judge
    from attnlab.experiments.planning.plan import Plan
    from attnlab.experiments.planning.procedure import Procedure
    from attnlab.experiments.request import Request
    from attnlab.experiments.results import Comparison

_PLACES = {
    "Claim": "judging.claims",
    "Comparison": "results",
    "Judgement": "judging.judgement",
    "Plan": "planning.plan",
    "Procedure": "planning.procedure",
    "Request": "request",
    "compare": "comparing",
    "judge": "judging.judgement",
    "published_claims": "judging.claims",
}

__all__ = ["Claim", "Comparison", "Judgement", "Plan", "Procedure", "Request", "compare", "judge", "published_claims"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
