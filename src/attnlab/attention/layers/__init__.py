"""Whole layers of one's own: any `nn.Module` in the place of attention.

own        a module as a part of a specification: what it takes, and what it cannot give
whole      the module as a layer of a model
adding     a module becomes a variant with a name
"""
