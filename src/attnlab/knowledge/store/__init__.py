"""The fact store, and looking things up in it.

schema         what it holds, and its file
store          questions, answers and texts in that file
files          files that are imported and exported
passages       where in a text an answer may stand
text_reader    the answer, read out of texts
lookup         first among the facts, then in the texts
benchmark      how fast it is, and what kills and other writers do to it
"""
