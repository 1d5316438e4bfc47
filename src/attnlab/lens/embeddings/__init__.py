"""Vectors: embeddings, directions, neurons.

embeddings       what the directions of an embedding mean
contexts         one token in two sentences, layer by layer
directions       how many directions fit into a space
superposition    more features than dimensions
neurons          what makes a neuron fire, and what it writes
"""
