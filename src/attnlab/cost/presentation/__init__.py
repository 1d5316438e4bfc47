"""Cost as tables, figures and pages.

tables      the tables of one model
cost_table  models side by side
terminal    lines in a terminal
page        one offline page, with its figures
"""
