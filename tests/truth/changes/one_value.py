"""Each function changes exactly one thing between two calls; the test holds what that is.

A script, so that it can be run with graphdoctor and without.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace

import torch
from torch import nn

LIMIT = 3
TABLE = {"a": 1.0}
CASES = []


def case(function):
    CASES.append(function)
    return function


def compiled(function, **options):
    return torch.compile(function, backend="eager", **options)


@case
def size():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4))
    f(torch.ones(6))


@case
def size_of_second_dim():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4, 5))
    f(torch.ones(4, 7))


@case
def size_one():
    f = compiled(lambda x: x.sin(), dynamic=True)
    f(torch.ones(4))
    f(torch.ones(1))


@case
def odd_size():
    @compiled
    def f(x):
        if x.shape[0] % 2 == 0:
            return x.sin()
        return x.cos()

    x = torch.ones(6)
    torch._dynamo.mark_dynamic(x, 0)
    f(x)
    x = torch.ones(7)
    torch._dynamo.mark_dynamic(x, 0)
    f(x)


@case
def size_over_threshold():
    @compiled
    def f(x):
        if x.shape[0] > 10:
            return x.sin()
        return x.cos()

    for length in (6, 17):
        x = torch.ones(length)
        torch._dynamo.mark_dynamic(x, 0)
        f(x)


@case
def sizes_equal():
    f = compiled(lambda x, y: x + y, dynamic=True)
    f(torch.ones(6), torch.ones(6))
    f(torch.ones(6), torch.ones(1))


@case
def sizes_no_longer_equal():
    @compiled
    def f(x, y):
        return x.sum() + y.sum() if x.shape[0] == y.shape[0] else x.sum()

    for sizes in ((6, 6), (6, 8)):
        tensors = [torch.ones(length) for length in sizes]
        for tensor in tensors:
            torch._dynamo.mark_dynamic(tensor, 0)
        f(*tensors)


@case
def number_float():
    f = compiled(lambda x, factor: x * factor)
    f(torch.ones(4), 1.5)
    f(torch.ones(4), 2.5)


@case
def number_int():
    f = compiled(lambda x, count: x * count)
    f(torch.ones(4), 3)
    f(torch.ones(4), 5)


@case
def number_to_float():
    f = compiled(lambda x, count: x * count)
    f(torch.ones(4), 3)
    f(torch.ones(4), 3.5)


@case
def flag():
    f = compiled(lambda x, flag: x.sin() if flag else x.cos())
    f(torch.ones(4), True)
    f(torch.ones(4), False)


@case
def none_to_tensor():
    f = compiled(lambda x, mask: x.sin() if mask is None else x * mask)
    f(torch.ones(4), None)
    f(torch.ones(4), torch.ones(4))


@case
def tensor_to_none():
    f = compiled(lambda x, mask: x.sin() if mask is None else x * mask)
    f(torch.ones(4), torch.ones(4))
    f(torch.ones(4), None)


@case
def none_to_number():
    f = compiled(lambda x, factor: x if factor is None else x * factor)
    f(torch.ones(4), None)
    f(torch.ones(4), 3)


@case
def text():
    f = compiled(lambda x, mode: x.sin() if mode == "sin" else x.cos())
    f(torch.ones(4), "sin")
    f(torch.ones(4), "cos")


@case
def list_length():
    f = compiled(lambda xs: sum(xs))  # noqa: PLW0108 - a function of Python's own is not compiled
    f([torch.ones(4), torch.ones(4)])
    f([torch.ones(4), torch.ones(4), torch.ones(4)])


@case
def list_to_tuple():
    f = compiled(lambda xs: xs[0] + xs[1])
    f([torch.ones(4), torch.zeros(4)])
    f((torch.ones(4), torch.zeros(4)))


@case
def number_in_list():
    f = compiled(lambda x, sizes: x * sizes[1])
    f(torch.ones(4), [2, 3])
    f(torch.ones(4), [2, 7])


@case
def dict_keys():
    f = compiled(lambda values: sum(values.values()))
    f({"a": torch.ones(4), "b": torch.ones(4)})
    f({"a": torch.ones(4), "c": torch.ones(4)})


@case
def dict_one_more_key():
    f = compiled(lambda values: sum(values.values()))
    f({"a": torch.ones(4)})
    f({"a": torch.ones(4), "b": torch.ones(4)})


@case
def number_in_dict():
    f = compiled(lambda x, options: x * options["scale"])
    f(torch.ones(4), {"scale": 2.5})
    f(torch.ones(4), {"scale": 3.5})


@case
def attribute_of_object():
    f = compiled(lambda x, options: x * options.scale)
    options = SimpleNamespace(scale=2.5)
    f(torch.ones(4), options)
    options.scale = 3.5
    f(torch.ones(4), options)


@case
def dtype():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4))
    f(torch.ones(4, dtype=torch.float64))


@case
def device():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4))
    f(torch.ones(4, device="meta"))


@case
def strides():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4, 5))
    f(torch.ones(5, 4).t())


@case
def rank():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4))
    f(torch.ones(4, 1))


@case
def requires_grad():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4))
    f(torch.ones(4, requires_grad=True))


@case
def requires_grad_no_more():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4, requires_grad=True))
    f(torch.ones(4))


@case
def parameter():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4, requires_grad=True))
    f(nn.Parameter(torch.ones(4)))


@case
def grad_mode():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4, requires_grad=True))
    with torch.no_grad():
        f(torch.ones(4, requires_grad=True))


@case
def grad_mode_on_again():
    f = compiled(lambda x: x.sin())
    with torch.no_grad():
        f(torch.ones(4))
    f(torch.ones(4))


@case
def inference_mode():
    f = compiled(lambda x: x.sin())
    x = torch.ones(4)
    f(x)
    with torch.inference_mode():
        f(x)


@case
def inference_tensor():
    f = compiled(lambda x: x.sin())
    with torch.inference_mode():
        made = torch.ones(4)
    with torch.no_grad():
        f(torch.ones(4))
        f(made)


@case
def autocast():
    f = compiled(lambda x: x @ x)
    f(torch.ones(4, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        f(torch.ones(4, 4))


@case
def autocast_dtype():
    f = compiled(lambda x: x @ x)
    for kind in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=kind):
            f(torch.ones(4, 4))


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout()
        self.count = 2
        self.scale = 1.5
        self.mode = "sum"

    def forward(self, x):
        return self.drop(x)


@case
def training():
    net = Dropping()
    f = compiled(net)
    f(torch.ones(4))
    net.eval()
    f(torch.ones(4))


class Counting(Dropping):
    def forward(self, x):
        return x.sin() * self.count


@case
def module_number():
    net = Counting()
    f = compiled(net)
    f(torch.ones(4))
    net.count = 3
    f(torch.ones(4))


class Scaling(Dropping):
    def forward(self, x):
        return x.sin() * self.scale


@case
def module_float():
    net = Scaling()
    f = compiled(net)
    f(torch.ones(4))
    net.scale = 2.5
    f(torch.ones(4))


class Choosing(Dropping):
    def forward(self, x):
        return x.sin() if self.mode == "sum" else x.cos()


@case
def module_text():
    net = Choosing()
    f = compiled(net)
    f(torch.ones(4))
    net.mode = "mean"
    f(torch.ones(4))


class Holding(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.ReLU()
        self.blocks = nn.ModuleList([nn.ReLU(), nn.ReLU()])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.act(x)


@case
def module_of_another_class():
    net = Holding()
    f = compiled(net)
    f(torch.ones(4))
    net.act = nn.GELU()
    f(torch.ones(4))


@case
def module_of_the_same_class():
    net = Holding()
    f = compiled(net)
    f(torch.ones(4))
    net.act = nn.ReLU()
    f(torch.ones(4))


@case
def one_more_block():
    net = Holding()
    f = compiled(net)
    f(torch.ones(4))
    net.blocks.append(nn.ReLU())
    f(torch.ones(4))


class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("mean", torch.zeros(4))
        self.bias = None

    def forward(self, x):
        x = x * self.weight - self.mean
        return x if self.bias is None else x + self.bias


@case
def buffer_of_another_dtype():
    net = Weighted()
    f = compiled(net)
    f(torch.ones(4))
    net.mean = torch.zeros(4, dtype=torch.float64)
    f(torch.ones(4))


@case
def frozen_parameter():
    net = Weighted()
    f = compiled(net)
    f(torch.ones(4))
    net.weight.requires_grad_(False)
    f(torch.ones(4))


@case
def attribute_none_to_tensor():
    net = Weighted()
    f = compiled(net)
    f(torch.ones(4))
    net.bias = torch.ones(4)
    f(torch.ones(4))


@case
def another_instance():
    @compiled
    def f(net, x):
        return net(x)

    f(nn.Linear(4, 4), torch.ones(1, 4))
    f(nn.Linear(4, 3), torch.ones(1, 4))


@case
def hook_added():
    net = Holding()
    f = compiled(net)
    f(torch.ones(4))
    net.act.register_forward_hook(lambda module, args, output: output + 1)
    f(torch.ones(4))


@case
def closure_variable():
    factor = 2.5

    @compiled
    def f(x):
        return x * factor

    f(torch.ones(4))
    factor = 3.5
    f(torch.ones(4))


@case
def closure_of_inner_function():
    factor = 2

    def scale(x):
        return x * factor

    @compiled
    def f(x):
        return scale(x)

    f(torch.ones(4))
    factor = 3
    f(torch.ones(4))


@case
def another_lambda():
    f = compiled(lambda x, activation: activation(x))
    f(torch.ones(4), lambda x: x.sin())
    f(torch.ones(4), lambda x: x.cos())


@case
def another_function():
    f = compiled(lambda x, activation: activation(x))
    f(torch.ones(4), torch.sin)
    f(torch.ones(4), torch.cos)


@case
def another_class():
    f = compiled(lambda x, kind: x.sin() if issubclass(kind, nn.ReLU) else x.cos())
    f(torch.ones(4), nn.ReLU)
    f(torch.ones(4), nn.GELU)


@case
def aliasing():
    f = compiled(lambda x, y: x + y)
    x, y = torch.ones(4), torch.ones(4)
    f(x, y)
    f(x, x)


@case
def aliasing_no_more():
    f = compiled(lambda x, y: x + y)
    x, y = torch.ones(4), torch.ones(4)
    f(x, x)
    f(x, y)


@case
def threads():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4))
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    f(torch.ones(4))
    torch.set_num_threads(before)


@case
def default_dtype():
    f = compiled(lambda x: x.sin())
    x = torch.ones(4)
    f(x)
    torch.set_default_dtype(torch.float64)
    f(x)
    torch.set_default_dtype(torch.float32)


@case
def default_device():
    f = compiled(lambda x: x.sin())
    x = torch.ones(4)
    f(x)
    torch.set_default_device("meta")
    f(x)
    torch.set_default_device(None)


@case
def determinism():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4))
    torch.use_deterministic_algorithms(True)
    f(torch.ones(4))
    torch.use_deterministic_algorithms(False)


@case
def global_number():
    global LIMIT  # noqa: PLW0603 - a global that changes is the case
    f = compiled(lambda x: x * LIMIT)
    f(torch.ones(4))
    LIMIT = 7
    f(torch.ones(4))


@case
def global_dict():
    f = compiled(lambda x: x * TABLE["a"])
    f(torch.ones(4))
    TABLE["a"] = 2.5
    f(torch.ones(4))


@case
def function_mode():
    f = compiled(lambda x: x.sin())
    x = torch.ones(4)
    f(x)

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Mode():
        f(x)


@case
def dynamic_marking():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4))
    x = torch.ones(4)
    torch._dynamo.mark_dynamic(x, 0)
    f(x)


@case
def tensor_subclass():
    f = compiled(lambda x: x.sin())
    f(torch.ones(4))

    class Named(torch.Tensor):
        pass

    f(torch.ones(4).as_subclass(Named))


@case
def enum_member():
    import enum

    class Mode(enum.Enum):
        SIN = 1
        COS = 2

    f = compiled(lambda x, mode: x.sin() if mode is Mode.SIN else x.cos())
    f(torch.ones(4), Mode.SIN)
    f(torch.ones(4), Mode.COS)


@case
def torch_dtype_argument():
    f = compiled(lambda x, kind: x.to(kind))
    f(torch.ones(4), torch.float64)
    f(torch.ones(4), torch.float16)


@case
def set_members():
    f = compiled(lambda x, names: x.sin() if "sin" in names else x.cos())
    f(torch.ones(4), {"sin"})
    f(torch.ones(4), {"cos"})


@case
def attribute_removed():
    @compiled
    def f(x, options):
        return x * options.scale if hasattr(options, "scale") else x

    class Options:
        pass

    options = Options()
    options.scale = 2
    f(torch.ones(4), options)
    del options.scale
    f(torch.ones(4), options)


@case
def argument_left_out():
    @compiled
    def f(x, **options):
        return x * options["scale"] if "scale" in options else x

    f(torch.ones(4), scale=2)
    f(torch.ones(4))


@case
def one_more_argument():
    @compiled
    def f(*tensors):
        return sum(tensors)

    f(torch.ones(4))
    f(torch.ones(4), torch.ones(4))


if __name__ == "__main__":
    wanted = sys.argv[1:]
    for function in CASES:
        if not wanted or function.__name__ in wanted:
            function()
