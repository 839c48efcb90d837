"""Greedy decoding with a loop until every sequence has ended."""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocabulary=12, dim=8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.head = nn.Linear(dim, vocabulary)

    def step(self, token, state):
        state = self.cell(self.embed(token), state)
        return self.head(state), state

    def forward(self, state, limit=4, end=1):
        token = torch.zeros(state.shape[0], dtype=torch.long)
        done = torch.zeros(state.shape[0], dtype=torch.bool)
        output = []
        while not done.all() and len(output) < limit:
            logits, state = self.step(token, state)
            token = logits.argmax(dim=-1)
            done |= token == end
            output.append(token)
        return torch.stack(output, dim=1)


def optimized(model):
    """The model, compiled where torch can."""
    if hasattr(torch, "compile"):
        return torch.compile(model, backend="eager")
    return model


decoder = optimized(Decoder())
decoder(torch.randn(2, 8))
