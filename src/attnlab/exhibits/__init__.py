"""The worked theory: every claim of the notes as a short program that computes it and checks it while you look.

    exhibits()                                  all of them, in the order of a course
    exhibit_named("scaling").run(key_width=256)  an Outcome: prints, becomes a page, shows itself in a notebook

Each file of this folder is one exhibit, in the percent format, so that it opens as a notebook as it is. What they share
is in `frame/`.
"""

from attnlab.exhibits.frame.blocks import bars, histogram, line, number_text, points, vector_text
from attnlab.exhibits.frame.checks import Check
from attnlab.exhibits.frame.exhibit import Exhibit, exhibit
from attnlab.exhibits.frame.gallery import exhibit_named, exhibits
from attnlab.exhibits.frame.outcome import Outcome
from attnlab.exhibits.frame.parameters import Parameters
from attnlab.exhibits.frame.stage import Stage

__all__ = [
    "Check",
    "Exhibit",
    "Outcome",
    "Parameters",
    "Stage",
    "bars",
    "exhibit",
    "exhibit_named",
    "exhibits",
    "histogram",
    "line",
    "number_text",
    "points",
    "vector_text",
]
