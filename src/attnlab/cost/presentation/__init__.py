"""Costs as people read them.

tables       tables of one model: parts, tensors, heads, sweeps, capacity
cost_table   models side by side
page         one offline page, with its figures
"""
