"""Studies over sizes: paired differences on a ladder of rungs, their trend, and a forecast for a larger model.

request     what a user asks for
rates       learning rates: searched on the smaller rungs, predicted by a law and verified above them
planning    what fits into the hours, and how long it takes
study       carry it out: rates, then a comparison on every corpus
findings    differences, trend, effective size and tokens, forecast and back-test, as numbers
wording     the findings as sentences and rows
report      the page with its figures, JSON and CSV
"""
