"""GPT-2 with four layers and random weights: one graph, no break."""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(
    GPT2Config(n_layer=4, n_head=4, n_embd=256, vocab_size=1000, n_positions=128, use_cache=False)
).eval()


def example_inputs() -> tuple[torch.Tensor]:
    """The arguments of the call."""
    return (torch.randint(1, 1000, (4, 64)),)
