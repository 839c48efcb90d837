"""Multiresolution hash grid with an occupancy grid; rays are marched until they are opaque."""

import torch
import torch.nn as nn
import torch.nn.functional as F

PRIMES = (1, 2654435761, 805459861)


class HashEncoding(nn.Module):
    def __init__(self, n_levels=3, log2_size=6, base=4, scale=1.6, dim=2):
        super().__init__()
        self.resolutions = [int(base * scale**i) for i in range(n_levels)]
        self.size = 2**log2_size
        self.tables = nn.ModuleList([nn.Embedding(self.size, dim) for _ in range(n_levels)])
        for table in self.tables:
            nn.init.uniform_(table.weight, -0.5, 0.5)
        corners = torch.stack(torch.meshgrid(*[torch.arange(2)] * 3, indexing="ij"), -1)
        self.register_buffer("corners", corners.reshape(-1, 3))

    def hash(self, coords):
        h = coords[..., 0] * PRIMES[0]
        for d in (1, 2):
            h = torch.bitwise_xor(h, coords[..., d] * PRIMES[d])
        return h % self.size

    def forward(self, x):
        keep = ((x >= 0) & (x <= 1)).all(dim=-1)
        if not keep.all():
            print("ALERT: some points are outside bounding box. Clipping them!")
            x = x.clamp(0.0, 1.0)
        out = []
        for res, table in zip(self.resolutions, self.tables):
            pos = x * res
            low = pos.floor()
            frac = (pos - low).unsqueeze(1)
            idx = low.long().unsqueeze(1) + self.corners
            w = torch.where(self.corners.bool(), frac, 1 - frac).prod(-1, keepdim=True)
            out.append((table(self.hash(idx)) * w).sum(1))
        return torch.cat(out, -1)


class OccupancyGrid:
    def __init__(self, resolution=8, decay=0.8, thre=0.6):
        self.resolution, self.decay, self.thre = resolution, decay, thre
        self.occs = torch.zeros(resolution**3)
        self.binary = torch.ones(resolution**3, dtype=torch.bool)
        self.updates = 0

    def coords(self):
        r = torch.arange(self.resolution)
        return torch.stack(torch.meshgrid(r, r, r, indexing="ij"), -1).reshape(-1, 3)

    @torch.no_grad()
    def update(self, density_fn):
        if self.updates == 0:
            indices = torch.arange(len(self.occs))
        else:
            indices = torch.nonzero(self.binary)[:, 0]
            if len(indices) > 128:
                indices = indices[:: len(indices) // 128]
        x = (self.coords()[indices] + 0.5) / self.resolution
        self.occs[indices] = torch.maximum(self.occs[indices] * self.decay, density_fn(x))
        thre = min(self.occs.mean().item(), self.thre)
        self.binary = self.occs > thre
        self.updates += 1

    def query(self, x):
        idx = (x.clamp(0, 0.999) * self.resolution).long()
        flat = (idx[:, 0] * self.resolution + idx[:, 1]) * self.resolution + idx[:, 2]
        return self.binary[flat]


class NGPField(nn.Module):
    def __init__(self, hidden=16, max_steps=24, step=0.15, early_stop=2e-2, update_every=2):
        super().__init__()
        self.encoding = HashEncoding()
        self.mlp = nn.Sequential(nn.Linear(6, hidden), nn.ReLU(), nn.Linear(hidden, 4))
        self.grid = OccupancyGrid()
        self.max_steps, self.step_size, self.early_stop = max_steps, step, early_stop
        self.update_every = update_every
        self.iter = 0

    def density(self, x):
        return F.softplus(self.mlp(self.encoding(x))[:, 0]) * 6

    def march(self, rays_o, rays_d, t):
        n = len(rays_o)
        color, trans = torch.zeros(n, 3), torch.ones(n)
        alive = torch.arange(n)
        n_samples = 0
        for _ in range(self.max_steps):
            if alive.numel() == 0:
                break
            x = rays_o[alive] + rays_d[alive] * t[alive, None]
            occupied = self.grid.query(x)
            if occupied.any():
                rays = alive[occupied]
                raw = self.mlp(self.encoding(x[occupied]))
                alpha = 1 - torch.exp(-F.softplus(raw[:, 0]) * 6 * self.step_size)
                color = color.index_add(
                    0, rays, (trans[rays] * alpha)[:, None] * torch.sigmoid(raw[:, 1:])
                )
                trans = trans.index_copy(0, rays, trans[rays] * (1 - alpha))
                n_samples += len(rays)
            t = t + self.step_size
            alive = alive[(trans[alive] > self.early_stop) & (t[alive] < 1.7)]
        return color, 1 - trans, n_samples

    def forward(self, rays_o, rays_d, target):
        if self.training and self.iter % self.update_every == 0:
            self.grid.update(self.density)
        self.iter += 1
        color, opacity, n_samples = self.march(rays_o, rays_d, torch.zeros(len(rays_o)))
        color = color + (1 - opacity)[:, None]
        loss = F.smooth_l1_loss(color, target)
        return loss, opacity, {"n_samples": n_samples, "occ": self.grid.binary.float().mean()}


def build():
    torch.manual_seed(0)
    return NGPField()


def example_inputs():
    g = torch.Generator().manual_seed(11)
    calls = []
    for n, spread in ((6, 0.2), (6, 0.2), (8, 0.9), (6, 0.5)):
        o = torch.cat([torch.rand(n, 2, generator=g) * spread + 0.05, torch.zeros(n, 1)], 1)
        d = F.normalize(torch.cat([torch.rand(n, 2, generator=g) * spread, torch.ones(n, 1)], 1), dim=-1)
        calls.append((o, d, torch.rand(n, 3, generator=g)))
    return calls
