"""Shared by all measurements.

timing      ratios of durations on a shared machine
memory      the peak memory of calls and of processes
judging     bars and their verdicts
findings    the findings, for a terminal, a page and JSON
commands    whole commands, and the browser
"""
