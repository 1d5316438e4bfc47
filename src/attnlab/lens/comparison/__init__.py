"""What a change did to the heads: runs on two sides.

sides              which runs belong to one side
profiles           the heads of a model in a few numbers
comparing_heads    the comparison
compared           what came of it
compare_page       its page
"""
