"""Whole models against nanoGPT, Transformers and other versions of attnlab.

race            the contestants, the shapes of their models, and a race in turns
contenders      what each does: attnlab, nanoGPT, Transformers, and matrix products alone
contestant      the process of one contestant
speed           training and generation
training        the steps of every variant, the memory of training, grids of runs, and all of training together
time_to_loss    whole commands
"""
