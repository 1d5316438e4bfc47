"""Models trained elsewhere.

llama             the parts common to all files of the Llama family
published         published models by name, without weights
weights           loading weights from a file, checked before anything is allocated
gguf_header       the header of a GGUF file
gguf              its model
gguf_tokenizer    its tokenizer
opening           opening a model and its tokenizer by name or path
"""
