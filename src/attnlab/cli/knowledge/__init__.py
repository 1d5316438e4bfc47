"""`attnlab knowledge …` and `attnlab ask`.

commands      pretrain, finetune, run and demo
options       options that these share
evaluation    evaluate, learn and report
facts         the fact store
ask           ask a model
"""
