"""Answers from memory, and how far they can be trusted.

completing     going on with many prompts at once
answering      a model, to be asked
copying        copying an answer out of a text
evaluating     what a model knows
predictions    its answers as a table
confidence     what its confidence is worth
guarantee      when it may answer from memory
"""
