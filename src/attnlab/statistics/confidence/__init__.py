"""Confidence, and what it is worth.

scored          scores and outcomes that belong together
proportions     shares of a count
reliability     calibration
separation      how well a score tells two groups apart
selective       answering only where one is sure
risk_control    a threshold with a guarantee
"""
