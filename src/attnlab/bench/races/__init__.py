"""Whole models against nanoGPT, Transformers and other versions of attnlab.

race            the contestants, the shapes of their models, and races between their processes
contenders      the work of each: attnlab, nanoGPT, Transformers, and matrix products alone
contestant      the process of one contestant
speed           training and generation
training        the steps of every variant, the memory of training, grids of runs, and the whole training benchmark
time_to_loss    whole commands
"""
