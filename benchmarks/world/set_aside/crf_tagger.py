"""BiLSTM-CRF sequence tagger with Viterbi decoding."""

import torch
import torch.nn as nn


class CRF(nn.Module):
    def __init__(self, num_tags):
        super().__init__()
        self.num_tags = num_tags
        self.start_transitions = nn.Parameter(torch.empty(num_tags))
        self.end_transitions = nn.Parameter(torch.empty(num_tags))
        self.transitions = nn.Parameter(torch.empty(num_tags, num_tags))
        for p in self.parameters():
            nn.init.uniform_(p, -0.1, 0.1)

    def _validate(self, emissions, tags=None, mask=None):
        if emissions.size(2) != self.num_tags:
            raise ValueError(f"expected last dimension {self.num_tags}, got {emissions.size(2)}")
        if tags is not None and emissions.shape[:2] != tags.shape:
            raise ValueError("the first two dimensions of emissions and tags must match")
        if mask is not None:
            no_empty_seq = mask[0].all()
            if not no_empty_seq:
                raise ValueError("mask of the first timestep must all be on")

    def _compute_score(self, emissions, tags, mask):
        seq_length, batch_size = tags.shape
        mask_f = mask.float()
        arange = torch.arange(batch_size)
        score = self.start_transitions[tags[0]] + emissions[0, arange, tags[0]]
        for i in range(1, seq_length):
            score = score + self.transitions[tags[i - 1], tags[i]] * mask_f[i]
            score = score + emissions[i, arange, tags[i]] * mask_f[i]
        seq_ends = mask.long().sum(dim=0) - 1
        return score + self.end_transitions[tags[seq_ends, arange]]

    def _compute_normalizer(self, emissions, mask):
        score = self.start_transitions + emissions[0]
        for i in range(1, emissions.size(0)):
            broadcast = score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1)
            next_score = torch.logsumexp(broadcast, dim=1)
            score = torch.where(mask[i].unsqueeze(1), next_score, score)
        return torch.logsumexp(score + self.end_transitions, dim=1)

    def forward(self, emissions, tags, mask):
        self._validate(emissions, tags, mask)
        llh = self._compute_score(emissions, tags, mask) - self._compute_normalizer(emissions, mask)
        return llh.sum() / mask.float().sum()

    def decode(self, emissions, mask):
        self._validate(emissions, mask=mask)
        seq_length, batch_size = mask.shape
        score = self.start_transitions + emissions[0]
        history = []
        for i in range(1, seq_length):
            broadcast = score.unsqueeze(2) + self.transitions + emissions[i].unsqueeze(1)
            next_score, indices = broadcast.max(dim=1)
            score = torch.where(mask[i].unsqueeze(1), next_score, score)
            history.append(indices)
        score = score + self.end_transitions
        seq_ends = mask.long().sum(dim=0) - 1

        best_tags_list = []
        for idx in range(batch_size):
            _, best_last_tag = score[idx].max(dim=0)
            best_tags = [best_last_tag.item()]
            for hist in reversed(history[: seq_ends[idx]]):
                best_last_tag = hist[idx][best_tags[-1]]
                best_tags.append(best_last_tag.item())
            best_tags.reverse()
            best_tags_list.append(best_tags)
        return best_tags_list


class BiLSTMCRF(nn.Module):
    def __init__(self, vocab=40, dim=12, num_tags=5, pad_idx=0):
        super().__init__()
        self.pad_idx = pad_idx
        self.embed = nn.Embedding(vocab, dim, padding_idx=pad_idx)
        self.lstm = nn.LSTM(dim, dim // 2, bidirectional=True)
        self.hidden2tag = nn.Linear(dim, num_tags)
        self.crf = CRF(num_tags)
        self.num_correct, self.num_total = 0, 0

    def forward(self, words, tags=None):
        mask = words.ne(self.pad_idx)
        emissions = self.hidden2tag(self.lstm(self.embed(words))[0])
        pred = self.crf.decode(emissions, mask)
        if tags is None:
            return pred
        loss = -self.crf(emissions, tags, mask)
        for i, path in enumerate(pred):
            gold = tags[: len(path), i].tolist()
            self.num_correct += sum(p == t for p, t in zip(path, gold))
            self.num_total += len(gold)
        return loss, pred, self.num_correct / self.num_total


def build():
    torch.manual_seed(0)
    return BiLSTMCRF()


def example_inputs():
    g = torch.Generator().manual_seed(3)
    calls = []
    for lens in ([5, 3, 4], [2, 5, 5], [6, 1]):
        words = torch.randint(1, 40, (max(lens), len(lens)), generator=g)
        for i, length in enumerate(lens):
            words[length:, i] = 0
        calls.append((words, torch.randint(0, 5, words.shape, generator=g)))
    calls.append((calls[0][0].flip(1),))
    return calls
