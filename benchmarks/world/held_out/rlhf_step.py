"""RLHF: the loss of a policy on sampled responses, with reward whitening and an adaptive KL penalty."""

import logging
from collections import defaultdict

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger(__name__)


class AdaptiveKLController:
    def __init__(self, init_kl_coef=0.2, target=0.6, horizon=20):
        self.value, self.target, self.horizon = init_kl_coef, target, horizon

    def update(self, current, n_steps):
        proportional_error = np.clip(current / self.target - 1, -0.2, 0.2)
        self.value *= 1 + proportional_error * n_steps / self.horizon


class TinyLM(nn.Module):
    def __init__(self, vocab=24, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.lm_head = nn.Linear(dim, vocab)
        self.v_head = nn.Linear(dim, 1)

    def forward(self, ids):
        x, _ = self.rnn(self.embed(ids))
        return self.lm_head(x), self.v_head(x).squeeze(-1)


def logprobs_from_logits(logits, labels):
    return torch.gather(F.log_softmax(logits, dim=2), 2, labels.unsqueeze(2)).squeeze(-1)


def masked_mean(values, mask):
    return (values * mask).sum() / mask.sum()


def masked_whiten(values, mask, shift_mean=True):
    mean = masked_mean(values, mask)
    var = masked_mean((values - mean) ** 2, mask)
    mask_sum = mask.sum()
    if mask_sum == 0:
        raise ValueError("The sum of the mask is zero, which can happen when mini batches are small")
    if mask_sum > 1:
        var = var * mask_sum / (mask_sum - 1)
    whitened = (values - mean) * torch.rsqrt(var + 1e-8)
    return whitened if shift_mean else whitened + mean


class RLHFStep(nn.Module):
    def __init__(self, eos=1, gamma=1.0, lam=0.95, cliprange=0.2, ratio_threshold=1.3):
        super().__init__()
        self.policy, self.ref = TinyLM(), TinyLM()
        for p in self.ref.parameters():
            p.requires_grad_(False)
        self.kl_ctl = AdaptiveKLController()
        self.eos, self.gamma, self.lam = eos, gamma, lam
        self.cliprange, self.ratio_threshold = cliprange, ratio_threshold
        self.stats = defaultdict(list)

    def response_mask(self, queries, ids):
        """One up to the end token, that one included."""
        mask = torch.zeros_like(ids, dtype=torch.float)
        start = queries.shape[1] - 1
        for i, row in enumerate(ids):
            ends = (row[start + 1 :] == self.eos).nonzero(as_tuple=True)[0]
            end = start + 1 + ends[0] if len(ends) else len(row) - 1
            mask[i, start:end] = 1
        return mask[:, :-1]

    def compute_rewards(self, scores, logprobs, ref_logprobs, mask):
        rewards = []
        for score, lp, ref_lp, m in zip(scores, logprobs, ref_logprobs, mask):
            reward = -self.kl_ctl.value * (lp - ref_lp)
            last = m.nonzero()[-1]
            reward[last] += score
            rewards.append(reward)
        return torch.stack(rewards)

    def advantages(self, values, rewards, mask):
        lastgaelam, reversed_ = 0, []
        values, rewards = values * mask, rewards * mask
        for t in reversed(range(rewards.shape[1])):
            nextvalues = values[:, t + 1] if t < rewards.shape[1] - 1 else 0.0
            delta = rewards[:, t] + self.gamma * nextvalues - values[:, t]
            lastgaelam = delta + self.gamma * self.lam * lastgaelam
            reversed_.append(lastgaelam)
        adv = torch.stack(reversed_[::-1], dim=1)
        return masked_whiten(adv, mask).detach(), adv + values

    def forward(self, queries, responses, old_logprobs, scores):
        ids = torch.cat([queries, responses], 1)
        mask = self.response_mask(queries, ids)
        logits, values = self.policy(ids)
        with torch.no_grad():
            ref_logprobs = logprobs_from_logits(self.ref(ids)[0][:, :-1], ids[:, 1:])
        logprobs = logprobs_from_logits(logits[:, :-1], ids[:, 1:])
        rewards = self.compute_rewards(scores, logprobs.detach(), ref_logprobs, mask)
        adv, returns = self.advantages(values[:, :-1].detach(), rewards, mask)

        vf_loss = 0.5 * masked_mean((values[:, :-1] - returns) ** 2, mask)
        ratio = torch.exp(logprobs - old_logprobs)
        pg = torch.max(-adv * ratio, -adv * ratio.clamp(1 - self.cliprange, 1 + self.cliprange))
        loss = masked_mean(pg, mask) + 0.1 * vf_loss
        avg_ratio = masked_mean(ratio, mask).item()
        if avg_ratio > self.ratio_threshold:
            log.warning("average ratio (%.2f) exceeds %.2f. Skipping batch.", avg_ratio, 1.3)
            loss = loss * 0.0

        kl = ((logprobs - ref_logprobs) * mask).sum(-1).mean().detach()
        self.kl_ctl.update(kl.abs().cpu().numpy(), len(queries))
        self.stats["objective/kl"].append(kl)
        self.stats["ppo/ratio"].append(avg_ratio)
        return loss, rewards, {k: float(v[-1]) for k, v in self.stats.items()}


def build():
    torch.manual_seed(0)
    return RLHFStep()


def example_inputs():
    g = torch.Generator().manual_seed(5)
    calls = []
    for n, shift in ((4, -3.2), (4, -3.2), (3, -3.9)):
        queries = torch.randint(2, 24, (n, 4), generator=g)
        responses = torch.randint(2, 24, (n, 6), generator=g)
        responses[0, 3] = 1
        old = torch.randn(n, 9, generator=g) * 0.2 + shift
        calls.append((queries, responses, old, torch.randn(n, generator=g)))
    return calls
