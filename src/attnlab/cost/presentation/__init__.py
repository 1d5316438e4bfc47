"""Costs as tables and pages.

tables       tables of one model: parts, tensors, heads, sweeps, capacity
cost_table   models side by side
page         an offline page with figures
"""
