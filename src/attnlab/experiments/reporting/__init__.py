"""What a comparison shows of itself.

formats            numbers as text
wording            sentences and rows
plan_words         the plan in words
rung_tables        tables over sizes
axis, charts       figures of differences
curves             figures over steps
rung_charts        figures over sizes
report_measures    sections on what attention is like
report_heads       the section on heads
report             the page
exports            JSON, CSV, Markdown, notebooks
notebook           a drawing without scripts
answer             what was printed, kept for the next time
answering          from a comparison to its answer
"""
