"""Label smoothed cross entropy with padding, accuracy and the logging outputs of a translation toolkit."""
import math
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F


def label_smoothed_nll_loss(lprobs, target, epsilon, ignore_index=None, reduce=True):
    if target.dim() == lprobs.dim() - 1:
        target = target.unsqueeze(-1)
    nll_loss = -lprobs.gather(dim=-1, index=target)
    smooth_loss = -lprobs.sum(dim=-1, keepdim=True)
    if ignore_index is not None:
        pad_mask = target.eq(ignore_index)
        if pad_mask.any():
            nll_loss.masked_fill_(pad_mask, 0.0)
            smooth_loss.masked_fill_(pad_mask, 0.0)
    else:
        nll_loss = nll_loss.squeeze(-1)
        smooth_loss = smooth_loss.squeeze(-1)
    if reduce:
        nll_loss = nll_loss.sum()
        smooth_loss = smooth_loss.sum()
    eps_i = epsilon / (lprobs.size(-1) - 1)
    return (1.0 - epsilon - eps_i) * nll_loss + eps_i * smooth_loss, nll_loss


class SinusoidalPositions(nn.Module):
    def __init__(self, dim, padding_idx, init_size=6):
        super().__init__()
        self.dim, self.padding_idx = dim, padding_idx
        self.weights = self.get_embedding(init_size)

    def get_embedding(self, n):
        half = self.dim // 2
        emb = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
        emb = torch.arange(n, dtype=torch.float).unsqueeze(1) * emb.unsqueeze(0)
        emb = torch.cat([torch.sin(emb), torch.cos(emb)], dim=1)
        emb[self.padding_idx, :] = 0
        return emb

    def forward(self, tokens):
        mask = tokens.ne(self.padding_idx).int()
        positions = (torch.cumsum(mask, dim=1) * mask).long() + self.padding_idx
        max_pos = int(positions.max()) + 1
        if max_pos > self.weights.size(0):
            self.weights = self.get_embedding(max_pos)
        return self.weights.index_select(0, positions.view(-1)).view(*tokens.shape, -1).detach()


class TranslationTask(nn.Module):
    def __init__(self, vocab=24, dim=16, padding_idx=1, label_smoothing=0.1):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=padding_idx)
        self.positions = SinusoidalPositions(dim, padding_idx)
        self.layer = nn.TransformerEncoderLayer(dim, 2, 32, dropout=0.0, batch_first=True)
        self.padding_idx, self.eps = padding_idx, label_smoothing

    def compute_accuracy(self, lprobs, target):
        mask = target.ne(self.padding_idx)
        n_correct = torch.sum(lprobs.argmax(-1).masked_select(mask).eq(target.masked_select(mask)))
        return n_correct, torch.sum(mask)

    def forward(self, tokens, target):
        x = self.embed(tokens) + self.positions(tokens)
        x = self.layer(x, src_key_padding_mask=tokens.eq(self.padding_idx))
        lprobs = F.log_softmax(F.linear(x, self.embed.weight), dim=-1)
        loss, nll_loss = label_smoothed_nll_loss(lprobs.flatten(0, 1), target.flatten(), self.eps, self.padding_idx)
        n_correct, total = self.compute_accuracy(lprobs, target)
        logging_output = OrderedDict(
            loss=loss.data.item(), nll_loss=nll_loss.data.item(), nsentences=target.size(0), n_correct=int(n_correct), total=int(total)
        )
        return loss, logging_output


def build():
    torch.manual_seed(0)
    return TranslationTask().train()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    calls = []
    for n in (5, 7):
        tokens, target = torch.randint(2, 24, (3, 8), generator=g), torch.randint(2, 24, (3, 8), generator=g)
        tokens[0, n:], target[0, n:] = 1, 1
        calls.append((tokens, target))
    return calls
