"""Pages: a look at one text, and the views that it may show besides.

look_page          the page of a look, and the form of views that a page, a terminal and JSON share
head_views         heads, and heads over checkpoints
model_views        embeddings, neurons and facts
look               one text as every head sees it, and which views are asked for
comparison_page    what a change did to the heads
survey             published findings, measured in one model with intervals over texts
"""
