"""Speech recognizer: convolutions, CTC loss with checks of lengths, and greedy decoding for the error rate."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class MaskConv(nn.Module):
    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x, lengths):
        x = self.conv(x)
        lengths = (lengths + 2 * self.conv.padding[0] - self.conv.kernel_size[0]) // self.conv.stride[0] + 1
        for i, length in enumerate(lengths):
            length = length.item()
            if x.size(2) - length > 0:
                x[i, :, length:] = 0
        return x, lengths


class GreedyDecoder:
    def __init__(self, blank=0):
        self.blank = blank

    def __call__(self, log_probs, lengths):
        best = log_probs.argmax(-1)
        results = []
        for seq, n in zip(best, lengths):
            seq = torch.unique_consecutive(seq[:n])
            results.append([s for s in seq.tolist() if s != self.blank])
        return results


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        prev, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            prev, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, prev + (x != y))
    return row[-1]


class DeepSpeech(nn.Module):
    def __init__(self, n_mels=12, hidden=16, n_tokens=6):
        super().__init__()
        self.conv = MaskConv(nn.Conv1d(n_mels, hidden, 5, stride=2, padding=2))
        self.fc = nn.Sequential(nn.Linear(hidden, hidden), nn.Hardtanh(0, 20), nn.Linear(hidden, n_tokens))
        self.decoder = GreedyDecoder()

    def forward(self, feats, feat_lengths, targets, target_lengths):
        x, out_lengths = self.conv(feats, feat_lengths)
        log_probs = F.log_softmax(self.fc(x.transpose(1, 2)), dim=-1)
        if (out_lengths < target_lengths).any():
            raise ValueError("CTC needs at least as many frames as labels")
        loss = F.ctc_loss(log_probs.transpose(0, 1), targets, out_lengths, target_lengths, zero_infinity=True)
        errors, words = 0, 0
        with torch.no_grad():
            for hyp, ref, n in zip(self.decoder(log_probs, out_lengths), targets, target_lengths):
                errors += edit_distance(hyp, ref[:n].tolist())
                words += int(n)
        return loss, errors / max(words, 1)


def build():
    torch.manual_seed(0)
    return DeepSpeech()


def example_inputs():
    g = torch.Generator().manual_seed(2)
    return torch.randn(3, 12, 32, generator=g), torch.tensor([32, 26, 20]), torch.randint(1, 6, (3, 5), generator=g), torch.tensor([5, 4, 3])
