"""Questions about a model's cost.

configs    models from a Hugging Face config.json
changes    changes of attention by the fields of its spec
question   a model by name, with changes
sweep      the cost as the context or the width grows
capacity   what fits into a memory, and how large a batch and context may be
"""
