"""Embeddings: directions, and what they come to mean.

almost_orthogonal              how many nearly perpendicular directions fit
superposition                  more features than dimensions
embedding_is_not_an_encoder    one word in two sentences
analogy                        pairs of words with the same offset
"""
