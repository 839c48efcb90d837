"""Probabilistic forecasting: mean scaling, reversible instance norm, quantile loss and a masked metric."""
import warnings

import torch
import torch.nn as nn


class MeanScaler(nn.Module):
    def __init__(self, minimum_scale=1e-10, default_scale=None):
        super().__init__()
        self.minimum_scale, self.default_scale = minimum_scale, default_scale

    def forward(self, data, observed):
        ts_sum = (data * observed).abs().sum(1, keepdim=True)
        num_observed = observed.sum(1, keepdim=True)
        scale = ts_sum / torch.clamp(num_observed, min=1)
        if self.default_scale is None:
            batch_sum = ts_sum.sum(dim=0)
            batch_observations = torch.clamp(num_observed.sum(0), min=1)
            default_scale = torch.squeeze(batch_sum / batch_observations)
        else:
            default_scale = self.default_scale * torch.ones_like(scale)
        scale = torch.where(num_observed > 0, scale, default_scale)
        if scale.min() < self.minimum_scale:
            scale = torch.clamp(scale, min=self.minimum_scale)
        return data / scale, scale


class RevIN(nn.Module):
    def __init__(self, num_features, eps=1e-5):
        super().__init__()
        self.eps = eps
        self.affine_weight = nn.Parameter(torch.ones(num_features))
        self.affine_bias = nn.Parameter(torch.zeros(num_features))

    def forward(self, x, mode):
        if mode == "norm":
            self.mean = x.mean(1, keepdim=True).detach()
            self.stdev = torch.sqrt(torch.var(x, dim=1, keepdim=True, unbiased=False) + self.eps).detach()
            return (x - self.mean) / self.stdev * self.affine_weight + self.affine_bias
        if mode == "denorm":
            return (x - self.affine_bias) / (self.affine_weight + self.eps**2) * self.stdev + self.mean
        raise NotImplementedError


class MovingAvg(nn.Module):
    def __init__(self, kernel_size=5):
        super().__init__()
        self.kernel_size = kernel_size
        self.avg = nn.AvgPool1d(kernel_size=kernel_size, stride=1, padding=0)

    def forward(self, x):
        front = x[:, 0:1, :].repeat(1, (self.kernel_size - 1) // 2, 1)
        end = x[:, -1:, :].repeat(1, (self.kernel_size - 1) // 2, 1)
        x = torch.cat([front, x, end], dim=1)
        return self.avg(x.permute(0, 2, 1)).permute(0, 2, 1)


class DLinear(nn.Module):
    def __init__(self, seq_len=24, pred_len=6, channels=1, quantiles=(0.1, 0.5, 0.9)):
        super().__init__()
        self.scaler, self.revin = MeanScaler(), RevIN(channels)
        self.decomposition = MovingAvg()
        self.seasonal = nn.Linear(seq_len, pred_len)
        self.trend = nn.Linear(seq_len, pred_len)
        self.spread = nn.Parameter(torch.linspace(-0.1, 0.1, len(quantiles)))
        self.register_buffer("q", torch.tensor(quantiles))
        self.warned = False

    def forward(self, past, observed, future, future_observed):
        if not self.warned and (past == 0).all(dim=1).any():
            warnings.warn("a series is constant zero")
            self.warned = True
        x, scale = self.scaler(past, observed)
        x = self.revin(x, "norm")
        trend = self.decomposition(x)
        out = self.seasonal((x - trend).transpose(1, 2)) + self.trend(trend.transpose(1, 2))
        out = self.revin(out.transpose(1, 2), "denorm") * scale
        pred = out + self.spread * scale
        err = future - pred
        loss = torch.maximum(self.q * err, (self.q - 1) * err) * future_observed
        loss = loss.sum() / future_observed.sum().clamp(min=1)
        mape_mask = (future.abs() > 1e-6) & (future_observed > 0)
        mape = 0.0
        if mape_mask.sum() > 0:
            mape = ((future - out).abs() / future.abs())[mape_mask].mean().item()
        return loss, pred, mape


def build():
    torch.manual_seed(0)
    return DLinear()


def example_inputs():
    g = torch.Generator().manual_seed(0)
    calls = []
    for level in (3.0, 0.7):
        calls.append((level * torch.rand(4, 24, 1, generator=g) + 0.1, (torch.rand(4, 24, 1, generator=g) > 0.1).float(),
                      level * torch.rand(4, 6, 1, generator=g), (torch.rand(4, 6, 1, generator=g) > 0.1).float()))
    return calls
