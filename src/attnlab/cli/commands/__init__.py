"""The commands, one file each, in the order in which help lists them.

compare        compare variants of attention
scale          study them over several model sizes
variants       the catalogue of variants
check          check a variant, including your own
cost           parameters, FLOPs and memory of a model
train          train one model
generate       generate text
look           look inside a trained model
exhibit        worked theory, computed and checked
runs           list, show, remove and clean up runs
studio         the laboratory in a web page
bench          measure this machine against the peers
bench_facts    measure the fact store, for `attnlab bench facts`
"""
