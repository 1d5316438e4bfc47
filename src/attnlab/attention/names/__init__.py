"""Variants by name.

changes     what a variant changes, and numbers behind its name
catalogue   the variants of attnlab, and those that are added
mixtures    which layer of a model has which variant
files       variants from a file or an installed package
"""
