"""Non-autoregressive TTS: variance adaptor with a length regulator."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def get_mask_from_lengths(lengths, max_len=None):
    batch_size = lengths.shape[0]
    if max_len is None:
        max_len = torch.max(lengths).item()
    ids = torch.arange(0, max_len).unsqueeze(0).expand(batch_size, -1).to(lengths.device)
    return ids >= lengths.unsqueeze(1).expand(-1, max_len)


def pad(input_ele, mel_max_length=None):
    if mel_max_length:
        max_len = mel_max_length
    else:
        max_len = max([input_ele[i].size(0) for i in range(len(input_ele))])

    out_list = list()
    for batch in input_ele:
        out_list.append(F.pad(batch, (0, 0, 0, max_len - batch.size(0)), "constant", 0.0))
    return torch.stack(out_list)


class VariancePredictor(nn.Module):
    def __init__(self, hidden, kernel=3):
        super().__init__()
        self.conv1 = nn.Conv1d(hidden, hidden, kernel, padding=kernel // 2)
        self.norm1 = nn.LayerNorm(hidden)
        self.conv2 = nn.Conv1d(hidden, hidden, kernel, padding=1)
        self.norm2 = nn.LayerNorm(hidden)
        self.linear = nn.Linear(hidden, 1)

    def forward(self, x, mask=None):
        x = self.norm1(F.relu(self.conv1(x.transpose(1, 2)).transpose(1, 2)))
        x = self.norm2(F.relu(self.conv2(x.transpose(1, 2)).transpose(1, 2)))
        out = self.linear(x).squeeze(-1)
        if mask is not None:
            out = out.masked_fill(mask, 0.0)
        return out


class LengthRegulator(nn.Module):
    def expand(self, batch, predicted):
        out = list()
        for i, vec in enumerate(batch):
            expand_size = predicted[i].item()
            out.append(vec.expand(max(int(expand_size), 0), -1))
        return torch.cat(out, 0)

    def forward(self, x, duration, max_len):
        output = list()
        mel_len = list()
        for batch, expand_target in zip(x, duration):
            expanded = self.expand(batch, expand_target)
            output.append(expanded)
            mel_len.append(expanded.shape[0])
        return pad(output, max_len), torch.LongTensor(mel_len).to(x.device)


class VarianceAdaptor(nn.Module):
    def __init__(self, n_symbols=20, hidden=16, n_bins=8, n_mels=10):
        super().__init__()
        self.src_emb = nn.Embedding(n_symbols, hidden, padding_idx=0)
        self.duration_predictor = VariancePredictor(hidden)
        self.pitch_predictor = VariancePredictor(hidden)
        self.length_regulator = LengthRegulator()
        bins = np.linspace(-2.0, 2.0, n_bins - 1).astype(np.float32)
        self.pitch_bins = nn.Parameter(torch.from_numpy(bins), requires_grad=False)
        self.pitch_embedding = nn.Embedding(n_bins, hidden)
        self.mel_linear = nn.Linear(hidden, n_mels)

    def get_pitch_embedding(self, x, target, mask, control):
        prediction = self.pitch_predictor(x, mask)
        if target is not None:
            return prediction, self.pitch_embedding(torch.bucketize(target, self.pitch_bins))
        prediction = prediction * control
        return prediction, self.pitch_embedding(torch.bucketize(prediction, self.pitch_bins))

    def forward(self, texts, src_lens, pitch_target=None, duration_target=None, d_control=1.0):
        src_mask = get_mask_from_lengths(src_lens, texts.shape[1])
        x = self.src_emb(texts)
        log_duration = self.duration_predictor(x, src_mask)
        pitch, emb = self.get_pitch_embedding(x, pitch_target, src_mask, 1.0)
        x = x + emb

        if duration_target is not None:
            duration = duration_target
        else:
            duration = torch.clamp(torch.round(torch.exp(log_duration) - 1) * d_control, min=0)
            duration = duration.masked_fill(src_mask, 0)
            # every phoneme got zero frames: can happen early in training
            for i in range(duration.shape[0]):
                if duration[i].sum() == 0:
                    duration[i] = (~src_mask[i]).float()

        x, mel_lens = self.length_regulator(x, duration, None)
        mel_mask = get_mask_from_lengths(mel_lens)
        mel = self.mel_linear(x).masked_fill(mel_mask.unsqueeze(-1), 0.0)
        return mel, mel_lens, log_duration, pitch


def build():
    torch.manual_seed(0)
    return VarianceAdaptor()


def example_inputs():
    g = torch.Generator().manual_seed(1)
    calls = []
    for lens, is_train in (([5, 3], True), ([4, 5], True), ([6, 2, 4], True), ([5, 4], False)):
        n, t = len(lens), max(lens)
        texts = torch.randint(1, 20, (n, t), generator=g)
        duration = torch.randint(1, 4, (n, t), generator=g)
        for i, length in enumerate(lens):
            texts[i, length:] = 0
            duration[i, length:] = 0
        pitch = torch.randn(n, t, generator=g)
        lens = torch.tensor(lens)
        calls.append((texts, lens, pitch, duration) if is_train else (texts, lens, None, None, 1.2))
    return calls
