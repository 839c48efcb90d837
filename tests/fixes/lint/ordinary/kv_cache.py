"""Attention with a cache that grows in a dictionary."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, name):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.name = name

    def forward(self, x, cache):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        if self.name in cache:
            old_k, old_v = cache[self.name]
            k = torch.cat([old_k, k], dim=1)
            v = torch.cat([old_v, v], dim=1)
        cache[self.name] = (k, v)
        scores = q @ k.transpose(1, 2)
        if torch.isinf(scores).any():
            raise ValueError("infinite scores")
        return self.out(scores.softmax(-1) @ v)


class Decoder(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.embed = nn.Embedding(16, dim)
        self.attention = Attention(dim, "a")
        self.head = nn.Linear(dim, 16)

    def forward(self, tokens, cache):
        return self.head(self.attention(self.embed(tokens), cache))


class Generator:
    def __init__(self):
        self.core = Decoder()
        self.core = torch.compile(self.core, backend="eager")

    @torch.no_grad()
    def generate(self, tokens, count):
        cache = {}
        for _ in range(count):
            logits = self.core(tokens, cache)
            tokens = logits[:, -1:].argmax(-1)
        return tokens


Generator().generate(torch.tensor([[1, 2, 3]]), 3)
