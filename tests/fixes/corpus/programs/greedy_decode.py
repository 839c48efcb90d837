"""Greedy decoding of a small recurrent language model until the end token."""

import torch
import torch.nn as nn

BOS, EOS = 1, 2


class Net(nn.Module):
    def __init__(self, vocab=12, dim=16, max_len=8):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, vocab)
        self.max_len = max_len

    @torch.no_grad()
    def forward(self, state):
        token = torch.full((state.shape[0],), BOS, dtype=torch.long)
        done = torch.zeros(state.shape[0], dtype=torch.bool)
        tokens = []
        for _ in range(self.max_len):
            state = self.cell(self.embed(token), state)
            logits = self.out(state)
            token = logits.argmax(-1)
            token = torch.where(done, torch.zeros_like(token), token)
            tokens.append(token)
            done = done | (token == EOS)
            if done.all():
                break
        return torch.stack(tokens, dim=1)


def example_inputs():
    torch.manual_seed(3)
    return [(torch.randn(2, 16),), (torch.randn(2, 16) * 3,)]
