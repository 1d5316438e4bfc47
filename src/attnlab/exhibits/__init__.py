"""The worked theory: every claim as a short program that computes and checks it.

    exhibits()                                  all of them, in the order of a course
    exhibit_named("scaling").run(key_width=256)  an Outcome: prints, becomes a page, displays itself in a notebook

blocks        the elements that an exhibit shows, independent of the output
stage         the functions with which an exhibit shows and checks something
gallery       an exhibit, its parameters, the outcome of a run, and all exhibits by name
pages         outcomes as a page
terminal      an exhibit in a terminal

Each file of these folders is one exhibit in the percent format, so that it can be opened as a notebook:

attention     one layer: weights by hand, scale, lengths, copying, masks, batches, shapes, and cost in length and width
heads         several heads, their matrices and values, and what they add to a token
learning      embeddings, and small models that are trained and then examined
"""

from attnlab.exhibits.blocks import bars, histogram, line, points, vector_text
from attnlab.exhibits.gallery import Exhibit, Outcome, Parameters, exhibit, exhibit_named, exhibits
from attnlab.exhibits.stage import Check, Stage
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
