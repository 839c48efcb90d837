"""Handwriting synthesis: a mixture density network over pen strokes, its likelihood and sampling."""

import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class MixtureDensityHead(nn.Module):
    def __init__(self, hidden, n_mixtures=4):
        super().__init__()
        self.n_mixtures = n_mixtures
        self.linear = nn.Linear(hidden, 6 * n_mixtures + 1)

    def forward(self, h, bias=0.0):
        y = self.linear(h)
        pi, mu1, mu2, ls1, ls2, rho = y[..., 1:].chunk(6, dim=-1)
        return {
            "e": torch.sigmoid(y[..., 0]),
            "pi": F.softmax(pi * (1 + bias), dim=-1),
            "mu": torch.stack([mu1, mu2], -1),
            "sigma": torch.stack([ls1, ls2], -1).sub(bias).exp(),
            "rho": torch.tanh(rho),
        }


def gaussian_2d(x, p):
    z = (x.unsqueeze(-2) - p["mu"]) / p["sigma"]
    one = 1 - p["rho"] ** 2
    Z = z.pow(2).sum(-1) - 2 * p["rho"] * z.prod(-1)
    return torch.exp(-Z / (2 * one)) / (2 * math.pi * p["sigma"].prod(-1) * one.sqrt())


class WindowAttention(nn.Module):
    """The soft window over characters; kappa moves forward only."""

    def __init__(self, hidden, n_windows=2):
        super().__init__()
        self.linear = nn.Linear(hidden, 3 * n_windows)

    def forward(self, h, kappa, chars):
        a, b, k = self.linear(h).exp().chunk(3, dim=-1)
        kappa = kappa + 0.5 * k
        u = torch.arange(chars.shape[1], dtype=h.dtype)
        phi = (a[..., None] * torch.exp(-b[..., None] * (kappa[..., None] - u) ** 2)).sum(1)
        return (phi.unsqueeze(-1) * chars).sum(1), kappa, phi


class HandwritingModel(nn.Module):
    def __init__(self, n_chars=12, hidden=16, n_windows=2, max_len=10):
        super().__init__()
        self.n_chars, self.hidden, self.n_windows, self.max_len = n_chars, hidden, n_windows, max_len
        self.cell = nn.LSTMCell(3 + n_chars, hidden)
        self.window = WindowAttention(hidden, n_windows)
        self.head = MixtureDensityHead(hidden)
        self.best_nll = float("inf")
        self.started = time.time()
        self.n_skipped = 0

    def init_state(self, b):
        zeros = torch.zeros(b, self.hidden)
        return (zeros, zeros), torch.zeros(b, self.n_windows), torch.zeros(b, self.n_chars)

    def run(self, strokes, chars):
        state, kappa, w = self.init_state(len(strokes))
        outs = []
        for x in strokes.unbind(1):
            state = self.cell(torch.cat([x, w], -1), state)
            w, kappa, _ = self.window(state[0], kappa, chars)
            outs.append(state[0])
        return torch.stack(outs, 1)

    def nll(self, params, target, lengths):
        losses = []
        for i, length in enumerate(lengths):
            p = {k: v[i, :length] for k, v in params.items()}
            y = target[i, :length]
            density = (p["pi"] * gaussian_2d(y[:, 1:], p)).sum(-1)
            if (density < 1e-10).any():
                density = density.clamp(min=1e-10)
                self.n_skipped += 1
            losses.append(-density.log().mean() + F.binary_cross_entropy(p["e"], y[:, 0]))
        return torch.stack(losses)

    @torch.no_grad()
    def sample(self, chars, bias=0.5):
        state, kappa, w = self.init_state(1)
        x = torch.zeros(1, 3)
        strokes, n_chars = [], int((chars.sum(-1) > 0).sum())
        while len(strokes) < self.max_len:
            state = self.cell(torch.cat([x, w], -1), state)
            w, kappa, phi = self.window(state[0], kappa, chars)
            p = self.head(state[0], bias)
            j = torch.multinomial(p["pi"][0], 1).item()
            mu, sigma, rho = p["mu"][0, j], p["sigma"][0, j], p["rho"][0, j]
            cov = torch.stack([sigma[0] ** 2, rho * sigma.prod(), rho * sigma.prod(), sigma[1] ** 2])
            try:
                L = torch.linalg.cholesky(cov.view(2, 2))
            except RuntimeError:
                L = torch.diag(sigma)
            xy = mu + L @ torch.randn(2)
            e = torch.bernoulli(p["e"])
            x = torch.cat([e.view(1, 1), xy.view(1, 2)], 1)
            strokes.append(x)
            # stop once the window is past the last character
            if phi[0].argmax() >= n_chars - 1 and kappa.max() > n_chars:
                break
        return torch.cat(strokes)

    def forward(self, strokes, lengths, text):
        chars = F.one_hot(text, self.n_chars).float() * text.ne(0).unsqueeze(-1)
        params = self.head(self.run(strokes[:, :-1], chars))
        loss = self.nll(params, strokes[:, 1:], lengths - 1).mean()
        example = None
        if loss.item() < self.best_nll:
            self.best_nll = loss.item()
            example = self.sample(chars[:1])
        elapsed = time.time() - self.started
        assert elapsed >= 0
        return loss, example, self.n_skipped


def build():
    torch.manual_seed(0)
    return HandwritingModel()


def example_inputs():
    g = torch.Generator().manual_seed(23)
    calls = []
    for lens, scale in (([7, 5], 2.0), ([6, 7], 0.7), ([8, 4, 6], 9.0)):
        n, t = len(lens), max(lens)
        xy = torch.randn(n, t, 2, generator=g) * scale
        pen = (torch.rand(n, t, 1, generator=g) < 0.2).float()
        text = torch.randint(1, 12, (n, 4), generator=g)
        text[:, 3] = 0
        calls.append((torch.cat([pen, xy], -1), torch.tensor(lens), text))
    return calls
