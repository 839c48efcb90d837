"""Bi-encoder retrieval training with in-batch and hard negatives from a memory."""

import logging

import torch
import torch.nn as nn
import torch.nn.functional as F

logger = logging.getLogger(__name__)


class TextEncoder(nn.Module):
    def __init__(self, vocab=50, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(dim, 2, 32, dropout=0.0, batch_first=True)
        self.proj = nn.Linear(dim, dim)

    def forward(self, ids):
        attention_mask = ids.ne(0)
        x = self.layer(self.embed(ids), src_key_padding_mask=~attention_mask)
        x = x.masked_fill(~attention_mask.unsqueeze(-1), 0.0)
        x = x.sum(1) / attention_mask.sum(1, keepdim=True).clamp(min=1)
        return F.normalize(self.proj(x), dim=-1)


class BiEncoder(nn.Module):
    def __init__(self, dim=16, temperature=0.05, margin=0.95, warmup=2, memory=16):
        super().__init__()
        self.query_encoder = TextEncoder(dim=dim)
        self.passage_encoder = TextEncoder(dim=dim)
        self.log_temp = nn.Parameter(torch.tensor(temperature).log())
        self.margin, self.warmup, self.memory_size = margin, warmup, memory
        self.memory = None
        self.step = 0
        self.history = {"loss": [], "acc": []}

    def encode_unique(self, ids, doc_ids):
        """Passages that several questions share are encoded once."""
        unique, inverse = torch.unique(doc_ids, return_inverse=True)
        first = torch.stack([(doc_ids == u).nonzero()[0, 0] for u in unique])
        return self.passage_encoder(ids[first])[inverse]

    def mine_hard_negatives(self, q, bank, pos_sim):
        scores = q @ bank.t()
        negatives = []
        for i in range(q.shape[0]):
            candidates = torch.nonzero(scores[i] < pos_sim[i] * self.margin).squeeze(1)
            if len(candidates) == 0:
                negatives.append(bank[scores[i].argmin()])
                continue
            best = candidates[scores[i][candidates].argmax()]
            negatives.append(bank[best])
        return torch.stack(negatives)

    @torch.no_grad()
    def compute_metrics(self, scores, labels):
        ranks = []
        order = scores.argsort(dim=1, descending=True)
        for row, label in zip(order, labels):
            ranks.append((row == label).nonzero(as_tuple=True)[0].item() + 1)
        mrr = sum(1.0 / r for r in ranks) / len(ranks)
        recall = {k: sum(r <= k for r in ranks) / len(ranks) for k in (1, 3)}
        return mrr, recall

    def forward(self, query_ids, passage_ids, doc_ids):
        self.step += 1
        q = self.query_encoder(query_ids)
        p = self.encode_unique(passage_ids, doc_ids)
        temp = self.log_temp.exp().clamp(0.01, 1.0)
        scores = q @ p.t() / temp
        labels = torch.arange(len(q))
        same_doc = doc_ids[:, None] == doc_ids[None, :]
        same_doc.fill_diagonal_(False)
        if same_doc.any():
            scores = scores.masked_fill(same_doc, float("-inf"))

        if self.step > self.warmup and self.memory is not None:
            hard = self.mine_hard_negatives(q.detach(), self.memory, (q * p).sum(-1).detach())
            scores = torch.cat([scores, (q * hard).sum(-1, keepdim=True) / temp], dim=1)
        loss = F.cross_entropy(scores, labels)

        if self.memory is None:
            self.memory = p.detach()
        else:
            self.memory = torch.cat([p.detach(), self.memory])[: self.memory_size]

        acc = (scores.argmax(dim=1) == labels).float().mean()
        self.history["loss"].append(loss.item())
        self.history["acc"].append(acc.item())
        mrr, recall = self.compute_metrics(scores, labels)
        logger.info("step %d loss %.4f mrr %.3f temp %.3f", self.step, loss, mrr, temp)
        return loss, {"acc": acc, "mrr": mrr, "r@1": recall[1], "r@3": recall[3]}


def build():
    torch.manual_seed(0)
    return BiEncoder()


def example_inputs():
    g = torch.Generator().manual_seed(31)
    calls = []
    for n, length in ((4, 6), (4, 6), (5, 6), (4, 8), (5, 6)):
        queries = torch.randint(1, 50, (n, 5), generator=g)
        docs = torch.randint(0, 2 * n, (n,), generator=g)
        passages = torch.randint(1, 50, (2 * n, length), generator=g)
        passages[::2, -2:] = 0
        calls.append((queries, passages[docs], docs))
    return calls
