"""Texts and tasks that are generated on the fly; `corpora.spec` has their options.

world          people and places with a ground-truth table, and invented names
kinship        families and courts
recall         associative recall (`mqar`), and the position of a symbol (`matching`)
adjectives     an adjective that determines the verb
translation    sentences with a known alignment
"""
