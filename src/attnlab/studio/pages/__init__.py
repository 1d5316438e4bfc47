"""The studio's pages: one file each, drawn in a common frame.

home         an overview: the pages, current runs, the latest verdicts, and a tour
playground   editable tokens and matrices, and a form for any attention
compare      a form that becomes a plan, and all comparisons and studies
comparison   one comparison while it runs, and its verdicts
scale        a form for a study over sizes, and all studies
study        one study while it runs, its verdicts and forecasts
seen         the forward pass of a text through a model, head by head
reports      any two reports side by side
heads        the attention matrices of a run's heads; two runs side by side
cost         the cost of a model as its shape changes
ask          questions to a trained model and its fact store
facts        the fact store: browsed, searched, corrected and retracted
exhibits     claims as small programs with their checks
"""

from __future__ import annotations

from attnlab.studio.pages import (
    ask,
    compare,
    comparison,
    cost,
    exhibits,
    facts,
    heads,
    home,
    playground,
    reports,
    scale,
    seen,
    study,
)
from attnlab.studio.retrofits import pages as retrofits
from attnlab.studio.studio import Studio


def register(studio: Studio) -> None:
    """Make every page known to NiceGUI."""
    pages = (home, playground, seen, compare, comparison, scale, study, retrofits, reports, heads, cost, ask, facts)
    for page in (*pages, exhibits):
        page.register(studio)
