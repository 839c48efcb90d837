"""GPT-2 as its default configuration has it, with random weights, for a GPU."""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(use_cache=False)).eval()


def example_inputs() -> tuple[torch.Tensor]:
    """The arguments of the call."""
    return (torch.randint(1, 1000, (4, 128)),)
