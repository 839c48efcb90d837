"""Denoising objective with min-SNR weights, self-conditioning and a divergence check."""
import random
import warnings
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn


def default(val, d):
    return val if val is not None else (d() if callable(d) else d)


def extract(a, t, x_shape):
    return a.gather(-1, t).reshape(t.shape[0], *((1,) * (len(x_shape) - 1)))


def linear_beta_schedule(timesteps):
    scale = 1000 / timesteps
    return torch.linspace(scale * 0.0001, scale * 0.02, timesteps)


class Unet1D(nn.Module):
    def __init__(self, dim=16, channels=2):
        super().__init__()
        self.init_conv = nn.Conv1d(channels * 2, dim, 3, padding=1)
        self.time = nn.Sequential(nn.Linear(1, dim), nn.SiLU(), nn.Linear(dim, dim))
        self.final = nn.Conv1d(dim, channels, 1)

    def forward(self, x, time, x_self_cond=None):
        x_self_cond = default(x_self_cond, lambda: torch.zeros_like(x))
        h = self.init_conv(torch.cat((x_self_cond, x), dim=1))
        return self.final(F.silu(h + self.time(time[:, None].float() / 100)[..., None]))


class GaussianDiffusion1D(nn.Module):
    def __init__(self, seq_length=16, timesteps=100, objective="pred_v", self_condition=True, min_snr_gamma=5):
        super().__init__()
        self.model = Unet1D()
        self.seq_length, self.objective, self.self_condition = seq_length, objective, self_condition
        alphas_cumprod = torch.cumprod(1.0 - linear_beta_schedule(timesteps), dim=0)
        register = partial(self.register_buffer, persistent=False)
        register("sqrt_ac", alphas_cumprod.sqrt())
        register("sqrt_omac", (1 - alphas_cumprod).sqrt())
        snr = alphas_cumprod / (1 - alphas_cumprod)
        clipped = snr.clone().clamp_(max=min_snr_gamma)
        register("loss_weight", clipped / (snr + 1) if objective == "pred_v" else clipped / snr)
        self.register_buffer("bad_steps", torch.zeros((), dtype=torch.long))

    def q_sample(self, x_start, t, noise):
        return extract(self.sqrt_ac, t, x_start.shape) * x_start + extract(self.sqrt_omac, t, x_start.shape) * noise

    def predict_start(self, x, t, v):
        return extract(self.sqrt_ac, t, x.shape) * x - extract(self.sqrt_omac, t, x.shape) * v

    def forward(self, img, t, noise):
        b, c, n = img.shape
        assert n == self.seq_length, f"seq length must be {self.seq_length}"
        if img.min() < -1.0 or img.max() > 1.0:
            warnings.warn("images should be in [-1, 1]")
        x = self.q_sample(img, t, noise)
        x_self_cond = None
        if self.self_condition and random.random() < 0.5:
            with torch.no_grad():
                x_self_cond = self.predict_start(x, t, self.model(x, t)).detach()
        out = self.model(x, t, x_self_cond)
        if self.objective == "pred_v":
            target = extract(self.sqrt_ac, t, img.shape) * noise - extract(self.sqrt_omac, t, img.shape) * img
        else:
            target = noise
        loss = F.mse_loss(out, target, reduction="none").mean(dim=(1, 2))
        loss = (loss * extract(self.loss_weight, t, loss.shape)).mean()
        if not torch.isfinite(loss):
            self.bad_steps += 1
            loss = torch.nan_to_num(loss, nan=0.0, posinf=0.0)
        return loss


def build():
    torch.manual_seed(0)
    return GaussianDiffusion1D()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    return [(torch.rand(4, 2, 16, generator=g) * 2 - 1, torch.randint(0, 100, (4,), generator=g), torch.randn(4, 2, 16, generator=g)) for _ in range(2)]
