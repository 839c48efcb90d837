"""GPT-2 with a language-model head: no break."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel


def build():
    config = GPT2Config(
        vocab_size=64, n_positions=32, n_embd=16, n_layer=2, n_head=2, use_cache=False
    )
    return GPT2LMHeadModel(config).eval()


def example_inputs():
    return [{"input_ids": torch.arange(8).reshape(1, 8)}]
