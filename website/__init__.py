"""The documentation site: `python -m website` builds it, from a checkout with the extra `site`.

paths        where everything is, and what is kept between builds
hooks        pages that are not files of docs/, links between both, and the navigation
reference    the reference of the public API, as directives for mkdocstrings
commands     the reference of the command line
equations    equations of the tables as mathematics
notebooks    tutorials: executed, and as pages
gallery      pages that attnlab itself writes
shared       one copy of plotly.js for all pages
"""
