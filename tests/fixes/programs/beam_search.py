"""Beam search over a small recurrent decoder, all in one compiled function."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Cell(nn.Module):
    def __init__(self, vocab=12, dim=16):
        super().__init__()
        self.vocab = vocab
        self.embed = nn.Embedding(vocab, dim)
        self.mix = nn.Linear(2 * dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, token, state):
        state = torch.tanh(self.mix(torch.cat([self.embed(token), state], dim=-1)))
        return F.log_softmax(self.head(state), dim=-1), state


class BeamSearch(nn.Module):
    def __init__(self, beam=3, steps=5, eos=1):
        super().__init__()
        self.cell = Cell()
        self.beam, self.steps, self.eos = beam, steps, eos

    def forward(self, state):
        vocab = self.cell.vocab
        state = state.expand(self.beam, -1).contiguous()
        scores = torch.full((self.beam,), -1e9)
        scores[0] = 0.0
        tokens = torch.zeros(self.beam, 1, dtype=torch.long)
        done = torch.zeros(self.beam, dtype=torch.bool)
        for step in range(self.steps):
            logp, state = self.cell(tokens[:, -1], state)
            if done.any():
                # A finished beam only continues with eos, at no cost.
                logp[done] = -1e9
                logp[done, self.eos] = 0.0
            flat = (scores[:, None] + logp).view(-1)
            scores, index = flat.topk(self.beam)
            parent = torch.div(index, vocab, rounding_mode="floor")
            tokens = torch.cat([tokens[parent], (index % vocab)[:, None]], dim=1)
            state = state[parent]
            done = done[parent] | (tokens[:, -1] == self.eos)
            if done.all():
                break
        length = (tokens != self.eos).sum(-1).float()
        best = int((scores / length.clamp(min=1)).argmax())
        return tokens[best], scores[best]


def build():
    return BeamSearch()


def example_inputs():
    return (torch.randn(1, 16),)
