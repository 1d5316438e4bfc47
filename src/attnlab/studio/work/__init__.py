"""What the studio's worker processes do: plain questions in, plain answers out.

state         the playground's state: a value, a link, a program
playground    every step of attention for a state
presets       states to begin with
forms         a form from a specification
comparisons   plans, and comparisons as they go
runs          the heads of trained models, and questions to knowledge models
pages         pages of other packages as parts, and that of cost
exhibits      the exhibits
"""
