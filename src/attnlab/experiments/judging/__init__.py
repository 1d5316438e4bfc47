"""From finished runs to verdicts.

judgement     the one procedure that decides
collecting    jobs of a plan, and results from the folders of its runs, if these are long enough to be judged
trends        differences over sizes
retrofits     retrofits as arms, against the original finetuned alike
claims        published results, and whether a comparison reproduces them
"""
