"""The fact store, and looking things up in it.

schema         what it holds, and its file
matching       words as the full-text search takes them
store          questions, answers and texts in that file
files          files that are imported and exported
passages       where in a text an answer may stand
lookup         the answer: first among the facts, then read out of texts
benchmark      how fast it is, and what kills and other writers do to it
"""
