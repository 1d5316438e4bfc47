"""`attnlab knowledge …` and `attnlab ask`.

commands      pretrain, finetune, run and demo, and the options that they share
evaluation    evaluate, learn and report
facts         the fact store
ask           ask a model
"""
