"""Texts and tasks that are made on the spot; `corpora.spec` has their options.

world          people and places with a table of truth, and invented names
kinship        families and courts
recall         associative recall (`mqar`), and the place of a symbol (`matching`)
adjectives     a word that decides what follows
translation    sentences with a known alignment
"""
