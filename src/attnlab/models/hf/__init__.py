"""attnlab and Transformers: variants inside its models, and the weights of GPT-2 and Llama in and out.

attention          variants as attention functions of Transformers (needs the extra `hf`)
masks              masks between Transformers and attnlab
gpt2               GPT-2's weights, read and written
llama              those of the Llama family
own                models with other attention, in a folder with the code that runs them
modeling_attnlab   that code, which needs no attnlab
fields             the fields of a config.json
folder             the folder that holds a model of Transformers
"""

from attnlab.models.hf.attention import PREFIX, Registration, VariantAttention, register, why_not
from attnlab.models.hf.own import load_own, push_to_hub, save_own

__all__ = ["PREFIX", "Registration", "VariantAttention", "load_own", "push_to_hub", "register", "save_own", "why_not"]
