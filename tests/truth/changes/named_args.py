"""Functions with an argument that is called ``args``, each compiled for two sizes: options, a
number, an iterator, …"""

from types import SimpleNamespace

import torch


def scaled(x, args):
    return x * args.scale


def shifted(x, args):
    return x + args


def named(x, args):
    return x * args["scale"]


def listed(x, args):
    return x * len(args)


def defaulted(x, args=None):
    return x.sin()


def starred(*args):
    return args[0].cos()


given = [(SimpleNamespace(scale=2.0),), (3,), ({"scale": 2.0},), ([],), (), ()]
for function, options in zip(
    (scaled, shifted, named, listed, defaulted, starred), given, strict=True
):
    compiled = torch.compile(function, backend="eager")
    for size in (3, 4):
        compiled(torch.ones(size), *options)
