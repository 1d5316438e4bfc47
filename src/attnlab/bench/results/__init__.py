"""Shared by all measurements.

timing      ratios of durations on a shared machine
memory      the peak memory of calls and of processes
judging     bars and their verdicts
findings    the findings, for a terminal, a page and JSON
page        the page with its figures
"""
