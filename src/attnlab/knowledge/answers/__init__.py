"""Answers from memory, and how far they can be trusted.

decoding       many prompts at once, freely or copying out of a text
model          a knowledge model, to be asked
evaluation     what a model knows
guarantee      when it may answer from memory
confidence     how good its confidence scores are
"""
