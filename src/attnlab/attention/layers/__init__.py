"""User-defined layers: any `nn.Module` in place of attention.

own        a module as a part of a specification: its arguments and its limits
whole      the module as a layer of a model
adding     register a module as a named variant
"""
