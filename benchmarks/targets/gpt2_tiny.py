"""GPT-2 from a small configuration, random weights: one graph, no break."""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
model = GPT2LMHeadModel(
    GPT2Config(
        n_layer=2,
        n_head=2,
        n_embd=32,
        vocab_size=128,
        n_positions=64,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
    )
).eval()


def example_inputs() -> tuple[torch.Tensor]:
    """The arguments of the call."""
    return (torch.randint(1, 128, (2, 16)),)


def changing_inputs() -> list[tuple[torch.Tensor]]:
    """Arguments of calls that compile again: another length, then another batch size."""
    return [(torch.randint(1, 128, shape),) for shape in ((2, 16), (2, 17), (3, 18))]
