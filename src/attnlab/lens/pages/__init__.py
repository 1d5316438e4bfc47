"""Pages: a look at one text, and the views that it may show besides.

views              the form that a page, a terminal and JSON share
head_views         heads, and heads over checkpoints
embedding_views    embeddings and neurons
fact_views         facts
extras             which of these are asked for
look               one text as every head sees it, from a model and a text
look_page          its page
"""
