"""Density control of a set of 3D Gaussians: clone, split, prune, opacity reset by iteration."""

import torch
import torch.nn as nn


def inverse_sigmoid(x):
    return torch.log(x / (1 - x))


def build_rotation(r):
    q = r / r.norm(dim=1, keepdim=True)
    R = torch.zeros((q.size(0), 3, 3), device=r.device)
    r, x, y, z = q.unbind(1)
    R[:, 0, 0] = 1 - 2 * (y * y + z * z)
    R[:, 0, 1] = 2 * (x * y - r * z)
    R[:, 0, 2] = 2 * (x * z + r * y)
    R[:, 1, 0] = 2 * (x * y + r * z)
    R[:, 1, 1] = 1 - 2 * (x * x + z * z)
    R[:, 1, 2] = 2 * (y * z - r * x)
    R[:, 2, 0] = 2 * (x * z - r * y)
    R[:, 2, 1] = 2 * (y * z + r * x)
    R[:, 2, 2] = 1 - 2 * (x * x + y * y)
    return R


class Densifier(nn.Module):
    def __init__(self, grad_threshold=0.6, percent_dense=0.05, min_opacity=0.05, interval=2):
        super().__init__()
        self.grad_threshold, self.percent_dense = grad_threshold, percent_dense
        self.min_opacity, self.interval = min_opacity, interval
        self.iteration = 0
        self.xyz_gradient_accum = None
        self.denom = None

    def add_densification_stats(self, grad2d, visible):
        if self.xyz_gradient_accum is None or len(self.denom) != len(visible):
            self.xyz_gradient_accum = torch.zeros(len(visible), 1)
            self.denom = torch.zeros(len(visible), 1)
        self.xyz_gradient_accum[visible] += torch.norm(grad2d[visible], dim=-1, keepdim=True)
        self.denom[visible] += 1

    def densify_and_clone(self, g, grads, extent):
        mask = torch.norm(grads, dim=-1) >= self.grad_threshold
        mask = mask & (g["scaling"].exp().max(dim=1).values <= self.percent_dense * extent)
        return {k: torch.cat([v, v[mask]]) for k, v in g.items()}, mask.sum().item()

    def densify_and_split(self, g, grads, extent, N=2):
        n_init_points = g["xyz"].shape[0]
        padded_grad = torch.zeros(n_init_points)
        padded_grad[: grads.shape[0]] = grads.squeeze()
        mask = padded_grad >= self.grad_threshold
        mask = mask & (g["scaling"].exp().max(dim=1).values > self.percent_dense * extent)
        if not mask.any():
            return g, 0
        new = {k: v[mask].repeat(N, 1) for k, v in g.items()}
        stds = new["scaling"].exp()
        signs = torch.ones(stds.shape[0], 1)
        signs[: stds.shape[0] // 2] = -1
        rots = build_rotation(new["rotation"])
        new["xyz"] = torch.bmm(rots, (signs * stds).unsqueeze(-1)).squeeze(-1) + new["xyz"]
        new["scaling"] = torch.log(new["scaling"].exp() / (0.8 * N))
        return {k: torch.cat([v[~mask], new[k]]) for k, v in g.items()}, int(mask.sum())

    def prune(self, g, extent, max_screen_size):
        prune_mask = (g["opacity"].sigmoid() < self.min_opacity).squeeze(-1)
        if max_screen_size:
            big = g["scaling"].exp().max(dim=1).values > 0.5 * extent
            prune_mask = torch.logical_or(prune_mask, big)
        valid = ~prune_mask
        return {k: v[valid] for k, v in g.items()}, prune_mask.sum().item()

    @torch.no_grad()
    def forward(self, xyz, scaling, rotation, opacity, grad2d, radii):
        self.iteration += 1
        g = {"xyz": xyz, "scaling": scaling, "rotation": rotation, "opacity": opacity}
        extent = (xyz - xyz.mean(dim=0)).norm(dim=-1).max().item() * 1.1
        self.add_densification_stats(grad2d, radii > 0)
        stats = {"iteration": self.iteration, "extent": extent}

        if self.iteration % self.interval == 0:
            grads = self.xyz_gradient_accum / self.denom
            grads[grads.isnan()] = 0.0
            g, stats["n_clone"] = self.densify_and_clone(g, grads, extent)
            g, stats["n_split"] = self.densify_and_split(g, grads, extent)
            max_screen_size = 20 if self.iteration > 3 else None
            g, stats["n_prune"] = self.prune(g, extent, max_screen_size)
            self.xyz_gradient_accum, self.denom = None, None
            print(f"[ITER {self.iteration}] {g['xyz'].shape[0]} points, {stats['n_prune']} pruned")

        if self.iteration % 3 == 0:
            opacity = g["opacity"].sigmoid()
            g["opacity"] = inverse_sigmoid(torch.min(opacity, torch.ones_like(opacity) * 0.01))
        return g, stats


def build():
    torch.manual_seed(0)
    return Densifier()


def example_inputs():
    g = torch.Generator().manual_seed(13)
    calls = []
    for n in (12, 12, 9, 9, 12):
        opacity = torch.randn(n, 1, generator=g) * 3
        rotation = torch.randn(n, 4, generator=g)
        scaling = torch.randn(n, 3, generator=g) * 0.6 - 2.5
        radii = torch.randint(0, 3, (n,), generator=g)
        xyz, grad2d = torch.randn(n, 3, generator=g), torch.randn(n, 2, generator=g)
        calls.append((xyz, scaling, rotation, opacity, grad2d, radii))
    return calls
