"""The worked theory: every claim as a short program that computes it and checks it while you look.

    exhibits()                                  all of them, in the order of a course
    exhibit_named("scaling").run(key_width=256)  an Outcome: prints, becomes a page, shows itself in a notebook

Each file of these folders is one exhibit, in the percent format, so that it opens as a notebook as it is:

weights       how one head weighs keys: by hand, the scale, lengths, copying, averaging
heads         several heads, their matrices and values, and what they add to a token
sequences     masks, batches, shapes, and cost in length and width
embeddings    directions, superposition, analogies, context
learning      models that are trained for a moment and then examined
frame         what all exhibits share
"""

from attnlab.exhibits.frame.blocks import bars, histogram, line, points, vector_text
from attnlab.exhibits.frame.exhibit import Exhibit, Outcome, exhibit
from attnlab.exhibits.frame.gallery import exhibit_named, exhibits
from attnlab.exhibits.frame.parameters import Parameters
from attnlab.exhibits.frame.stage import Check, Stage
from attnlab.formats import general as number_text

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
