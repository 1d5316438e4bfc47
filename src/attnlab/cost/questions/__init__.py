"""What is asked about a model's cost.

configs    models from a config.json of Hugging Face
changes    changes of attention by the fields of its spec
question   a model by its names, with its changes
sweep      one quantity varied
capacity   what fits into a memory, and how large a batch and context may be
"""
