"""What all measurements share.

timing      ratios of durations on a shared machine
resident    the memory of whole processes
progress    how a measurement tells what it is at
judging     claims and their verdicts
findings    what was found, for a terminal, a page and JSON
report      words and rows
charts      figures and pages
"""
