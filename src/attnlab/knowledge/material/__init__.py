"""What a knowledge model is made from.

marks        the two characters with a meaning
spelling     how texts are compared
documents    the text, one document on each line
pairs        questions with their answers
strangers    names that nobody has
codec        all of it as tokens
material     text and pairs, each with one use
"""
