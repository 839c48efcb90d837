"""Modules whose ``forward`` decorators wrap in several ways, each compiled for two sizes of its
second argument."""

import functools

import torch


def decorator(make):
    """A decorator of its own for each module: what two share is called by its own name."""

    def decorate(forward):
        return functools.wraps(forward)(make(forward))

    return decorate


def forward(self, x, y):
    return x.sin() + y.sum()


def handed_on(forward):
    def wrapper(self, *args, **kwargs):
        return forward(self, *args, **kwargs)

    return wrapper


def with_self_among_them(forward):
    def wrapper(*args, **kwargs):
        return forward(*args, **kwargs)

    return wrapper


def after_one(forward):
    def wrapper(self, first, *args, **kwargs):
        return forward(self, first, *args, **kwargs)

    return wrapper


def by_keyword(forward):
    def wrapper(self, *args, **kwargs):
        return forward(self, *args, **kwargs)

    return wrapper


def several(forward):
    def wrapper(self, *args, **kwargs):
        return forward(self, *args, **kwargs)

    return wrapper


def shifted(forward):
    def wrapper(self, *args, **kwargs):
        return forward(self, 1.0, *args, **kwargs)

    return wrapper


def set_anew(forward):
    def wrapper(self, *args, **kwargs):
        args = args[::-1]
        return forward(self, *args, **kwargs)

    return wrapper


def twice(forward):
    def wrapper(self, *args, **kwargs):
        return forward(self, *args, **kwargs)

    return wrapper


def with_scale(self, scale, x, y):
    return scale * x.sin() + y.sum()


def of_many(self, *inputs):
    return inputs[0].sin() + inputs[1].sum()


PROGRAMS = {
    handed_on: forward,
    with_self_among_them: forward,
    after_one: forward,
    by_keyword: forward,
    several: of_many,
    shifted: with_scale,
    set_anew: forward,
    twice: decorator(shifted)(with_scale),
}
for make, inner in PROGRAMS.items():
    kind = type("Net", (torch.nn.Module,), {"forward": decorator(make)(inner)})
    module = torch.compile(kind(), backend="eager")
    for size in (3, 4):
        x, y = torch.ones(2), torch.ones(size)
        if make is by_keyword:
            module(x=x, y=y)
        else:
            module(x, y)
