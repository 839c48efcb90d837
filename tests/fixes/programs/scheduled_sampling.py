"""A decoder that is fed its own words or the right ones, by chance."""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F


class Decoder(nn.Module):
    def __init__(self, vocab=10, dim=8, teacher_forcing=0.5, pad=0):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.out = nn.Linear(dim, vocab)
        self.teacher_forcing = teacher_forcing
        self.pad = pad

    def forward(self, state, target):
        token = target[:, 0]
        loss = 0.0
        count = 0
        for t in range(1, target.size(1)):
            state = self.cell(self.embed(token), state)
            logits = self.out(state)
            not_pad = target[:, t] != self.pad
            if not_pad.any():
                loss = loss + F.cross_entropy(logits[not_pad], target[:, t][not_pad])
                count += 1
            use_truth = random.random() < self.teacher_forcing
            token = target[:, t] if use_truth else logits.argmax(-1)
        return loss / max(count, 1)


def example_inputs():
    torch.manual_seed(49)
    target = torch.randint(1, 10, (3, 5))
    target[:, 4] = 0
    return (torch.randn(3, 8), target)
