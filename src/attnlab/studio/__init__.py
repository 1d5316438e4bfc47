"""The studio: the laboratory in a web page. It computes nothing itself: all numbers come from the other packages.

studio      its settings, its workers, the comparisons and studies that it started
folders     the folders of comparisons and studies, and their names in a browser
connections a time limit for the headers of a request
labels      titles, notes and stars of comparisons and studies; deleting and restoring
guard       access control
server      the pages behind the guard, as a web server
frame       navigation and messages around every page
widgets     controls, and parts of pages
tour        five steps through the pages
pictures    small pictures as SVG
picker      selection of a run: comparison, variant, seed
equation    one attention weight, with every number that it was computed from
matrices    numbers and matrices as HTML
parts/      parts that several pages share
retrofits/  the pages of retrofits, and the processes that run them
pages/      one file for each page
work/       what the worker processes do
"""
