"""Granite: no break."""

import torch
from transformers import GraniteConfig, GraniteForCausalLM


def build():
    config = GraniteConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        use_cache=False,
    )
    return GraniteForCausalLM(config).eval()


def example_inputs():
    return [{"input_ids": torch.arange(8).reshape(1, 8)}]
