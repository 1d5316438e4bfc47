"""Whole models against nanoGPT, Transformers and other versions of attnlab.

entries         the contestants, and the shapes of their models
contenders      what each does: attnlab, and matrix products alone
peer_models     nanoGPT and Transformers
contestant      the process of one contestant
race            all in turn
speed           training and generation
steps           the time of a training step of every variant, and the memory of training
training        all of these, with grids of runs
time_to_loss    whole commands
"""
