"""How a knowledge model is trained.

recipes        a model, and how it learns
sources        where rows come from: documents, document-conditioned QA, pairs, synthetic QA, unseen entities
rows           a corpus of rows of different lengths
stage_run      one stage of training in its run directory
stages         pretraining, synthetic QA, finetuning, and learning more pairs
learning       learning the facts of a store, and what it gained and lost
"""
