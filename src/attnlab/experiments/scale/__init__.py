"""Studies over sizes: paired differences on a ladder of rungs, their trend, and a forecast for a larger model.

rates       learning rates: searched on the smaller rungs, predicted by a law and verified above them
study       what fits into the hours, and carrying it out: rates, then a comparison on every corpus
record      what a study was asked and planned, in its folder, and how far it is
findings    differences, trend, effective size and tokens, forecast and back-test, in numbers and words
report      the page with its figures, JSON and CSV
"""
