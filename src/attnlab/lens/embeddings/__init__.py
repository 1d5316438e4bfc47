"""Vectors: embeddings, directions, neurons.

embeddings    what the directions of an embedding mean, and one token in two sentences
directions    how many directions fit into a space, and more features than dimensions
neurons       what makes a neuron fire, and what it writes
"""
