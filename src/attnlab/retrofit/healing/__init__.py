"""Training a converted model until it is as good as the original was.

plan          how much is trained, and how
distilling    layer-wise distillation from the original
converted     the converted model as a run
running       one seed of one method, in its folder
curves        loss along healing, and the tokens until it is near the original's
"""
