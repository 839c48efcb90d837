"""Generator and discriminator losses with adaptive augmentation, R1 and running path length."""
import torch
import torch.nn.functional as F
from torch import nn


class EqualLinear(nn.Module):
    def __init__(self, in_dim, out_dim, lr_mul=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out_dim, in_dim) / lr_mul)
        self.bias = nn.Parameter(torch.zeros(out_dim))
        self.scale = (1 / in_dim**0.5) * lr_mul

    def forward(self, x):
        return F.leaky_relu(F.linear(x, self.weight * self.scale, self.bias), 0.2)


def minibatch_stddev(x, group_size=2):
    group = min(x.shape[0], group_size)
    stddev = x.view(group, -1, *x.shape[1:])
    stddev = torch.sqrt(stddev.var(0, unbiased=False) + 1e-8).mean(1, keepdim=True)
    return torch.cat([x, stddev.repeat(group, 1)], 1)


class AdaptiveAugment(nn.Module):
    def __init__(self, target=0.6, speed=0.01, update_every=2):
        super().__init__()
        self.target, self.speed, self.update_every = target, speed, update_every
        self.register_buffer("p", torch.tensor(0.1))
        self.register_buffer("stats", torch.zeros(2))

    @torch.no_grad()
    def tune(self, real_pred):
        self.stats += torch.stack([torch.sign(real_pred).sum(), torch.tensor(float(real_pred.shape[0]))])
        pred_signs, n_pred = self.stats.tolist()
        if n_pred >= self.update_every * real_pred.shape[0]:
            r_t_stat = pred_signs / n_pred
            sign = 1 if r_t_stat > self.target else -1
            self.p.add_(sign * self.speed * n_pred).clamp_(0, 1)
            self.stats.zero_()

    def forward(self, x, u):
        if self.p > 0:
            flip = (u < self.p).view(-1, 1)
            x = torch.where(flip, x.flip(1), x)
        return x


class StyleGANLoss(nn.Module):
    def __init__(self, style_dim=8, dim=12, r1_gamma=1.0):
        super().__init__()
        self.generator = nn.Sequential(EqualLinear(style_dim, 16), EqualLinear(16, dim))
        self.d_body = EqualLinear(dim, 16)
        self.d_out = nn.Linear(17, 1)
        self.ada = AdaptiveAugment()
        self.r1_gamma = r1_gamma
        self.register_buffer("mean_path_length", torch.zeros(()))

    def discriminator(self, x):
        return self.d_out(minibatch_stddev(self.d_body(x)))

    def path_penalty(self, w, decay=0.01):
        fake = self.generator(w)
        jac = (fake**2).sum(1).sqrt()
        path_mean = self.mean_path_length + decay * (jac.mean().detach() - self.mean_path_length)
        self.mean_path_length.copy_(path_mean)
        return (jac - path_mean).pow(2).mean()

    def forward(self, real, w, u):
        fake = self.generator(w)
        real_pred = self.discriminator(self.ada(real, u))
        fake_pred = self.discriminator(self.ada(fake.detach(), u))
        self.ada.tune(real_pred)
        d_loss = F.softplus(-real_pred).mean() + F.softplus(fake_pred).mean()
        g_loss = F.softplus(-self.discriminator(fake)).mean() + self.path_penalty(w)
        stats = {"d": d_loss, "g": g_loss, "real_score": real_pred.mean(), "ada_p": self.ada.p}
        return d_loss + g_loss, {k: v.mean().item() for k, v in stats.items()}


def build():
    torch.manual_seed(0)
    return StyleGANLoss()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    return [(torch.randn(4, 12, generator=g), torch.randn(4, 8, generator=g), torch.rand(4, generator=g)) for _ in range(3)]
