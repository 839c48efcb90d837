"""A language model that keeps keys and values, called as ``generate`` does: a prompt, then single
tokens.

``CACHE`` says in what: ``growing`` or ``static``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import torch
from transformers import (
    Cache,
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    StaticCache,
)

model: torch.nn.Module
if os.environ["CACHE"] == "growing":
    gpt2 = GPT2Config(
        n_layer=2,
        n_head=2,
        n_embd=16,
        vocab_size=32,
        n_positions=64,
        bos_token_id=0,
        eos_token_id=1,
    )
    model = GPT2LMHeadModel(gpt2).eval()
else:
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "vocab_size": 32,
        "max_position_embeddings": 64,
    }
    llama = LlamaConfig(num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, **sizes)
    model = LlamaForCausalLM(llama).eval()


def example_inputs() -> Iterator[tuple[tuple[()], dict[str, Any]]]:
    is_growing = os.environ["CACHE"] == "growing"
    cache: Cache = (
        DynamicCache(config=gpt2) if is_growing else StaticCache(config=llama, max_cache_len=32)
    )
    yield (), {"input_ids": torch.arange(6)[None], "past_key_values": cache, "use_cache": True}
    for token in range(4):
        yield (
            (),
            {"input_ids": torch.tensor([[token]]), "past_key_values": cache, "use_cache": True},
        )


if __name__ == "__main__":
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        for _, arguments in example_inputs():
            compiled(**arguments)
