"""Where facts live in a model.

facts       facts as tokens
tracing     causal tracing
traced      what it found
shuffled    the control: a model with its weights in disorder
"""
