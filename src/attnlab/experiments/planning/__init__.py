"""The plan of a comparison: everything that is decided before the first run.

procedure      how arms are judged, and the power of that
plan           the plan as a record on disk
budgets        tokens and batches of a size, and variants made equal to the baseline in what they cost
rate_search    a bracketed search for learning rates
pilot          how noisy a paired difference is, and what is recorded of the default comparison
retrofits      the request that compares retrofits of one model
planner        from a request to a plan
"""
