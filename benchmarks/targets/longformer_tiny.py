"""Longformer from a small configuration, random weights: it breaks in a logger call and in
``.item()``.
"""

from __future__ import annotations

import torch
from transformers import LongformerConfig, LongformerModel

torch.manual_seed(0)
model = LongformerModel(
    LongformerConfig(
        num_hidden_layers=2,
        num_attention_heads=2,
        hidden_size=32,
        intermediate_size=64,
        vocab_size=128,
        attention_window=4,
        max_position_embeddings=64,
    )
).eval()


def example_inputs() -> tuple[torch.Tensor]:
    """The arguments of the call."""
    return (torch.randint(2, 128, (2, 30)),)
