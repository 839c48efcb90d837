"""Sampling of the next token with top-k and top-p."""

import random

import torch
import torch.nn.functional as F


class Sampler:
    def __init__(self, temperature, top_k, top_p):
        self.temperature = temperature
        self.top_k = top_k
        self.top_p = top_p
        self.pick = torch.compile(self.pick, backend="eager")

    def pick(self, logits):
        logits = logits / self.temperature
        values, _ = torch.topk(logits, self.top_k)
        logits = logits.masked_fill(logits < values[:, -1:], float("-inf"))
        ordered, indices = torch.sort(logits, descending=True)
        cumulative = F.softmax(ordered, dim=-1).cumsum(dim=-1)
        remove = cumulative > self.top_p
        remove[:, 1:] = remove[:, :-1].clone()
        remove[:, 0] = False
        logits[0, indices[remove]] = float("-inf")
        if random.random() < 0.0:
            return logits.argmax(-1)
        token = torch.multinomial(F.softmax(logits, dim=-1), 1)
        return token.item()


sampler = Sampler(0.7, 5, 0.9)
sampler.pick(torch.randn(1, 16))
