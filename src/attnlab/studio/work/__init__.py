"""The tasks of the studio's worker processes: plain questions in, plain answers out.

state         the playground's state: a value, a link, a program
first         the presets, and the numbers of the first without PyTorch
playground    every step of attention for a state, initial states, and the form of a specification
experiments/  plans and progress of comparisons and studies
runs          the heads of trained models, and questions to knowledge models
facts         the fact store page by page, and what a model learns from it
retrofits     the cost and the progress of retrofits
flow          the forward pass of a text: attention matrices, residual stream, next tokens
pages         pages of other packages as parts: those of cost and of the exhibits
"""
