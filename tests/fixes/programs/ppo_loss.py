"""PPO's clipped loss with an early stop on the KL divergence."""

import torch
import torch.nn as nn


class PPOLoss(nn.Module):
    def __init__(self, clip=0.2, target_kl=0.05, value_coef=0.5):
        super().__init__()
        self.clip = clip
        self.target_kl = target_kl
        self.value_coef = value_coef
        self.stats = {}

    def forward(self, logp, old_logp, advantages, values, returns):
        ratio = torch.exp(logp - old_logp)
        approx_kl = (old_logp - logp).mean()
        clip_frac = ((ratio - 1).abs() > self.clip).float().mean()
        self.stats["kl"] = approx_kl.item()
        self.stats["clip_frac"] = clip_frac.item()
        if approx_kl > 1.5 * self.target_kl:
            print(f"early stopping, kl {approx_kl:.3f}")
            return torch.zeros_like(ratio).sum()
        surrogate = torch.min(
            ratio * advantages, ratio.clamp(1 - self.clip, 1 + self.clip) * advantages
        )
        value_loss = (values - returns).pow(2).mean()
        return -surrogate.mean() + self.value_coef * value_loss


def example_inputs():
    torch.manual_seed(14)
    old = torch.randn(16) * 0.1
    rest = torch.randn(16), torch.randn(16), torch.randn(16)
    return [(old + 0.01, old, *rest), (old - 0.5, old, *rest)]
