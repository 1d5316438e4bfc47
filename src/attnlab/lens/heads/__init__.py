"""Heads: what each does, says and is worth.

parts           what each head writes
attribution     which part of a model says what
ablation        what each head is worth
next_tokens     what a model expects without some heads
ranks           how many directions a head reads and writes
patterns        where heads look and what they write, on the same texts
redundancy      how alike heads are
role_reading    the texts that roles are measured on
role_scores     how far a head plays a role
roles           the roles of all heads
studying        all of this for one model
run_heads       roles in a finished run, kept with it
"""
