"""Small models that are trained and then examined.

cross_attention       which word corresponds to which
synthesizer_limits    what a synthesizer cannot do in one layer
adjective_noun        a head that carries the adjective to its noun
bias_variance         what a learner gets wrong, in three parts
"""
