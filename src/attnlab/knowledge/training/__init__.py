"""The training of a knowledge model.

recipes        the model and its training settings
sources        the sources of rows: documents, document-conditioned QA, pairs, synthetic QA, unseen entities
rows           a corpus of rows of different lengths
stage_run      one stage of training in its run directory
stages         pretraining, synthetic QA, finetuning, and learning more pairs
learning       learning the facts of a store, and measuring what was gained and lost
"""
