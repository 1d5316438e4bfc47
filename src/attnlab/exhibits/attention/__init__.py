"""Attention in one layer, from its scores to its cost.

worked_example    attention by hand
scaling           why scores are divided by √D_k
magnitude         long keys draw attention
movies            a query against a table of keys
copying           a weight of nearly 1
averaging         two equal weights
masking           masked means zero
batches           all words at once
shapes            which axes to swap, and which to normalise
complexity        what grows with length and with width
"""
