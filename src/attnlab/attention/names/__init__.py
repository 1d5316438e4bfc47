"""Variants by name.

changes     what a variant changes in a spec, and numbers such as that of `window:256`
catalogue   the built-in variants, and user-defined ones
mixtures    which layer of a model has which variant
files       variants from a file or an installed package
"""
