"""Where facts live in a model.

facts      facts as tokens
tracing    causal tracing, and what it found
"""
