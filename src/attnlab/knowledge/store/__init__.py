"""The fact store, and look-ups in it.

schema         its records, its tables and its file
matching       words, quoted for the full-text search
store          questions, answers and texts in that file
files          files that are imported and exported
passages       where in a text an answer may stand
lookup         the answer: first from the facts, then read from texts
benchmark      its speed, and its safety against kills and concurrent writers
"""
