"""What a knowledge model is made from.

text         how texts are cleaned and compared; documents
pairs        questions with their answers
codec        all of it as tokens
material     text and pairs, each with one use
"""
