"""Experiments: a plan, its runs wherever they run, a verdict, a report.

Names are imported when they are used, so that an answer that is there already can be given at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlab.experiments.claims import Claim, published_claims
    from attnlab.experiments.comparing import compare
    from attnlab.experiments.judging import Judgement, Procedure, judge
    from attnlab.experiments.plan import Plan
    from attnlab.experiments.request import Request
    from attnlab.experiments.results import Comparison

_PLACES = {
    "Claim": "claims",
    "Comparison": "results",
    "Judgement": "judging",
    "Plan": "plan",
    "Procedure": "judging",
    "Request": "request",
    "compare": "comparing",
    "judge": "judging",
    "published_claims": "claims",
}

__all__ = ["Claim", "Comparison", "Judgement", "Plan", "Procedure", "Request", "compare", "judge", "published_claims"]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
