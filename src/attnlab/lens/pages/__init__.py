"""The page of a look, and its parts.

views              the form that a page, a terminal and JSON share
embedding_views    embeddings
neuron_views       neurons
fact_views         facts
training_views     heads over checkpoints
study_views        heads
further            which of these are asked for
look_page          the page
"""
