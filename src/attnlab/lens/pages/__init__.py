"""Pages: one text as every head sees it, and optional further views.

look_page          the page of a look, and the form of views that a page, a terminal and JSON share
head_views         heads, and heads over checkpoints
model_views        embeddings, neurons and facts
look               one text as every head sees it, and the choice of views
comparison_page    the comparison of heads
survey             published findings, measured in one model with intervals over texts
"""
