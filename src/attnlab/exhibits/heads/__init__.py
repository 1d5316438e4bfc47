"""Several heads: why, and what they are made of.

single_head            one head swings when a key's length varies
multi_head             two heads keep the average steady
identity_attention     attention without projections
kqv_construction       projections that fetch what is asked for
heads_as_one_matrix    all heads in one product
residual_update        a token moves by what it attends to
low_rank_value         values of a low rank
"""
