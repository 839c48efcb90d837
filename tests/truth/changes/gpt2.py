"""GPT-2 tiny with random weights: growing sequences, then a batch of four, then generation with two
kinds of cache."""

from __future__ import annotations

import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(0)
config = GPT2Config(
    n_layer=2, n_head=2, n_embd=32, vocab_size=100, n_positions=64, bos_token_id=0, eos_token_id=0
)
model = GPT2LMHeadModel(config).eval()
compiled = torch.compile(model, backend="eager")
with torch.no_grad():
    for batch, length in ((1, 5), (1, 6), (1, 7), (4, 7)):
        compiled(input_ids=torch.randint(1, 100, (batch, length)))
    model.forward = torch.compile(model.forward, backend="eager")
    for cache in ("dynamic", "static"):
        ids = torch.randint(1, 100, (1, 5))
        options = (
            {}
            if cache == "dynamic"
            else {"cache_implementation": "static", "disable_compile": True}
        )
        model.generate(ids, max_new_tokens=4, do_sample=False, pad_token_id=0, **options)
