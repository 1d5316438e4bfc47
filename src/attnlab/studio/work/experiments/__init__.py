"""Comparisons and studies as the studio shows them.

comparisons   plans, and comparisons as they go
studies       plans, and scale studies as they go
findings      what a study found, as its page shows it
lists         comparisons and studies in one list
charts        charts of comparisons and studies while they run
"""
