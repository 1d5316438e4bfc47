"""The reliability of results.

simulated      comparisons whose truth is known
calibration    how often verdicts are wrong, simulated and trained
forecasts      how often forecasts are
"""
