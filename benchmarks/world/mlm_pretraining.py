"""Masked language model pretraining with the masking in the step, loss on masked positions and next sentence."""
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F

logger = logging.getLogger(__name__)

PAD, CLS, SEP, MASK = 0, 1, 2, 3


class MaskTokens(nn.Module):
    def __init__(self, vocab_size, mlm_probability=0.3):
        super().__init__()
        self.vocab_size, self.mlm_probability = vocab_size, mlm_probability

    def forward(self, inputs, special_tokens_mask):
        labels = inputs.clone()
        probability_matrix = torch.full(labels.shape, self.mlm_probability)
        probability_matrix.masked_fill_(special_tokens_mask, value=0.0)
        masked_indices = torch.bernoulli(probability_matrix).bool()
        labels[~masked_indices] = -100  # We only compute loss on masked tokens
        indices_replaced = torch.bernoulli(torch.full(labels.shape, 0.8)).bool() & masked_indices
        inputs = inputs.clone()
        inputs[indices_replaced] = MASK
        indices_random = torch.bernoulli(torch.full(labels.shape, 0.5)).bool() & masked_indices & ~indices_replaced
        random_words = torch.randint(self.vocab_size, labels.shape, dtype=torch.long)
        inputs[indices_random] = random_words[indices_random]
        return inputs, labels


class Encoder(nn.Module):
    def __init__(self, vocab_size, dim, max_len=16):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, dim, padding_idx=PAD)
        self.pos = nn.Parameter(torch.zeros(1, max_len, dim))
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        x = self.tok(ids) + self.pos[:, : ids.shape[1]]
        attention_mask = ids != PAD
        bias = None
        if not attention_mask.all():
            bias = torch.zeros(attention_mask.shape).masked_fill(~attention_mask, -1e4)[:, None, :]
        scores = self.q(x) @ self.k(x).transpose(1, 2) / x.shape[-1] ** 0.5
        if bias is not None:
            scores = scores + bias
        return self.norm(x + self.o(scores.softmax(-1) @ self.v(x)))


class BertForPreTraining(nn.Module):
    def __init__(self, vocab_size=40, dim=16):
        super().__init__()
        self.collator = MaskTokens(vocab_size)
        self.encoder = Encoder(vocab_size, dim)
        self.transform = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.LayerNorm(dim))
        self.decoder = nn.Linear(dim, vocab_size)
        self.nsp = nn.Linear(dim, 2)

    def forward(self, input_ids, next_sentence_label):
        ids, labels = self.collator(input_ids, input_ids < 4)
        hidden = self.encoder(ids)
        masked = labels.view(-1) != -100
        if masked.sum() == 0:
            logger.warning("no token was masked in this batch")
            return F.cross_entropy(self.nsp(hidden[:, 0]), next_sentence_label), 0.0
        sequence_output = self.transform(hidden).view(-1, hidden.shape[-1])[masked]
        prediction_scores = self.decoder(sequence_output)
        target = labels.view(-1)[masked]
        masked_lm_loss = F.cross_entropy(prediction_scores, target)
        accuracy = (prediction_scores.argmax(-1) == target).float().mean()
        return masked_lm_loss + F.cross_entropy(self.nsp(hidden[:, 0]), next_sentence_label), accuracy.item()


def build():
    torch.manual_seed(0)
    return BertForPreTraining()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    ids = torch.randint(4, 40, (3, 12), generator=g)
    ids[:, 0], ids[:, 6], ids[1, 10:] = CLS, SEP, PAD
    full = torch.randint(4, 40, (3, 12), generator=g)
    return [(ids, torch.tensor([0, 1, 0])), (full, torch.tensor([1, 1, 0]))]
