"""Sequences: who sees whom, which axis is which, and what that costs.

masking       masked means zero
batches       all words at once
shapes        which axes to swap, and which to normalise
complexity    what grows with length and with width
"""
