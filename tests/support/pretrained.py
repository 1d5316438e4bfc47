"""Tiny models of the Llama family in the files of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from attnlab.corpora import BpeTokenizer

TINY: dict[str, Any] = {
    "vocab_size": 300,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 48,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
    "bos_token_id": None,
    "eos_token_id": None,
}
TEXT = "to be or not to be, that is the question"


def their_llama(**changes: Any) -> Any:
    """Return a Llama of Transformers, all of whose weights matter, the norms and biases too."""
    model = LlamaForCausalLM(LlamaConfig(**TINY | changes)).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "norm" in name else 0.0, 0.2, generator=generator)
    return model


def some_tokens(rows: int = 2, length: int = 40) -> Tensor:
    return torch.randint(TINY["vocab_size"], (rows, length), generator=torch.Generator().manual_seed(1))


def small_tokenizer() -> BpeTokenizer:
    return BpeTokenizer.train([TEXT], 280)


def write_llama(folder: Path) -> Path:
    """Write a Llama of Transformers with a tokenizer into a folder, and a text for it beside the folder."""
    their_llama().save_pretrained(folder)
    small_tokenizer().save(folder / "tokenizer.json")
    (folder.parent / "text.txt").write_text(" ".join([TEXT] * 60), encoding="utf-8")
    return folder


GGUF_NAMES = {
    "model.embed_tokens.": "token_embd.",
    "model.norm.": "output_norm.",
    "model.layers.": "blk.",
    "lm_head.": "output.",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def write_gguf(
    path: Path,
    model: Any,
    *,
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    architecture: str = "llama",
    words: str = "smollm",
    tokens: bool = True,
    extra: dict[str, Any] | None = None,
) -> Path:
    """Write a Llama of Transformers as llama.cpp's converter does, with the rows of queries and keys in pairs."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    for name, value in (extra or {}).items():
        (writer.add_string if isinstance(value, str) else writer.add_float32)(name, value)
    if tokens:
        _add_tokenizer(writer, words)
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for name, tensor in model.named_parameters():
        array = tensor.detach().numpy()
        for part, count in heads.items():
            if part in name:
                array = array.reshape(count, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        for theirs, short in GGUF_NAMES.items():
            name = name.replace(theirs, short)
        stored = kind if array.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(array), stored), raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: gguf.GGUFWriter, words: str) -> None:
    inner = small_tokenizer()._inner
    model = small_tokenizer()._content()["tokenizer"]["model"]  # type: ignore[index]
    pieces = [inner.id_to_token(number) for number in range(inner.get_vocab_size())]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(words)
    writer.add_token_list([*pieces, "<|end|>"])
    writer.add_token_types([1] * len(pieces) + [3])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
