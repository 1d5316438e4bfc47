"""Comparisons and studies as the studio shows them.

comparisons   plans and progress of comparisons
studies       plans and progress of scale studies
findings      the results of a study, as its page shows them
lists         comparisons and studies in one list
charts        charts of comparisons and studies while they run
"""
