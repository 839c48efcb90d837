"""Modules whose ``forward`` a decorator wraps, compiled for two sizes: one has its decorator alone,
two share one."""

import functools

import torch


def shared(forward):
    @functools.wraps(forward)
    def wrapper(self, *args, **kwargs):
        return forward(self, *args, **kwargs)

    return wrapper


def alone(forward):
    @functools.wraps(forward)
    def wrapper(self, *args, **kwargs):
        return forward(self, *args, **kwargs)

    return wrapper


class Alone(torch.nn.Module):
    @alone
    def forward(self, x):
        return x.sin()


class First(torch.nn.Module):
    @shared
    def forward(self, x):
        return x.cos()


class Second(torch.nn.Module):
    @shared
    def forward(self, x):
        return x.exp()


for kind in (Alone, First, Second):
    module = torch.compile(kind(), backend="eager")
    for size in (3, 4):
        module(torch.ones(size))
