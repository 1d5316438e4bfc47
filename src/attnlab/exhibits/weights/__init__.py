"""How one head weighs keys, from its scores.

worked_example    attention by hand
scaling           why scores are divided by √D_k
magnitude         long keys draw attention
movies            a query against a table of keys
copying           a weight of nearly 1
averaging         two equal weights
"""
