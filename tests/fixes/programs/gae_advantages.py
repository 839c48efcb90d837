"""Generalized advantage estimation over a rollout, with episode ends."""

import torch


def gae(rewards, values, dones, last_value, gamma=0.99, lam=0.95):
    steps = rewards.shape[0]
    advantages = torch.zeros_like(rewards)
    running = torch.zeros_like(last_value)
    for t in reversed(range(steps)):
        next_value = last_value if t == steps - 1 else values[t + 1]
        if dones[t]:
            next_value = torch.zeros_like(next_value)
            running = torch.zeros_like(running)
        delta = rewards[t] + gamma * next_value - values[t]
        running = delta + gamma * lam * running
        advantages[t] = running
    returns = advantages + values
    std = advantages.std().item()
    if std > 1e-6:
        advantages = (advantages - advantages.mean()) / std
    return advantages, returns


def example_inputs():
    torch.manual_seed(13)
    return (
        torch.randn(5),
        torch.randn(5),
        torch.tensor([False, True, False, False, False]),
        torch.randn(()),
    )
