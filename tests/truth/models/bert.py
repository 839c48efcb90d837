"""BERT with a classifier on top: no break."""

import torch
from transformers import BertConfig, BertForSequenceClassification


def build():
    config = BertConfig(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
    )
    return BertForSequenceClassification(config).eval()


def example_inputs():
    return [
        {
            "input_ids": torch.arange(8).reshape(1, 8),
            "attention_mask": torch.ones(1, 8, dtype=torch.long),
        }
    ]
