"""Waiting times of users.

commands        the default comparison, and a look inside a model
verification    a bundle, its verification, and the cost of receipts
pretrained      a pretrained model beside Transformers, and a look at it
retrofit        another attention for a pretrained model
studio          the studio
cost            predicted beside measured cost, and how time grows with the context
cost_process    the process that one model is measured in
"""
