"""Attention alone: every variant against fused softmax, its definition and public implementations.

cases         the calls that are timed
memory        the memory that a call holds
peers         public implementations
attention     all variants
yardsticks    how bars are measured
bars          what attnlab claims
"""
