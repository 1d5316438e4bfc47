"""Texts and tasks that are made on the spot; `corpora.spec` has their options.

names          invented names
world          people and places with a table of truth
kinship        families and courts
tasks          the base of the tasks
recall         associative recall (`mqar`), and the place of a symbol (`matching`)
adjectives     a word that decides what follows
translation    sentences with a known alignment
"""
