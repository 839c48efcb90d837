"""Text classifier on packed sequences with self-attentive pooling."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def sequence_mask(lengths, max_len=None):
    if max_len is None:
        max_len = lengths.max().item()
    return torch.arange(0, max_len, device=lengths.device).unsqueeze(0) < lengths.unsqueeze(1)


class RNNEncoder(nn.Module):
    def __init__(self, vocab=50, dim=12, hidden=10):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)

    def forward(self, tokens, lengths):
        lengths, order = lengths.sort(descending=True)
        packed = pack_padded_sequence(self.embed(tokens[order]), lengths.cpu(), batch_first=True)
        out, hidden = self.rnn(packed)
        out, _ = pad_packed_sequence(out, batch_first=True)
        _, restore = order.sort()
        return out[restore], hidden[:, restore]


class SelfAttentivePooling(nn.Module):
    def __init__(self, dim, hops=2):
        super().__init__()
        self.ws1 = nn.Linear(dim, 8, bias=False)
        self.ws2 = nn.Linear(8, hops, bias=False)

    def forward(self, x, mask):
        scores = self.ws2(torch.tanh(self.ws1(x))).transpose(1, 2)
        scores = scores.masked_fill(~mask.unsqueeze(1), -1e9)
        alphas = F.softmax(scores, dim=-1)
        return torch.bmm(alphas, x).flatten(1), alphas


class TextClassifier(nn.Module):
    def __init__(self, n_classes=3, penalty=0.1):
        super().__init__()
        self.encoder = RNNEncoder()
        self.pool = SelfAttentivePooling(20)
        self.fc = nn.Linear(40, n_classes)
        self.penalty = penalty
        self.n_correct, self.n_total = 0, 0

    def forward(self, tokens, labels):
        lengths = (tokens != 0).sum(1)
        if lengths.min() == 0:
            raise RuntimeError("Length of all samples has to be greater than 0")
        out, _ = self.encoder(tokens, lengths)
        mask = sequence_mask(lengths)
        pooled, alphas = self.pool(out, mask)
        logits = self.fc(pooled)
        loss = F.cross_entropy(logits, labels)
        if self.penalty > 0:
            eye = torch.eye(alphas.shape[1]).expand(alphas.shape[0], -1, -1)
            loss = loss + self.penalty * torch.norm(torch.bmm(alphas, alphas.transpose(1, 2)) - eye, dim=(1, 2)).mean()
        self.n_correct += (logits.argmax(1) == labels).sum().item()
        self.n_total += len(labels)
        return loss, self.n_correct / self.n_total


def build():
    torch.manual_seed(0)
    return TextClassifier()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    calls = []
    for lens in ((7, 4, 9, 2), (9, 9, 5, 3)):
        tokens = torch.randint(1, 50, (4, 9), generator=g)
        for i, n in enumerate(lens):
            tokens[i, n:] = 0
        calls.append((tokens, torch.randint(0, 3, (4,), generator=g)))
    return calls
