"""What the studio's worker processes do: plain questions in, plain answers out.

state         the playground's state: a value, a link, a program
playground    every step of attention for a state, states to begin with, and the form of a specification
comparisons   plans, and comparisons as they go
runs          the heads of trained models, and questions to knowledge models
pages         pages of other packages as parts: those of cost and of the exhibits
"""
