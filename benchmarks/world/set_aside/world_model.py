"""Recurrent state-space world model: observe, KL balance with free nats, imagination."""

import torch
import torch.distributions as td
import torch.nn as nn
import torch.nn.functional as F


class RSSM(nn.Module):
    def __init__(self, embed=12, deter=16, stoch=6, num_actions=3, min_std=0.1):
        super().__init__()
        self._stoch, self._deter, self._min_std = stoch, deter, min_std
        self._num_actions = num_actions
        self._img_in = nn.Sequential(nn.Linear(stoch + num_actions, deter), nn.ELU())
        self._cell = nn.GRUCell(deter, deter)
        self._img_out = nn.Linear(deter, 2 * stoch)
        self._obs_out = nn.Linear(deter + embed, 2 * stoch)

    def initial(self, batch_size):
        return {
            "mean": torch.zeros(batch_size, self._stoch),
            "std": torch.ones(batch_size, self._stoch),
            "stoch": torch.zeros(batch_size, self._stoch),
            "deter": torch.zeros(batch_size, self._deter),
        }

    def _stats(self, x):
        mean, std = torch.chunk(x, 2, -1)
        return mean, F.softplus(std) + self._min_std

    def img_step(self, prev_state, prev_action):
        x = self._img_in(torch.cat([prev_state["stoch"], prev_action], -1))
        deter = self._cell(x, prev_state["deter"])
        mean, std = self._stats(self._img_out(deter))
        return {"mean": mean, "std": std, "stoch": mean, "deter": deter}

    def obs_step(self, prev_state, prev_action, embed, is_first):
        # overwrite what came over from the last episode
        if torch.sum(is_first) > 0:
            keep = 1.0 - is_first.float()[:, None]
            prev_action = prev_action * keep
            init_state = self.initial(len(is_first))
            for key, val in prev_state.items():
                prev_state[key] = val * keep + init_state[key] * (1.0 - keep)
        prior = self.img_step(prev_state, prev_action)
        mean, std = self._stats(self._obs_out(torch.cat([prior["deter"], embed], -1)))
        return {"mean": mean, "std": std, "stoch": mean, "deter": prior["deter"]}, prior

    def get_dist(self, state):
        return td.Independent(td.Normal(state["mean"], state["std"]), 1)


class WorldModel(nn.Module):
    def __init__(self, obs=10, embed=12, horizon=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(obs, embed), nn.ELU())
        self.dynamics = RSSM(embed)
        self.decoder = nn.Linear(22, obs)
        self.reward = nn.Linear(22, 1)
        self.cont = nn.Linear(22, 1)
        nn.init.constant_(self.cont.bias, 0.5)
        self.actor = nn.Linear(22, 3)
        self.free, self.kl_scale, self.horizon = 1.0, 1.0, horizon
        self.metrics = {}

    def feat(self, state):
        return torch.cat([state["stoch"], state["deter"]], -1)

    def kl_loss(self, post, prior, balance=0.8):
        sg = lambda state: {k: v.detach() for k, v in state.items()}
        lhs = td.kl_divergence(self.dynamics.get_dist(sg(post)), self.dynamics.get_dist(prior))
        rhs = td.kl_divergence(self.dynamics.get_dist(post), self.dynamics.get_dist(sg(prior)))
        value = lhs.mean()
        if value < self.free:
            loss = torch.full_like(value, self.free)
        else:
            loss = balance * value + (1 - balance) * rhs.mean()
        return loss, value

    @torch.no_grad()
    def imagine(self, state):
        returns, alive = torch.zeros(state["deter"].shape[0]), torch.ones(state["deter"].shape[0])
        for step in range(self.horizon):
            action = F.one_hot(self.actor(self.feat(state)).argmax(-1), 3).float()
            state = self.dynamics.img_step(state, action)
            returns += alive * self.reward(self.feat(state)).squeeze(-1) * 0.99**step
            alive *= (torch.sigmoid(self.cont(self.feat(state)).squeeze(-1)) > 0.5).float()
            if not alive.any():
                break
        self.metrics["imag_steps"] = step + 1
        return returns

    def forward(self, obs, action, reward, is_first):
        embed = self.encoder(obs)
        state = self.dynamics.initial(obs.shape[0])
        posts, priors = [], []
        for t in range(obs.shape[1]):
            state, prior = self.dynamics.obs_step(state, action[:, t], embed[:, t], is_first[:, t])
            posts.append(state)
            priors.append(prior)
        post = {k: torch.stack([p[k] for p in posts], 1) for k in state}
        prior = {k: torch.stack([p[k] for p in priors], 1) for k in state}
        kl_loss, kl_value = self.kl_loss(post, prior)
        losses = {
            "image": F.mse_loss(self.decoder(self.feat(post)), obs),
            "reward": F.mse_loss(self.reward(self.feat(post)).squeeze(-1), reward),
        }
        model_loss = sum(losses.values()) + kl_loss * self.kl_scale
        self.metrics.update({f"{name}_loss": loss.item() for name, loss in losses.items()})
        self.metrics["kl"] = kl_value.item()
        returns = self.imagine({k: v[:, -1].detach() for k, v in post.items()})
        return model_loss, returns, dict(self.metrics)


def build():
    torch.manual_seed(0)
    return WorldModel()


def example_inputs():
    g = torch.Generator().manual_seed(11)
    calls = []
    for b, t, scale, firsts in ((3, 4, 1.0, [0]), (3, 4, 8.0, [0, 2]), (2, 5, 30.0, [])):
        is_first = torch.zeros(b, t)
        is_first[: b - 1, firsts] = 1.0
        action = F.one_hot(torch.randint(0, 3, (b, t), generator=g), 3).float()
        obs = torch.randn(b, t, 10, generator=g) * scale
        calls.append((obs, action, torch.randn(b, t, generator=g), is_first))
    return calls
