"""Embeddings with padding that is cut off."""

import torch
from torch import Tensor, nn


class Pooler(nn.Module):
    def __init__(self, vocabulary: int, dim: int, pad: int = 0) -> None:
        super().__init__()
        self.pad = pad
        self.embedding = nn.Embedding(vocabulary, dim, padding_idx=pad)
        self.attention = nn.Linear(dim, 1)

    def lengths(self, tokens: Tensor) -> Tensor:
        return (tokens != self.pad).sum(dim=1)

    def forward(self, tokens: Tensor) -> Tensor:
        lengths = self.lengths(tokens)
        longest = int(lengths.max())
        tokens = tokens[:, :longest]
        vectors = self.embedding(tokens)
        weights = self.attention(vectors).squeeze(-1)
        weights = weights.masked_fill(tokens == self.pad, -1e9).softmax(-1)
        return (weights.unsqueeze(-1) * vectors).sum(1)


class Application:
    pooler: Pooler

    def __init__(self):
        self.pooler = Pooler(20, 8)

    def optimize(self):
        self.pooler = torch.compile(self.pooler, backend="eager")
        return self


application = Application().optimize()
application.pooler(torch.tensor([[1, 2, 3, 0, 0], [4, 5, 0, 0, 0]]))
