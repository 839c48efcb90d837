"""Volume rendering of a radiance field: rays against a box, stratified and importance samples, chunks."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def intersect_aabb(rays_o, rays_d, aabb):
    t0 = (aabb[0] - rays_o) / rays_d
    t1 = (aabb[1] - rays_o) / rays_d
    near = torch.minimum(t0, t1).max(-1).values.clamp(min=0.05)
    far = torch.maximum(t0, t1).min(-1).values
    return near, far, far > near


def sample_pdf(bins, weights, N_samples):
    weights = weights + 1e-5
    pdf = weights / torch.sum(weights, -1, keepdim=True)
    cdf = torch.cumsum(pdf, -1)
    cdf = torch.cat([torch.zeros_like(cdf[..., :1]), cdf], -1)
    u = torch.linspace(0.0, 1.0, steps=N_samples).expand(list(cdf.shape[:-1]) + [N_samples]).contiguous()
    inds = torch.searchsorted(cdf, u, right=True)
    below, above = (inds - 1).clamp(min=0), inds.clamp(max=cdf.shape[-1] - 1)
    cdf_b, cdf_a = torch.gather(cdf, -1, below), torch.gather(cdf, -1, above)
    bins_b, bins_a = torch.gather(bins, -1, below), torch.gather(bins, -1, above)
    denom = cdf_a - cdf_b
    denom[denom < 1e-5] = 1
    return bins_b + (u - cdf_b) / denom * (bins_a - bins_b)


class NeRF(nn.Module):
    def __init__(self, W=24, multires=3):
        super().__init__()
        self.register_buffer("freqs", 2.0 ** torch.arange(multires))
        self.l1 = nn.Linear(3 + 6 * multires, W)
        self.out = nn.Linear(W, 4)

    def forward(self, pts):
        x = pts[..., None, :] * self.freqs[:, None]
        x = torch.cat([pts, torch.sin(x).flatten(-2), torch.cos(x).flatten(-2)], -1)
        return self.out(F.relu(self.l1(x)))


def raw2outputs(raw, z_vals, rays_d, white_bkgd=True):
    dists = torch.cat([z_vals[..., 1:] - z_vals[..., :-1], torch.full_like(z_vals[..., :1], 1e10)], -1)
    alpha = 1.0 - torch.exp(-F.relu(raw[..., 3]) * dists * torch.norm(rays_d[..., None, :], dim=-1))
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1.0 - alpha + 1e-10], -1), -1)[:, :-1]
    weights = alpha * trans
    rgb_map = torch.sum(weights[..., None] * torch.sigmoid(raw[..., :3]), -2)
    acc_map = torch.sum(weights, -1)
    if white_bkgd:
        rgb_map = rgb_map + (1.0 - acc_map[..., None])
    return rgb_map, weights


class Renderer(nn.Module):
    def __init__(self, N_samples=6, N_importance=6):
        super().__init__()
        self.coarse, self.fine = NeRF(), NeRF()
        self.N_samples, self.N_importance = N_samples, N_importance
        self.register_buffer("aabb", torch.tensor([[-1.0, -1.0, -1.0], [1.0, 1.0, 1.0]]))

    def render_rays(self, rays_o, rays_d, near, far):
        z_vals = near[:, None] + (far - near)[:, None] * torch.linspace(0.0, 1.0, self.N_samples)
        pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
        rgb0, weights = raw2outputs(self.coarse(pts), z_vals, rays_d)
        z_mid = 0.5 * (z_vals[..., 1:] + z_vals[..., :-1])
        z_samples = sample_pdf(z_mid, weights[..., 1:-1], self.N_importance).detach()
        z_vals, _ = torch.sort(torch.cat([z_vals, z_samples], -1), -1)
        pts = rays_o[..., None, :] + rays_d[..., None, :] * z_vals[..., :, None]
        return rgb0, raw2outputs(self.fine(pts), z_vals, rays_d)[0]

    def forward(self, rays_o, rays_d, target):
        rgb = torch.ones_like(target)
        near, far, hit = intersect_aabb(rays_o, rays_d, self.aabb)
        if not hit.any():
            return F.mse_loss(rgb, target), rgb
        rgb0, rgb1 = self.render_rays(rays_o[hit], rays_d[hit], near[hit], far[hit])
        rgb[hit] = rgb1
        loss = F.mse_loss(rgb, target) + F.mse_loss(rgb0, target[hit])
        if torch.isnan(loss):
            print("! [Numerical Error] loss contains nan")
        psnr = -10.0 * torch.log10(F.mse_loss(rgb, target))
        return loss, psnr.item()


def build():
    torch.manual_seed(0)
    return Renderer()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    o = torch.tensor([0.0, 0.0, -3.0]).expand(10, 3).contiguous()
    d = F.normalize(torch.cat([0.6 * torch.randn(10, 2, generator=g), torch.ones(10, 1)], 1), dim=-1)
    return o, d, torch.rand(10, 3, generator=g)
