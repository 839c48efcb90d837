"""Greedy decoding with a KV cache that grows: a prefill, then one token at a time."""
import logging
import math

import torch
import torch.nn as nn

logger = logging.getLogger(__name__)


class Attention(nn.Module):
    def __init__(self, dim, heads, index):
        super().__init__()
        self.heads = heads
        self.index = index
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, cache):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if self.index in cache:
            k = torch.cat([cache[self.index][0], k], dim=2)
            v = torch.cat([cache[self.index][1], v], dim=2)
        cache[self.index] = (k, v)
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        if t > 1:
            mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
            scores = scores.masked_fill(~mask, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d))


class Decoder(nn.Module):
    def __init__(self, vocab=50, dim=32, layers=2, eos=0):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.position = nn.Parameter(torch.randn(64, dim) * 0.02)
        self.layers = nn.ModuleList(Attention(dim, 4, i) for i in range(layers))
        self.head = nn.Linear(dim, vocab)
        self.eos = eos
        self.finished = False

    def forward(self, tokens, cache, start):
        if tokens.max() >= self.embed.num_embeddings:
            raise ValueError("token out of range")
        x = self.embed(tokens) + self.position[start : start + tokens.shape[1]]
        for layer in self.layers:
            x = x + layer(x, cache)
        logger.debug("cache holds %d positions", cache[0][0].shape[2])
        next_token = self.head(x[:, -1]).argmax(-1)
        if (next_token == self.eos).all().item():
            self.finished = True
        return next_token


def build():
    return Decoder()


def example_inputs():
    cache = {}
    yield torch.randint(1, 50, (2, 6)), cache, 0
    for start in range(6, 10):
        yield torch.randint(1, 50, (2, 1)), cache, start
