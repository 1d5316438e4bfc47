"""The waiting times of users.

commands        the default comparison, and `attnlab look` at a model
verification    a bundle, its verification, and the cost of receipts
pretrained      a pretrained model compared with Transformers, and `attnlab look` at it
retrofit        the retrofit of a pretrained model to another attention
studio          the studio
cost            predicted and measured cost, and the growth of time with the context
cost_process    the process in which one model is measured
"""
