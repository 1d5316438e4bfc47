"""Compute weights for another attention variant from those of a trained model, without training.

targets      the new spec of each layer, and what is refused
heads        the projections of a layer, head by head, and the moments of tokens
sharing      keys and values that are merged, reduced in width or tied by least squares
latents      keys and values from a low-rank latent
fitting      temperature, bias and output projection, fitted on real tokens
converting   a converted layer, and a model with some of its layers converted
"""
