"""Cost as tables, figures and pages.

grids       rows under headings
table       models side by side
figures     where parameters and FLOPs are
terminal    lines in a terminal
page        one offline page
"""
