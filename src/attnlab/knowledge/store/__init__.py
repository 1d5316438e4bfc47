"""The fact store, and looking things up in it.

facts          what it holds
schema         its file
store          questions, answers and texts in that file
importing      files that come in and go out
passages       where in a text an answer may stand
habits         how texts say an answer
text_reader    the answer, read out of texts
looking_up     first among the facts, then in the texts
measuring      how fast and how safe it is
"""
