"""Attention alone: every variant against fused softmax, its definition and public implementations.

cases        the calls that are timed
attention    all variants
bars         the limits that attnlab claims, and how each is measured
"""
