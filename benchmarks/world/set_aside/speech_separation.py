"""Time-domain speech separation: masks, permutation-invariant SI-SNR."""

from itertools import permutations

import torch
import torch.nn as nn
import torch.nn.functional as F

EPS = 1e-8


def cal_si_snr(source, estimate):
    source = source - source.mean(dim=-1, keepdim=True)
    estimate = estimate - estimate.mean(dim=-1, keepdim=True)
    dot = torch.sum(estimate * source, dim=-1, keepdim=True)
    proj = dot * source / (torch.sum(source**2, dim=-1, keepdim=True) + EPS)
    noise = estimate - proj
    ratio = torch.sum(proj**2, dim=-1) / (torch.sum(noise**2, dim=-1) + EPS)
    return 10 * torch.log10(ratio + EPS)


class PitWrapper(nn.Module):
    def __init__(self, base_loss):
        super().__init__()
        self.base_loss = base_loss

    def _fast_pit(self, loss_mat):
        loss, assigned_perm = None, None
        for p in permutations(range(loss_mat.shape[0])):
            c_loss = loss_mat[range(loss_mat.shape[0]), p].mean()
            if loss is None or loss > c_loss:
                loss = c_loss
                assigned_perm = p
        return loss, assigned_perm

    def _opt_perm_loss(self, pred, target):
        n = pred.size(0)
        loss_mat = torch.zeros(n, n)
        for i in range(n):
            for j in range(n):
                loss_mat[i, j] = self.base_loss(target[j], pred[i])
        return self._fast_pit(loss_mat)

    def reorder_tensor(self, tensor, p):
        reordered = torch.zeros_like(tensor)
        for b in range(tensor.shape[0]):
            reordered[b] = tensor[b][list(p[b])]
        return reordered

    def forward(self, preds, targets):
        losses, perms = [], []
        for pred, label in zip(preds, targets):
            loss, p = self._opt_perm_loss(pred, label)
            perms.append(p)
            losses.append(loss)
        return torch.stack(losses), perms


class Separator(nn.Module):
    def __init__(self, n_src=2, filters=16, win=8):
        super().__init__()
        self.n_src, self.win = n_src, win
        self.encoder = nn.Conv1d(1, filters, win, stride=win // 2, bias=False)
        self.norm = nn.GroupNorm(1, filters)
        self.tcn = nn.Sequential(
            nn.Conv1d(filters, filters, 3, padding=1),
            nn.PReLU(),
            nn.Conv1d(filters, filters * n_src, 1),
        )
        self.decoder = nn.ConvTranspose1d(filters, 1, win, stride=win // 2, bias=False)
        self.pit = PitWrapper(lambda s, e: -cal_si_snr(s, e))
        self.threshold = -30.0
        self.loss_upper_lim = 60.0
        self.nonfinite_count = 0
        self.recent = []

    def separate(self, mix):
        w = F.relu(self.encoder(mix.unsqueeze(1)))
        masks = torch.sigmoid(self.tcn(self.norm(w)))
        masks = masks.view(mix.shape[0], self.n_src, -1, w.shape[-1])
        est = [self.decoder(w * masks[:, i]).squeeze(1) for i in range(self.n_src)]
        est = torch.stack(est, dim=1)
        return F.pad(est, (0, mix.shape[-1] - est.shape[-1]))

    def forward(self, mix, sources, lens):
        max_amp, _ = mix.abs().max(1, keepdim=True)
        if (max_amp > 1.0).any():
            print("mixture clips, rescaling")
            mix, sources = mix / max_amp, sources / max_amp.unsqueeze(1)
        est = self.separate(mix)
        for i, n in enumerate(torch.round(lens * mix.shape[-1]).int().tolist()):
            est[i, :, n:] = 0

        loss, perms = self.pit(est, sources)
        # hard threshold on what is separated well already
        loss_to_keep = loss[loss > self.threshold]
        if loss_to_keep.nelement() > 0:
            loss = loss_to_keep.mean()
        else:
            loss = loss.mean() * 0.0
        if not (loss < self.loss_upper_lim and loss.isfinite()):
            self.nonfinite_count += 1
            print(f"infinite loss or empty loss! it happened {self.nonfinite_count} times so far")
            loss = loss.detach() * 0.0
        self.recent.append(loss.detach().item())
        avg = sum(self.recent) / len(self.recent)
        return loss, self.pit.reorder_tensor(est, perms), perms, avg


def build():
    torch.manual_seed(0)
    return Separator()


def example_inputs():
    g = torch.Generator().manual_seed(17)
    calls = []
    for b, t, amp in ((2, 96, 0.2), (2, 96, 1.0), (3, 96, 0.2), (2, 128, 0.2)):
        sources = torch.randn(b, 2, t, generator=g) * amp
        lens = torch.linspace(0.75, 1.0, b)
        calls.append((sources.sum(1).clamp(-2, 2), sources, lens))
    # a silent source gives a loss beyond the limit
    calls.append((calls[0][0], torch.zeros(2, 2, 96), torch.ones(2)))
    return calls
