"""Weights for another attention, from those that a model has, without training.

targets      what each layer becomes, and what is refused
heads        the maps of a layer, head by head, and the moments of tokens
sharing      keys and values that are merged, narrowed or tied by least squares
latents      keys and values from a latent, by low rank
fitting      temperature, bias and output projection, fitted on real tokens
converting   a layer, and a model with some of its layers changed
"""
