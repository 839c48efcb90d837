"""Translation with an attention decoder, teacher forcing and greedy stop at the end token."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

SOS_token, EOS_token, PAD_token = 0, 1, 2
MAX_LENGTH = 8


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.embedding = nn.Embedding(input_size, hidden_size)
        self.cell = nn.GRUCell(hidden_size, hidden_size)

    def forward(self, src):
        hidden = torch.zeros(src.size(0), self.cell.hidden_size)
        outputs = []
        for t in range(src.size(1)):
            hidden = self.cell(self.embedding(src[:, t]), hidden)
            outputs.append(hidden)
        return torch.stack(outputs, dim=1), hidden


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa = nn.Linear(hidden_size, hidden_size)
        self.Ua = nn.Linear(hidden_size, hidden_size)
        self.Va = nn.Linear(hidden_size, 1)

    def forward(self, query, keys, mask=None):
        scores = self.Va(torch.tanh(self.Wa(query).unsqueeze(1) + self.Ua(keys))).squeeze(2)
        if mask is not None and mask.any():
            scores = scores.masked_fill(mask, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights.unsqueeze(1), keys).squeeze(1), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.cell = nn.GRUCell(2 * hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)

    def forward_step(self, token, hidden, encoder_outputs, mask):
        embedded = self.embedding(token)
        context, attn_weights = self.attention(hidden, encoder_outputs, mask)
        hidden = self.cell(torch.cat((embedded, context), dim=1), hidden)
        return self.out(hidden), hidden, attn_weights


class Seq2Seq(nn.Module):
    def __init__(self, vocab=20, hidden_size=12, teacher_forcing_ratio=0.5):
        super().__init__()
        self.encoder = EncoderRNN(vocab, hidden_size)
        self.decoder = AttnDecoderRNN(hidden_size, vocab)
        self.teacher_forcing_ratio = teacher_forcing_ratio
        self.criterion = nn.NLLLoss(ignore_index=PAD_token)

    def forward(self, src, tgt):
        encoder_outputs, hidden = self.encoder(src)
        token = torch.full((src.size(0),), SOS_token, dtype=torch.long)
        use_teacher_forcing = random.random() < self.teacher_forcing_ratio
        decoder_outputs, attentions = [], []
        for i in range(tgt.size(1)):
            logits, hidden, attn_weights = self.decoder.forward_step(token, hidden, encoder_outputs, src == PAD_token)
            decoder_outputs.append(logits)
            attentions.append(attn_weights)
            if use_teacher_forcing:
                token = tgt[:, i]
            else:
                token = logits.topk(1)[1].squeeze(-1).detach()
                if (token == EOS_token).all():
                    break
        decoder_outputs = F.log_softmax(torch.stack(decoder_outputs, dim=1), dim=-1)
        steps = decoder_outputs.size(1)
        loss = self.criterion(decoder_outputs.flatten(0, 1), tgt[:, :steps].flatten())
        return loss, torch.stack(attentions, dim=1)


def build():
    torch.manual_seed(0)
    return Seq2Seq()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    calls = []
    for _ in range(2):
        src, tgt = torch.randint(3, 20, (3, 6), generator=g), torch.randint(3, 20, (3, 5), generator=g)
        src[1, 4:] = PAD_token
        tgt[0, 3:] = PAD_token
        calls.append((src, tgt))
    return calls
