"""Coverage against operations counted by hand and by torch's dispatcher in eager mode."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

HEADER = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

def example_inputs():
    return [(torch.ones(2, 4),)]
"""
"""What programs begin with; some have other inputs."""

TRY = """
def region(x):
    y = x.sin().cos().tan()
    try:
        y = y + 1
        print("x")
        y = y * 2
    except ValueError:
        pass
    return helper(y)

def helper(y):
    return y.exp().log()
"""
"""Three operations before the ``try``, two in it, two in a helper: torch compiles the first and the last."""

FOUR_OF_SEVEN = """
def outside(y):
    try:
        y = y.sin()
        print("x")
        y = y.cos() * 2
    except ValueError:
        pass
    return y

def region(x):
    y = x.tan() + 1
    y = outside(y)
    return y.exp().log()
"""
"""Two operations before the call of a skipped function with three, two behind it."""

CHECKPOINT = """
def body(x):
    return x.sin().cos().tan()

def region(x):
    y = x * 2
    y = checkpoint(body, y, use_reentrant=False)
    return y + 1

def example_inputs():
    return [(torch.ones(4, requires_grad=True),)]
"""

AUTOCAST = """
linear = nn.Linear(4, 4)

def region(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = linear(x)
        print("x", y.dtype)
        y = linear(y)
    return y.float().sin()
"""

AUTOCAST_WHOLE = """
linear = nn.Linear(4, 4)

def region(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = linear(x)
    return y.float().sin()
"""

DISABLED = """
@torch.compiler.disable
def aside(x):
    return x.exp().log()

def region(x):
    return aside(x.sin()).cos()
"""

COMPILED_BY_ITSELF = """
@torch.compile(backend="aot_eager")
def inner(x):
    return (x * 3).cos()

@torch.compiler.disable
def aside(x):
    return inner(x)

def region(x):
    return aside(x.sin()).cos()
"""

NO_TENSOR_OPERATION = """
def region(x, name):
    return name.upper(), x.shape[0]

def example_inputs():
    return [(torch.ones(4), "a")]
"""

FLOAT_ARGUMENT = """
def region(x, factor):
    return x.sin() * factor, factor * 2

def example_inputs():
    return [(torch.ones(4), factor) for factor in (1.5, 2.5, 3.5)]
"""

ITEM = """
def region(x):
    peak = x.max().item()
    half = peak * 0.5
    print("x")
    return x / peak + half

def example_inputs():
    return [(torch.ones(4) * factor,) for factor in (1.0, 2.5, 3.5)]
"""

NUMPY = """
import numpy as np

def region(x):
    values = (x * 2).numpy() + 1
    values = np.interp(values, [0.0, 4.0], [0.0, 1.0])
    return torch.from_numpy(values) + 1
"""

USERS_OWN_CONVERSIONS = """
def region(x):
    y = x.sin()
    try:
        print("x")
        number = y.sum().item()
        z = torch.as_tensor([number, 2.0])
    except ValueError:
        pass
    return z
"""

DYNAMIC_SIZES = """
def region(x):
    n = x.shape[0] * 2 + 1
    return torch.split(x.sin(), 1)[0] + n

def example_inputs():
    return [(torch.ones(size),) for size in (4, 5, 6)]
"""


@pytest.fixture
def measure(explain_json: Callable[..., dict[str, Any]], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    def run(source: str, *options: str) -> dict[str, Any]:
        program = tmp_path / "program.py"
        program.write_text(HEADER + source)
        summary: dict[str, Any] = explain_json(f"{program}:region", *options)["summary"]
        detail = summary["coverage_detail"]
        counts = (detail["graph_ops"], detail["eager_ops"])
        share = counts[0] / sum(counts) if sum(counts) else None
        assert summary["coverage"] == share
        return detail

    return run


CASES = {
    "break in a try": (TRY, (5, 2), {"aten::add": 1, "aten::mul": 1}),
    "skipped function inside": (FOUR_OF_SEVEN, (4, 3), {"aten::sin": 1, "aten::cos": 1, "aten::mul": 1}),
    "disabled function": (DISABLED, (2, 2), {"aten::exp": 1, "aten::log": 1}),
    "compiled by the program itself": (COMPILED_BY_ITSELF, (4, 0), {}),
    "body of a higher-order operator": (CHECKPOINT, (5, 0), {}),
    "autocast around a break": (AUTOCAST, (4, 0), {}),
    "autocast in one graph": (AUTOCAST_WHOLE, (3, 0), {}),
    "no tensor operation": (NO_TENSOR_OPERATION, (0, 0), {}),
    # Dynamo hands the number over as a tensor and takes the result's number out of one.
    "dynamic number": (FLOAT_ARGUMENT, (2, 0), {}),
    # x.max() in a graph, .item() eagerly, x / peak + half in a graph.
    "number read from a tensor": (ITEM, (3, 1), {"aten::item": 1}),
    # .numpy() and torch.from_numpy() are view_as and as_tensor in the graphs; so is the addition between.
    "numpy": (NUMPY, (5, 0), {}),
    "conversions of the program's own": (
        USERS_OWN_CONVERSIONS,
        (0, 6),
        {"aten::sin": 1, "aten::sum": 1, "aten::item": 1, "aten::empty": 1, "aten::to": 1, "aten::lift_fresh": 1},
    ),
    # Arithmetic on sizes and picking from a tuple are no operations on tensors.
    "dynamic sizes": (DYNAMIC_SIZES, (3, 0), {}),
}


@pytest.mark.parametrize("name", CASES)
def test_operations_are_counted_as_a_person_would(measure: Callable[..., dict[str, Any]], name: str) -> None:
    source, counts, eager = CASES[name]

    detail = measure(source)

    assert (detail["graph_ops"], detail["eager_ops"], detail["eager_op_names"]) == (*counts, eager)
    assert detail["extra_compiles"] == 0


@pytest.mark.skipif(not shutil.which("c++"), reason="inductor needs a C++ compiler on a CPU")
def test_inductor_gives_the_same_share(measure: Callable[..., dict[str, Any]]) -> None:
    detail = measure(FOUR_OF_SEVEN, "--backend", "inductor")

    assert (detail["graph_ops"], detail["eager_ops"]) == (4, 3)


def test_the_backward_pass_is_not_counted(measure: Callable[..., dict[str, Any]]) -> None:
    detail = measure(CHECKPOINT, "--backward")

    assert (detail["graph_ops"], detail["eager_ops"]) == (5, 0)


def test_as_many_operations_as_eager_mode_makes(measure: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    """A skipped target's eager operations are those that the dispatcher sees without torch.compile."""
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    source = """
layers = [nn.Linear(4, 4) for _ in range(3)]

def region(x):
    for layer in layers:
        x = layer(x).relu()
        print("x")
    return x.detach()
"""
    names: list[str] = []

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            names.append(func._schema.name)
            return func(*args, **(kwargs or {}))

    scope: dict[str, Any] = {}
    exec(HEADER + source, scope)
    ((x,),) = scope["example_inputs"]()
    with torch.no_grad(), Names():
        scope["region"](x)

    detail = measure(source, "--no-grad")

    # A linear layer is one operation to a program; the dispatcher sees the two that it is made of.
    made_of = [name for name in names if name != "aten::t"]
    assert detail["eager_ops"] == len(made_of)
    assert detail["graph_ops"] == 0
