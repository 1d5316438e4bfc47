"""What the studio's worker processes do: plain questions in, plain answers out.

state         the playground's state: a value, a link, a program
first         the presets, and the numbers of the first without PyTorch
playground    every step of attention for a state, states to begin with, and the form of a specification
experiments/  comparisons and studies as they go
runs          the heads of trained models, and questions to knowledge models
facts         the fact store page by page, and what a model learns from it
retrofits     what a retrofit takes, and retrofits as they go
flow          a text on its way through a model: maps, residual stream, what comes next
pages         pages of other packages as parts: those of cost and of the exhibits
"""
