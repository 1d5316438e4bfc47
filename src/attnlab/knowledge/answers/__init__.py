"""Answers from memory, and how far they can be trusted.

decoding       many prompts at once, freely or by copying from a text
model          a knowledge model that answers questions
guarantee      when it may answer from memory
evaluation     what a model knows, and how good its confidence scores are
"""
