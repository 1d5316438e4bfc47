"""Paired differences.

paired    tests and intervals
power     how much a number of pairs can show
trend     whether a difference changes with size
"""
