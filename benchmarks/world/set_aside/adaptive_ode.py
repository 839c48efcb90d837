"""Neural ODE with an adaptive Runge-Kutta solver and its statistics."""

import torch
import torch.nn as nn

_C = (0.5, 0.75, 1.0)
_A = ((0.5,), (0.0, 0.75), (2 / 9, 1 / 3, 4 / 9))
_E = (2 / 9 - 7 / 24, 1 / 3 - 1 / 4, 4 / 9 - 1 / 3, -1 / 8)


class ODEFunc(nn.Module):
    def __init__(self, dim=4, hidden=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim + 1, hidden), nn.Tanh(), nn.Linear(hidden, dim))
        for m in self.net:
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, std=1.0)
        self.nfe = 0

    def forward(self, t, y):
        self.nfe += 1
        return self.net(torch.cat([y, t.expand(y.shape[0], 1)], dim=-1))


class AdaptiveSolver:
    def __init__(self, func, rtol=1e-2, atol=1e-3, safety=0.9, max_num_steps=200):
        self.func, self.rtol, self.atol = func, rtol, atol
        self.safety, self.max_num_steps = safety, max_num_steps
        self.n_accepted, self.n_rejected = 0, 0

    def error_ratio(self, err, y0, y1):
        tol = self.atol + self.rtol * torch.max(y0.abs(), y1.abs())
        return (err / tol).pow(2).mean().sqrt()

    def select_initial_step(self, t0, y0, f0):
        scale = self.atol + torch.abs(y0) * self.rtol
        d0, d1 = (y0 / scale).pow(2).mean().sqrt(), (f0 / scale).pow(2).mean().sqrt()
        if d0 < 1e-5 or d1 < 1e-5:
            h0 = torch.tensor(1e-3, dtype=y0.dtype)
        else:
            h0 = 0.01 * d0 / d1
        return h0

    def step(self, t, y, f, dt):
        k = [f]
        for c, row in zip(_C, _A):
            yi = y + dt * sum(a * ki for a, ki in zip(row, k))
            k.append(self.func(t + c * dt, yi))
        return yi, k[-1], dt * sum(e * ki for e, ki in zip(_E, k))

    def optimal_step(self, dt, ratio):
        if ratio == 0:
            return dt * 5.0
        factor = float(self.safety / ratio ** (1.0 / 3.0))
        return dt * min(5.0, max(0.2, factor))

    def integrate(self, y0, ts):
        solution = [y0]
        t, y = ts[0], y0
        f = self.func(t, y)
        dt = self.select_initial_step(t, y, f)
        for next_t in ts[1:]:
            n_steps = 0
            while t < next_t:
                if n_steps >= self.max_num_steps:
                    raise RuntimeError(f"max_num_steps exceeded ({n_steps}>={self.max_num_steps})")
                dt = torch.minimum(dt, next_t - t)
                assert torch.isfinite(y).all(), "non-finite values in state `y`"
                y1, f1, err = self.step(t, y, f, dt)
                ratio = self.error_ratio(err, y, y1)
                if ratio <= 1:
                    t, y, f = t + dt, y1, f1
                    self.n_accepted += 1
                else:
                    self.n_rejected += 1
                dt = self.optimal_step(dt, ratio.detach())
                n_steps += 1
            solution.append(y)
        return torch.stack(solution)


class LatentODE(nn.Module):
    def __init__(self, obs=3, dim=4):
        super().__init__()
        self.encoder = nn.GRU(obs, dim, batch_first=True)
        self.func = ODEFunc(dim)
        self.decoder = nn.Linear(dim, obs)
        self.kinetic_weight = 0.01

    def forward(self, x, ts, observed):
        self.func.nfe = 0
        _, h = self.encoder(x * observed.unsqueeze(-1).float())
        solver = AdaptiveSolver(self.func)
        z = solver.integrate(h[0], ts)
        pred = self.decoder(z).transpose(0, 1)
        err = (pred - x) ** 2
        if observed.all():
            recon = err.mean()
        else:
            recon = err[observed].mean()
        loss = recon
        if self.training and self.func.nfe > 20:
            loss = loss + self.kinetic_weight * self.func(ts[-1], z[-1]).pow(2).mean()
        stats = {
            "nfe": self.func.nfe,
            "accepted": solver.n_accepted,
            "rejected": solver.n_rejected,
            "recon": recon.item(),
        }
        return loss, pred, stats


def build():
    torch.manual_seed(0)
    return LatentODE()


def example_inputs():
    g = torch.Generator().manual_seed(29)
    calls = []
    for b, t, rate, end in ((3, 4, 0.7, 1.0), (3, 4, 1.1, 1.0), (2, 5, 0.6, 3.0)):
        observed = torch.rand(b, t, generator=g) < rate
        x = torch.randn(b, t, 3, generator=g)
        calls.append((x, torch.linspace(0.0, end, t), observed))
    return calls
