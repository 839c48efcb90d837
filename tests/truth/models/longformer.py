"""Longformer: its padding logs, and its attention reads a flag with ``.item()``."""

import torch
from transformers import LongformerConfig, LongformerModel


def build():
    config = LongformerConfig(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        attention_window=[4, 4],
        max_position_embeddings=40,
    )
    return LongformerModel(config).eval()


def example_inputs():
    return [{"input_ids": torch.arange(2, 12).reshape(1, 10)}]
