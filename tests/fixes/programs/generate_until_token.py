"""Sampling from a transformer decoder for one prompt: temperature, top-k, stop at a token."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class TinyLM(nn.Module):
    def __init__(self, vocab=20, dim=16):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(32, dim)
        self.block = nn.TransformerEncoderLayer(
            dim, 2, 32, dropout=0.0, batch_first=True, norm_first=True
        )
        self.head = nn.Linear(dim, vocab)

    def logits(self, ids):
        t = ids.size(1)
        h = self.tok(ids) + self.pos(torch.arange(t))
        causal = torch.triu(torch.full((t, t), float("-inf")), diagonal=1)
        return self.head(self.block(h, src_mask=causal))[:, -1]

    def forward(self, ids, temperature=1.0, top_k=5, eos=0):
        for _ in range(4):
            logits = self.logits(ids) / temperature
            kth = logits.topk(top_k).values[:, -1:]
            logits = logits.masked_fill(logits < kth, float("-inf"))
            next_id = torch.multinomial(F.softmax(logits, dim=-1), 1)
            ids = torch.cat([ids, next_id], dim=1)
            if next_id.item() == eos:
                break
        return ids


model = TinyLM().eval()


def example_inputs():
    torch.manual_seed(4)
    return [(torch.randint(1, 20, (1, 4)),), (torch.randint(1, 20, (1, 4)), 0.7, 3)]
