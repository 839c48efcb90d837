"""A tagger that sorts its sentences by length for a packed LSTM."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Tagger(nn.Module):
    def __init__(self, vocab=20, dim=8, tags=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.lstm = nn.LSTM(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, tags)

    def forward(self, ids, lengths):
        order = sorted(range(len(lengths)), key=lambda i: lengths[i], reverse=True)
        order = torch.tensor(order)
        ids, lengths = ids[order], lengths[order]
        packed = pack_padded_sequence(self.embed(ids), lengths.tolist(), batch_first=True)
        h, _ = self.lstm(packed)
        h, _ = pad_packed_sequence(h, batch_first=True)
        return self.out(h)[order.argsort()]


def example_inputs():
    torch.manual_seed(43)
    return (torch.randint(0, 20, (3, 6)), torch.tensor([4, 6, 2]))
