"""Whole models against nanoGPT, Transformers and other versions of attnlab.

shapes           the models
entries          who takes part
contenders       what each does
peer_models      other people's GPT-2
contestant       the process of one who takes part
race             all in turn
speed            training
variant_steps    a training step of every variant
step_memory      the memory of training
grid_race        many small runs at once
training         all of these
writing          generation
time_to_loss     whole commands
"""
