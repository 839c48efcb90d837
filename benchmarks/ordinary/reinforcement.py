"""A policy that acts and scores what it did."""

import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, observations, actions):
        super().__init__()
        self.trunk = nn.Linear(observations, 16)
        self.actor = nn.Linear(16, actions)
        self.critic = nn.Linear(16, 1)

    def forward(self, observation):
        hidden = torch.tanh(self.trunk(observation))
        return self.actor(hidden), self.critic(hidden)

    def act(self, observation):
        logits, value = self(observation)
        distribution = Categorical(logits=logits)
        action = distribution.sample()
        return action.item(), distribution.log_prob(action), value.item()


policy = Policy(4, 2)
policy.act = torch.compile(policy.act, backend="eager")
policy.act(torch.randn(4))
