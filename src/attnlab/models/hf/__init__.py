"""Hugging Face Transformers: variants inside its models, and reading and writing GPT-2 and Llama weights.

attention          variants as attention functions of Transformers (needs the extra `hf`)
masks              masks between Transformers and attnlab
gpt2               reading and writing GPT-2 weights
llama              the same for the Llama family
own                models with other attention, saved together with the code that runs them
modeling_attnlab   that code, which needs no attnlab
fields             the fields of a config.json
folder             the folder of a Transformers model
"""

from attnlab.models.hf.attention import PREFIX, Registration, VariantAttention, register, why_not
from attnlab.models.hf.own import load_own, push_to_hub, save_own

__all__ = ["PREFIX", "Registration", "VariantAttention", "load_own", "push_to_hub", "register", "save_own", "why_not"]
