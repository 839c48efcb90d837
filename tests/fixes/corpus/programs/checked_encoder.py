"""An encoder that checks ids and lengths before it uses them."""

import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, vocab=30, dim=12):
        super().__init__()
        self.vocab = vocab
        self.embedding = nn.Embedding(vocab, dim, padding_idx=0)
        self.proj = nn.Linear(dim, dim)

    def forward(self, ids, lengths):
        if ids.min() < 0 or ids.max() >= self.vocab:
            raise ValueError(
                f"ids must be in [0, {self.vocab}), got {ids.min().item()} to {ids.max().item()}"
            )
        assert (lengths > 0).all(), "empty sequence"
        assert lengths.max() <= ids.shape[1], f"length {lengths.max()} > {ids.shape[1]}"
        mask = torch.arange(ids.shape[1])[None] < lengths[:, None]
        h = torch.tanh(self.proj(self.embedding(ids))) * mask.unsqueeze(-1)
        longest = lengths.max().item()
        h = h[:, :longest]
        return h.sum(1) / lengths.unsqueeze(1)


def example_inputs():
    torch.manual_seed(24)
    return [
        (torch.randint(1, 30, (3, 7)), torch.tensor([7, 3, 5])),
        (torch.randint(1, 30, (3, 7)), torch.tensor([4, 6, 2])),
    ]
