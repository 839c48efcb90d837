"""Exponential moving average of a model with warmup, as small research packages write it."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


def inplace_copy(tgt, src):
    tgt.data.copy_(src.data)


def inplace_lerp(tgt, src, weight):
    tgt.data.lerp_(src.data, weight)


class EMA(nn.Module):
    def __init__(self, model, beta=0.99, update_after_step=1, update_every=1, inv_gamma=1.0, power=2 / 3, min_value=0.0):
        super().__init__()
        self.beta = beta
        self.online_model = [model]
        self.ema_model = copy.deepcopy(model)
        self.ema_model.requires_grad_(False)
        self.update_every, self.update_after_step = update_every, update_after_step
        self.inv_gamma, self.power, self.min_value = inv_gamma, power, min_value
        self.register_buffer("initted", torch.tensor(False))
        self.register_buffer("step", torch.tensor(0))

    @property
    def model(self):
        return self.online_model[0]

    def get_current_decay(self):
        epoch = (self.step - self.update_after_step - 1).clamp(min=0.0)
        value = 1 - (1 + epoch / self.inv_gamma) ** -self.power
        if epoch.item() <= 0:
            return 0.0
        return value.clamp(min=self.min_value, max=self.beta).item()

    def update(self):
        step = self.step.item()
        self.step += 1
        if (step % self.update_every) != 0:
            return
        if step <= self.update_after_step:
            self.copy_params_from_model_to_ema()
            return
        if not self.initted.item():
            self.copy_params_from_model_to_ema()
            self.initted.data.copy_(torch.tensor(True))
        self.update_moving_average()

    def copy_params_from_model_to_ema(self):
        for ma, current in zip(self.ema_model.parameters(), self.model.parameters()):
            inplace_copy(ma, current)

    @torch.no_grad()
    def update_moving_average(self):
        current_decay = self.get_current_decay()
        for ma, current in zip(self.ema_model.parameters(), self.model.parameters()):
            inplace_lerp(ma, current, 1.0 - current_decay)


class ByolStep(nn.Module):
    def __init__(self, dim=12, projection=6):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(dim, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, projection))
        self.predictor = nn.Linear(projection, projection)
        self.ema = EMA(self.online)

    def forward(self, view_one, view_two):
        self.ema.update()
        pred_one = F.normalize(self.predictor(self.online(view_one)), dim=-1)
        pred_two = F.normalize(self.predictor(self.online(view_two)), dim=-1)
        with torch.no_grad():
            target_one = F.normalize(self.ema.ema_model(view_one), dim=-1)
            target_two = F.normalize(self.ema.ema_model(view_two), dim=-1)
        loss = (2 - 2 * (pred_one * target_two).sum(-1)) + (2 - 2 * (pred_two * target_one).sum(-1))
        return loss.mean()


def build():
    torch.manual_seed(0)
    return ByolStep()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    return [(torch.randn(4, 12, generator=g), torch.randn(4, 12, generator=g)) for _ in range(5)]
