"""T5, encoder and decoder: no break."""

import torch
from transformers import T5Config, T5ForConditionalGeneration


def build():
    config = T5Config(
        vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, use_cache=False
    )
    return T5ForConditionalGeneration(config).eval()


def example_inputs():
    tokens = torch.arange(8).reshape(1, 8)
    return [{"input_ids": tokens, "decoder_input_ids": tokens}]
