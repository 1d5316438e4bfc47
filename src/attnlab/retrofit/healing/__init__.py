"""Train a converted model to recover the loss of the original (healing).

plan          tokens, batches and learning rates
distilling    layer-wise distillation from the original
converted     the converted model as a run
running       one seed of one method, in its folder
curves        loss during healing, and the tokens until it is close to the original's
"""
