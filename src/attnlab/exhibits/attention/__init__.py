"""Attention in one layer, from its scores to its cost.

worked_example    attention by hand
scaling           why scores are divided by √D_k
magnitude         long keys attract attention
movies            a query against a table of keys
copying           a weight of nearly 1
averaging         two equal weights
masking           masked means zero
batches           all words at once
shapes            which axes to transpose, and which to normalise
complexity        how cost grows with length and with width
"""
