"""Soft actor-critic: losses of critics, actor and temperature in one call."""
import torch
import torch.nn as nn
import torch.nn.functional as F

LOG_STD_MAX = 2
LOG_STD_MIN = -5


class SoftQNetwork(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim + act_dim, 24)
        self.fc2 = nn.Linear(24, 1)

    def forward(self, x, a):
        return self.fc2(F.relu(self.fc1(torch.cat([x, a], 1))))


class Actor(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim, 24)
        self.fc_mean = nn.Linear(24, act_dim)
        self.fc_logstd = nn.Linear(24, act_dim)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        log_std = torch.tanh(self.fc_logstd(x))
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std + 1)
        return self.fc_mean(x), log_std

    def get_action(self, x, noise):
        mean, log_std = self(x)
        std = log_std.exp()
        x_t = mean + std * noise
        y_t = torch.tanh(x_t)
        log_prob = -0.5 * ((x_t - mean) / std) ** 2 - log_std - 0.919
        log_prob = log_prob - torch.log(1 - y_t.pow(2) + 1e-6)
        return y_t, log_prob.sum(1, keepdim=True)


class SAC(nn.Module):
    def __init__(self, obs_dim=6, act_dim=2, gamma=0.99, autotune=True):
        super().__init__()
        self.actor = Actor(obs_dim, act_dim)
        self.qf1, self.qf2 = SoftQNetwork(obs_dim, act_dim), SoftQNetwork(obs_dim, act_dim)
        self.qf1_target, self.qf2_target = SoftQNetwork(obs_dim, act_dim), SoftQNetwork(obs_dim, act_dim)
        self.gamma, self.autotune = gamma, autotune
        self.target_entropy = -float(act_dim)
        self.log_alpha = nn.Parameter(torch.zeros(1))

    def forward(self, obs, actions, rewards, next_obs, dones, noise):
        alpha = self.log_alpha.exp().item() if self.autotune else 0.2
        with torch.no_grad():
            next_actions, next_log_pi = self.actor.get_action(next_obs, noise)
            q_next = torch.min(self.qf1_target(next_obs, next_actions), self.qf2_target(next_obs, next_actions))
            min_q = q_next - alpha * next_log_pi
            next_q = rewards.flatten() + (1 - dones.flatten()) * self.gamma * min_q.view(-1)
        if torch.isnan(next_q).any():
            raise ValueError("NaN in the TD target")
        qf1_a = self.qf1(obs, actions).view(-1)
        qf2_a = self.qf2(obs, actions).view(-1)
        qf_loss = F.mse_loss(qf1_a, next_q) + F.mse_loss(qf2_a, next_q)

        pi, log_pi = self.actor.get_action(obs, noise)
        min_qf_pi = torch.min(self.qf1(obs, pi), self.qf2(obs, pi))
        actor_loss = ((alpha * log_pi) - min_qf_pi).mean()
        alpha_loss = (-self.log_alpha.exp() * (log_pi.detach() + self.target_entropy)).mean()
        logs = {
            "losses/qf1_values": qf1_a.mean().item(),
            "losses/qf_loss": qf_loss.item() / 2.0,
            "losses/actor_loss": actor_loss.item(),
            "losses/alpha": alpha,
        }
        return qf_loss + actor_loss + alpha_loss, logs


def build():
    torch.manual_seed(5)
    return SAC()


def example_inputs():
    g = torch.Generator().manual_seed(4)
    n = 10
    return [(torch.randn(n, 6, generator=g), torch.rand(n, 2, generator=g) * 2 - 1, torch.randn(n, 1, generator=g), torch.randn(n, 6, generator=g),
             torch.zeros(n, 1), torch.randn(n, 2, generator=g)) for _ in range(2)]
