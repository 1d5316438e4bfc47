"""Multi-head attention: its purpose, and its parts.

single_head            one head is unstable when a key's length varies
multi_head             two heads keep the average stable
identity_attention     attention without projections
kqv_construction       projections that retrieve a chosen component
heads_as_one_matrix    all heads in one product
residual_update        a token moves by what it attends to
low_rank_value         low-rank values
"""
