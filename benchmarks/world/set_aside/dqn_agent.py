"""Double DQN with dueling heads: the TD loss, priorities, and a soft or hard update of the target network."""
import copy
import logging

import torch
import torch.nn as nn
import torch.nn.functional as F

logger = logging.getLogger(__name__)


class DuelingQNetwork(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=24):
        super().__init__()
        self.feature = nn.Sequential(nn.Linear(obs_dim, hidden), nn.ReLU())
        self.value = nn.Linear(hidden, 1)
        self.advantage = nn.Linear(hidden, n_actions)

    def forward(self, x):
        h = self.feature(x)
        adv = self.advantage(h)
        return self.value(h) + adv - adv.mean(dim=1, keepdim=True)


class DoubleDQN(nn.Module):
    def __init__(self, obs_dim=5, n_actions=4, gamma=0.99, tau=0.05, update_every=2, alpha=0.6):
        super().__init__()
        self.q_network = DuelingQNetwork(obs_dim, n_actions)
        self.target_network = copy.deepcopy(self.q_network)
        for p in self.target_network.parameters():
            p.requires_grad_(False)
        self.gamma, self.tau, self.update_every, self.alpha = gamma, tau, update_every, alpha
        self.register_buffer("global_step", torch.zeros((), dtype=torch.long))
        self.register_buffer("max_priority", torch.tensor(1.0))
        self.reward_scale = 1.0

    @torch.no_grad()
    def update_target(self):
        for target, source in zip(self.target_network.parameters(), self.q_network.parameters()):
            target.data.copy_(self.tau * source.data + (1.0 - self.tau) * target.data)

    def td_target(self, rewards, next_obs, dones):
        with torch.no_grad():
            next_actions = self.q_network(next_obs).argmax(dim=1, keepdim=True)
            next_q = self.target_network(next_obs).gather(1, next_actions).squeeze(1)
            return rewards * self.reward_scale + self.gamma * next_q * (1 - dones)

    def forward(self, obs, actions, rewards, next_obs, dones, weights):
        if rewards.abs().max() > 1.0:
            logger.warning("rewards outside [-1, 1] are clipped")
            rewards = rewards.clamp(-1.0, 1.0)
        target = self.td_target(rewards, next_obs, dones)
        old_val = self.q_network(obs).gather(1, actions.unsqueeze(1)).squeeze(1)
        td_error = target - old_val
        loss = (weights * F.smooth_l1_loss(old_val, target, reduction="none")).mean()

        priorities = (td_error.detach().abs() + 1e-6) ** self.alpha
        if priorities.max() > self.max_priority:
            self.max_priority.copy_(priorities.max())

        self.global_step += 1
        if self.global_step % self.update_every == 0:
            self.update_target()
        return loss, priorities, {"q_values": old_val.mean().item(), "td_error": td_error.abs().mean().item()}


def build():
    torch.manual_seed(0)
    return DoubleDQN()


def example_inputs():
    g = torch.Generator().manual_seed(3)
    calls = []
    for scale in (0.3, 2.0, 0.3):
        n = 12
        calls.append((torch.randn(n, 5, generator=g), torch.randint(0, 4, (n,), generator=g), scale * torch.randn(n, generator=g),
                      torch.randn(n, 5, generator=g), (torch.rand(n, generator=g) < 0.2).float(), torch.rand(n, generator=g)))
    return calls
