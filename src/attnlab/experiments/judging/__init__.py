"""From finished runs to verdicts.

judgement     the one procedure that decides
settling      whether runs are long enough to be judged
collecting    jobs of a plan, and results from the folders of its runs
trends        differences over sizes
claims        published results, and whether a comparison reproduces them
"""
