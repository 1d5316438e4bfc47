"""Measures of attention maps.

maps                what maps are like, in numbers
length_direction    whether a key's length or its direction draws attention
pointing            whether heads attend to the right keys, where these are known
"""
