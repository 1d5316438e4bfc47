"""The studio: the laboratory in a web page. It holds no science: all numbers come from the packages below.

studio      its settings, its workers, the comparisons and studies that it started
folders     the folders of comparisons and studies, and their names in a browser
connections limits on headers and on the time in which they arrive
labels      titles, notes and marks of comparisons and studies; deleting and restoring
guard       who may talk to it
server      the pages behind the guard, as a web server
frame       navigation and messages around every page
widgets     controls, and parts of pages
tour        five steps through the pages
pictures    small pictures as SVG
picker      a run out of many: comparison, variant, seed
equation    one number of a map, with every number that it was made of
matrices    numbers, and matrices of them as HTML
parts/      parts that several pages share
retrofits/  the pages of retrofits, and the processes that carry them out
pages/      one file for each page
work/       what the worker processes do
"""
