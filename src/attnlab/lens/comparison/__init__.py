"""What a change did to the heads: groups of runs.

groups             which runs belong to one group
comparison         the comparison, and what came of it
comparison_page    its page
"""
