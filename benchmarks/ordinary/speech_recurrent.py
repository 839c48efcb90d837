"""A recurrent encoder over sequences of different lengths."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Encoder(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.input = nn.Linear(features, hidden)
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)

    def forward(self, frames, lengths):
        hidden = self.input(frames)
        packed = pack_padded_sequence(hidden, lengths.cpu(), batch_first=True, enforce_sorted=False)
        out, _ = self.rnn(packed)
        out, _ = pad_packed_sequence(out, batch_first=True)
        return out


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(4, 8)
        self.head = nn.Linear(8, 3)
        self.encoder = torch.compile(self.encoder, backend="eager")

    def forward(self, frames, lengths):
        return self.head(self.encoder(frames, lengths))


Tagger()(torch.randn(2, 5, 4), torch.tensor([5, 3]))
