"""The loss of one PPO minibatch as single-file RL scripts write it."""
import numpy as np
import torch
import torch.nn as nn
from torch.distributions.categorical import Categorical


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Args:
    clip_coef = 0.2
    clip_vloss = True
    norm_adv = True
    ent_coef = 0.01
    vf_coef = 0.5
    target_kl = 0.02
    update_epochs = 2


class Agent(nn.Module):
    def __init__(self, obs_dim=6, n_actions=3):
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(obs_dim, 16)), nn.Tanh(), layer_init(nn.Linear(16, 1), std=1.0))
        self.actor = nn.Sequential(layer_init(nn.Linear(obs_dim, 16)), nn.Tanh(), layer_init(nn.Linear(16, n_actions), std=0.01))

    def get_action_and_value(self, x, action=None):
        logits = self.actor(x)
        probs = Categorical(logits=logits, validate_args=False)
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


class PPO(nn.Module):
    def __init__(self):
        super().__init__()
        self.agent = Agent()
        self.args = Args()

    def forward(self, b_obs, b_actions, b_logprobs, b_advantages, b_returns, b_values):
        args = self.args
        clipfracs = []
        losses = []
        for epoch in range(args.update_epochs):
            _, newlogprob, entropy, newvalue = self.agent.get_action_and_value(b_obs, b_actions.long())
            logratio = newlogprob - b_logprobs
            ratio = logratio.exp()
            with torch.no_grad():
                old_approx_kl = (-logratio).mean()
                approx_kl = ((ratio - 1) - logratio).mean()
                clipfracs += [((ratio - 1.0).abs() > args.clip_coef).float().mean().item()]
            mb_advantages = b_advantages
            if args.norm_adv:
                mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
            pg_loss1 = -mb_advantages * ratio
            pg_loss2 = -mb_advantages * torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
            pg_loss = torch.max(pg_loss1, pg_loss2).mean()
            newvalue = newvalue.view(-1)
            if args.clip_vloss:
                v_clipped = b_values + torch.clamp(newvalue - b_values, -args.clip_coef, args.clip_coef)
                v_loss = 0.5 * torch.max((newvalue - b_returns) ** 2, (v_clipped - b_returns) ** 2).mean()
            else:
                v_loss = 0.5 * ((newvalue - b_returns) ** 2).mean()
            losses.append(pg_loss - args.ent_coef * entropy.mean() + v_loss * args.vf_coef)
            if args.target_kl is not None and approx_kl > args.target_kl:
                break
        var_y = torch.var(b_returns)
        explained_var = float("nan") if var_y == 0 else 1 - torch.var(b_returns - b_values) / var_y
        stats = {"clipfrac": np.mean(clipfracs), "old_approx_kl": old_approx_kl, "explained_variance": explained_var}
        return torch.stack(losses).sum(), stats


def build():
    torch.manual_seed(1)
    return PPO()


def example_inputs():
    g = torch.Generator().manual_seed(2)
    calls = []
    for scale in (0.05, 0.6):
        n = 16
        calls.append((torch.randn(n, 6, generator=g), torch.randint(0, 3, (n,), generator=g), -1.1 + scale * torch.randn(n, generator=g),
                      torch.randn(n, generator=g), torch.randn(n, generator=g), torch.randn(n, generator=g)))
    return calls
