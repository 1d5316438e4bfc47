"""What a comparison shows of itself.

wording      sentences
tables       tables
charts       figures of differences: by seed, against size, against cost
curves       small figures for each variant: along the run, over learning rates, measures
attention    sections on what attention is like
report       the page
recall       how much each arm recalls: table, page, CSV
answer       what was printed, kept for the next time
exports      JSON, CSV, Markdown, notebooks, and from a comparison to its answer
"""
