"""How a knowledge model is trained.

recipes        a model, and how it learns
objectives     what there is to learn from a document
rows           a corpus of rows of different lengths
staging        what pretraining and finetuning share
pretraining    reading the text
reading        documents with the question that each answers
practising     questions that a model writes itself
finetuning     learning to answer
learning       learning what was kept
"""
