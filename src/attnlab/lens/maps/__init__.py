"""Attention maps, and what they are like.

attention_maps      the weights of every layer and head
measures            what maps are like, in numbers
length_direction    whether a key's length or its direction draws attention
pointing            whether heads look where they should
looks               one text as every head sees it
looking             from a model and a text to that
run_measures        the measures of a finished run, kept with it
"""
