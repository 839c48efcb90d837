"""A training step of a deep GPT-2 at two lengths: few compiles, each with long graphs and much
code.

The number of layers is the argument.
"""

from __future__ import annotations

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(
    n_layer=int(sys.argv[1]),
    n_head=2,
    n_embd=32,
    vocab_size=128,
    n_positions=64,
    bos_token_id=0,
    eos_token_id=0,
    use_cache=False,
)
model = torch.compile(GPT2LMHeadModel(config).train())
for length in (16, 17):
    ids = torch.randint(1, 128, (2, length))
    model(ids, labels=ids).loss.backward()
