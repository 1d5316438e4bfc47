"""Heads: their roles, contributions, importance and similarity.

attribution    the contribution of each part to the logits
ablation       the importance of each head, and what a model predicts without some
similarity     which heads are similar, in one model and in two
role_scores    how strongly a head plays a role
roles          the roles of all heads, and how many directions each reads and writes
study          all of this for one model, and its profile
"""
