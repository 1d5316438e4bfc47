"""Texts and tasks that are made on the spot.

options        their numbers
names          invented names
phrases        how the world says what it says
world          people and places with a table of truth
kinship        families and courts
tasks          the base of the tasks
mqar           associative recall
matching       where did this symbol stand?
adjectives     a word that decides what follows
translation    sentences with a known alignment
"""
