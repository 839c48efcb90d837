"""Each case changes exactly one thing between two calls; the test holds what that is.

A script, so that it can be run with graphdoctor and without.
"""

from __future__ import annotations

import enum
import sys
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import torch
from torch import nn, ones

LIMIT = 3
TABLE = {"a": 1.0}
CASES = {}


class Mode(enum.Enum):
    SIN = 1
    COS = 2


def compiled(function, **options):
    return torch.compile(function, backend="eager", **options)


def case(what=None):
    """A function that is given what it calls, compiled; of a class of modules an instance, too."""

    def add(function):
        def run():
            if what is None:
                function()
            elif isinstance(what, type):
                net = what()
                function(net, compiled(net))
            else:
                function(compiled(what))

        CASES[function.__name__] = run
        return function

    return add


def dynamic(length):
    x = ones(length)
    torch._dynamo.mark_dynamic(x, 0)
    return x


@contextmanager
def setting(change, value, before):
    change(value)
    yield
    change(before)


class PassingOn(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Named(torch.Tensor):
    pass


X, Y = ones(4), ones(4)
THREADS = torch.get_num_threads()
TWO_CALLS = {
    "odd_size": (
        lambda x: x.sin() if x.shape[0] % 2 == 0 else x.cos(),
        (dynamic(6),),
        (dynamic(7),),
    ),
    "size_over_threshold": (
        lambda x: x.sin() if x.shape[0] > 10 else x.cos(),
        (dynamic(6),),
        (dynamic(17),),
    ),
    "sizes_no_longer_equal": (
        lambda x, y: x.sum() + y.sum() if x.shape[0] == y.shape[0] else x.sum(),
        (dynamic(6), dynamic(6)),
        (dynamic(6), dynamic(8)),
    ),
    "dynamic_marking": (lambda x: x.sin(), (ones(4),), (dynamic(4),)),
    "attribute_of_object": (
        lambda x, options: x * options.scale,
        (X, SimpleNamespace(scale=2.5)),
        (X, SimpleNamespace(scale=3.5)),
    ),
    "attribute_removed": (
        lambda x, options: x * options.scale if hasattr(options, "scale") else x,
        (X, SimpleNamespace(scale=2)),
        (X, SimpleNamespace()),
    ),
    "aliasing": (lambda x, y: x + y, (X, Y), (X, X)),
    "aliasing_no_more": (lambda x, y: x + y, (X, X), (X, Y)),
    "tensor_subclass": (lambda x: x.sin(), (ones(4),), (ones(4).as_subclass(Named),)),
    "size": (lambda x: x.sin(), (ones(4),), (ones(6),)),
    "size_of_second_dim": (lambda x: x.sin(), (ones(4, 5),), (ones(4, 7),)),
    "number_float": (lambda x, factor: x * factor, (ones(4), 1.5), (ones(4), 2.5)),
    "number_int": (lambda x, count: x * count, (ones(4), 3), (ones(4), 5)),
    "number_to_float": (lambda x, count: x * count, (ones(4), 3), (ones(4), 3.5)),
    "flag": (lambda x, flag: x.sin() if flag else x.cos(), (ones(4), True), (ones(4), False)),
    "none_to_tensor": (
        lambda x, mask: x.sin() if mask is None else x * mask,
        (ones(4), None),
        (ones(4), ones(4)),
    ),
    "tensor_to_none": (
        lambda x, mask: x.sin() if mask is None else x * mask,
        (ones(4), ones(4)),
        (ones(4), None),
    ),
    "none_to_number": (
        lambda x, factor: x if factor is None else x * factor,
        (ones(4), None),
        (ones(4), 3),
    ),
    "text": (
        lambda x, mode: x.sin() if mode == "sin" else x.cos(),
        (ones(4), "sin"),
        (ones(4), "cos"),
    ),
    "list_length": (
        lambda xs: xs[0] + sum(xs[1:]),
        ([ones(4), ones(4)],),
        ([ones(4), ones(4), ones(4)],),
    ),
    "list_to_tuple": (
        lambda xs: xs[0] + xs[1],
        ([ones(4), torch.zeros(4)],),
        ((ones(4), torch.zeros(4)),),
    ),
    "list_to_none": (
        lambda xs, x: x if xs is None else x + len(xs),
        ([1, 2], ones(4)),
        (None, ones(4)),
    ),
    "number_in_list": (lambda x, sizes: x * sizes[1], (ones(4), [2, 3]), (ones(4), [2, 7])),
    "dict_keys": (
        lambda values: sum(values.values()),
        ({"a": ones(4), "b": ones(4)},),
        ({"a": ones(4), "c": ones(4)},),
    ),
    "dict_one_more_key": (
        lambda values: sum(values.values()),
        ({"a": ones(4)},),
        ({"a": ones(4), "b": ones(4)},),
    ),
    "number_in_dict": (
        lambda x, options: x * options["scale"],
        (ones(4), {"scale": 2.5}),
        (ones(4), {"scale": 3.5}),
    ),
    "dtype": (lambda x: x.sin(), (ones(4),), (ones(4, dtype=torch.float64),)),
    "device": (lambda x: x.sin(), (ones(4),), (ones(4, device="meta"),)),
    "strides": (lambda x: x.sin(), (ones(4, 5),), (ones(5, 4).t(),)),
    "rank": (lambda x: x.sin(), (ones(4),), (ones(4, 1),)),
    "requires_grad": (lambda x: x.sin(), (ones(4),), (ones(4, requires_grad=True),)),
    "requires_grad_no_more": (lambda x: x.sin(), (ones(4, requires_grad=True),), (ones(4),)),
    "parameter": (lambda x: x.sin(), (ones(4, requires_grad=True),), (nn.Parameter(ones(4)),)),
    "another_lambda": (
        lambda x, activation: activation(x),
        (ones(4), lambda x: x.sin()),
        (ones(4), lambda x: x.cos()),
    ),
    "another_function": (
        lambda x, activation: activation(x),
        (ones(4), torch.sin),
        (ones(4), torch.cos),
    ),
    "another_class": (
        lambda x, kind: x.sin() if issubclass(kind, nn.ReLU) else x.cos(),
        (ones(4), nn.ReLU),
        (ones(4), nn.GELU),
    ),
    "torch_dtype_argument": (
        lambda x, kind: x.to(kind),
        (ones(4), torch.float64),
        (ones(4), torch.float16),
    ),
    "another_instance": (
        lambda net, x: net(x),
        (nn.Linear(4, 4), ones(1, 4)),
        (nn.Linear(4, 3), ones(1, 4)),
    ),
    "enum_member": (
        lambda x, mode: x.sin() if mode is Mode.SIN else x.cos(),
        (ones(4), Mode.SIN),
        (ones(4), Mode.COS),
    ),
    "one_more_argument": (lambda *tensors: sum(tensors), (ones(4),), (ones(4), ones(4))),
    "set_members": (
        lambda x, names: x.sin() if "sin" in names else x.cos(),
        (ones(4), {"sin"}),
        (ones(4), {"cos"}),
    ),
}
"""What is compiled, and the arguments of its calls."""

DYNAMIC = {
    "size_one": (lambda x: x.sin(), (ones(4),), (ones(1),)),
    "sizes_equal": (lambda x, y: x + y, (ones(6), ones(6)), (ones(6), ones(1))),
}
"""The same with ``dynamic=True``."""

BFLOAT16 = torch.autocast("cpu", dtype=torch.bfloat16)
CONTEXTS = {
    "grad_mode": (lambda x: x.sin(), ones(4, requires_grad=True), nullcontext(), torch.no_grad()),
    "grad_mode_on_again": (lambda x: x.sin(), X, torch.no_grad(), nullcontext()),
    "inference_mode": (lambda x: x.sin(), X, nullcontext(), torch.inference_mode()),
    "autocast": (lambda x: x @ x, ones(4, 4), nullcontext(), BFLOAT16),
    "autocast_dtype": (
        lambda x: x @ x,
        ones(4, 4),
        BFLOAT16,
        torch.autocast("cpu", dtype=torch.float16),
    ),
    "function_mode": (lambda x: x.sin(), X, nullcontext(), PassingOn()),
    "threads": (
        lambda x: x.sin(),
        X,
        nullcontext(),
        setting(torch.set_num_threads, THREADS + 1, THREADS),
    ),
    "default_dtype": (
        lambda x: x.sin(),
        X,
        nullcontext(),
        setting(torch.set_default_dtype, torch.float64, torch.float32),
    ),
    "default_device": (
        lambda x: x.sin(),
        X,
        nullcontext(),
        setting(torch.set_default_device, "meta", None),
    ),
    "determinism": (
        lambda x: x.sin(),
        X,
        nullcontext(),
        setting(torch.use_deterministic_algorithms, True, False),
    ),
    "global_number": (
        lambda x: x * LIMIT,
        X,
        nullcontext(),
        setting(lambda value: globals().update(LIMIT=value), 7, 3),
    ),
    "global_dict": (
        lambda x: x * TABLE["a"],
        X,
        nullcontext(),
        setting(lambda value: TABLE.update(a=value), 2.5, 1.0),
    ),
}
"""What is compiled, its argument, and what its calls are made in."""


@case(lambda x: x.sin())
def inference_tensor(f):
    with torch.inference_mode():
        made = ones(4)
    with torch.no_grad():
        f(ones(4))
        f(made)


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout()
        self.count = 2
        self.scale = 1.5
        self.mode = "sum"

    def forward(self, x):
        return self.drop(x)


@case(Dropping)
def training(net, f):
    f(ones(4))
    net.eval()
    f(ones(4))


class Counting(Dropping):
    def forward(self, x):
        return x.sin() * self.count


@case(Counting)
def module_number(net, f):
    f(ones(4))
    net.count = 3
    f(ones(4))


class Scaling(Dropping):
    def forward(self, x):
        return x.sin() * self.scale


@case(Scaling)
def module_float(net, f):
    f(ones(4))
    net.scale = 2.5
    f(ones(4))


class Choosing(Dropping):
    def forward(self, x):
        return x.sin() if self.mode == "sum" else x.cos()


@case(Choosing)
def module_text(net, f):
    f(ones(4))
    net.mode = "mean"
    f(ones(4))


class Holding(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()
        self.blocks = nn.ModuleList([nn.ReLU(), nn.ReLU()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.act(x)


@case(Holding)
def module_of_another_class(net, f):
    f(ones(4))
    net.act = nn.GELU()
    f(ones(4))


@case(Holding)
def module_of_the_same_class(net, f):
    f(ones(4))
    net.act = nn.ReLU()
    f(ones(4))


@case(Holding)
def one_more_block(net, f):
    f(ones(4))
    net.blocks.append(nn.ReLU())
    f(ones(4))


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(ones(4))
        self.register_buffer("mean", torch.zeros(4))
        self.bias = None

    def forward(self, x):
        x = x * self.weight - self.mean
        return x if self.bias is None else x + self.bias


@case(Weighted)
def buffer_of_another_dtype(net, f):
    f(ones(4))
    net.mean = torch.zeros(4, dtype=torch.float64)
    f(ones(4))


@case(Weighted)
def frozen_parameter(net, f):
    f(ones(4))
    net.weight.requires_grad_(False)
    f(ones(4))


@case(Weighted)
def attribute_none_to_tensor(net, f):
    f(ones(4))
    net.bias = ones(4)
    f(ones(4))


@case(Holding)
def hook_added(net, f):
    f(ones(4))
    net.act.register_forward_hook(lambda module, args, output: output + 1)
    f(ones(4))


@case()
def closure_variable():
    factor = 2.5

    @compiled
    def f(x):
        return x * factor

    f(ones(4))
    factor = 3.5
    f(ones(4))


@case()
def closure_of_inner_function():
    factor = 2

    def scale(x):
        return x * factor

    @compiled
    def f(x):
        return scale(x)

    f(ones(4))
    factor = 3
    f(ones(4))


@case(lambda x, **options: x * options["scale"] if "scale" in options else x)
def argument_left_out(f):
    f(ones(4), scale=2)
    f(ones(4))


if __name__ == "__main__":
    wanted = sys.argv[1:]
    for name, (function, *calls) in {**TWO_CALLS, **DYNAMIC}.items():
        f = compiled(function, dynamic=name in DYNAMIC or None)
        for arguments in calls if not wanted or name in wanted else ():
            f(*arguments)
    for name, (function, argument, *contexts) in CONTEXTS.items():
        f = compiled(function)
        for context in contexts if not wanted or name in wanted else ():
            with context:
                f(argument)
    for name, run in CASES.items():
        if not wanted or name in wanted:
            run()
