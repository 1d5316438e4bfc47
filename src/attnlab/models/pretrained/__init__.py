"""Models that were trained elsewhere.

llama             what all files of the Llama family have in common
published         published models by name, without weights
weights           weights from a file into a model, checked before anything is allocated
gguf_header       the header of a GGUF file
gguf              its model
gguf_tokenizer    its tokenizer
opening           a model, its tokenizer and where it came from, by its place
"""
