"""How far results can be trusted.

simulated       comparisons whose truth is known
trained_null    runs in which there is nothing to find
calibration     how often verdicts go wrong
forecasts       how often forecasts do
"""
