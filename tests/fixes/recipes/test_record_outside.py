"""Lines that only record or report, moved behind what computes: results, records and output stay
the same."""

from __future__ import annotations

import builtins
import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphdoctor.fixes.recipe import Place
from graphdoctor.fixes.recipes.outside import record_outside
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile
from tests.fixes.recipes.places import finding

HEAD = '''\
import torch


class Net:
    def forward(self, x, scale=2.0, *rest, flag=True, **more):
        """Computes."""
'''
FIRST = ("h = x * scale", "y = x", "count = 0", "label = ''")
LINES = (
    "x = x + 1",
    "x += 1",
    "h = h.abs() * 0.5",
    "y = h + x",
    "y.add_(h)",
    "if flag:\n    h = h + 1",
    "if h > 3:\n    h = h - 1",
    "for i in range(2):\n    x = x + h",
    "for i in range(2):\n    h = h + i\n    print(i, h.item())",
    "self.average = self.average + h.item()",
    "self.average = h * 0.5",
    "x = x + self.average",
    "x = x + count",
    "x = self.twice(x)",
    "self.history.append(h.item())",
    "self.history.append(float(h + x))  # both",
    "print(f'{x.mean():.2f} of {x}', scale)",
    "print(self.average, len(self.history))",
    "# Large?\nif h.max() > 2:\n    print('big', h.item())",
    "if h.max() > 2:\n    print('both', x.item())\n    h = h - 1",
    "if h.max() > 2:\n    h = h - 1\n    print('late', h.item())",
    "if h.item() > self.best:\n    self.best = h.item()",
    "count = int(x.sum())",
    "count += int(h.sum())",
    "self.kept.append(count)",
    "label = f'{count} of {x.item()}'",
    "self.stats['x'] = x.item()",
    "if h.isnan().any():\n    raise ValueError(f'{h} {len(self.history)}')",
    "assert x.isfinite().all(), x",
    "if len(self.history) % 2:\n    print(self.history[-1])",
)
RESULTS = (
    "return x",
    "return x, h",
    "return x * h",
    "return {'x': x.abs(), 'label': label}",
    "return self.twice(y)",
    "",
)


class Value:
    """A tensor as far as these lines need one: in-place operations change it."""

    def __init__(self, number: float) -> None:
        self.number = number

    def item(self) -> float:
        return self.number

    def same(self) -> Value:
        return Value(self.number)

    mean = sum = max = detach = any = all = same

    def abs(self) -> Value:
        return Value(abs(self.number))

    def isnan(self) -> Value:
        return Value(0.0)

    def isfinite(self) -> Value:
        return Value(1.0)

    def add_(self, other: Any) -> Value:
        self.number += float(other)
        return self

    __iadd__ = add_

    def __add__(self, other: Any) -> Value:
        return Value(self.number + float(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Value:
        return Value(self.number - float(other))

    def __mul__(self, other: Any) -> Value:
        return Value(self.number * float(other))

    def __gt__(self, other: Any) -> Value:
        return Value(float(self.number > float(other)))

    def __float__(self) -> float:
        return self.number

    def __int__(self) -> int:
        return int(self.number)

    def __bool__(self) -> bool:
        return bool(self.number)

    def __format__(self, spec: str) -> str:
        return format(self.number, spec)

    def __repr__(self) -> str:
        return f"Value({self.number})"

    __str__ = __repr__


def disable(recursive: bool = True) -> Any:
    return lambda function: function


TORCH = SimpleNamespace(compiler=SimpleNamespace(disable=disable))


def outcome(text: str) -> Any:
    """Return the results, the state and the output of two calls."""
    printed: list[str] = []

    def fake_print(*values: Any) -> None:
        printed.append(" ".join(map(str, values)))

    names: dict[str, Any] = {
        "__builtins__": {**vars(builtins), "print": fake_print, "__import__": lambda *_: TORCH}
    }
    exec(text, names)
    net = names["Net"]()
    net.history, net.kept, net.stats, net.best, net.average = [], [], {}, 0.0, 0.5
    net.twice = lambda value: value * 2
    results = []
    for number in (1.5, -0.25):
        try:
            results.append(repr(net.forward(Value(number), 3.0, 1, flag=number > 0, other=2)))
        except Exception as error:  # noqa: BLE001 - whatever they raise must be the same
            results.append(repr(error))
    return (
        results,
        {name: repr(value) for name, value in vars(net).items() if name != "twice"},
        printed,
    )


def program(lines: list[str], result: str) -> str:
    body = [part for line in [*FIRST, *lines, result] for part in line.split("\n") if line]
    return HEAD + "".join(f"        {part}\n" for part in body)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=7), st.sampled_from(RESULTS))
def test_every_line_runs_with_the_values_that_it_had(lines, result):
    text = program(lines, result)
    source = SourceFile.parse(Path("model.py"), text.encode())
    expected = None
    for number, line in enumerate(text.split("\n")[6:], start=7):
        if line.strip().startswith("#") or not line:
            continue
        with contextlib.suppress(DeclinedError):
            edited = record_outside.edit(Place(source, finding("GD103", number))).content.decode()
            expected = expected or outcome(text)
            assert outcome(edited) == expected, edited


def test_a_function_that_another_one_calls_is_left():
    source = SourceFile.parse(
        Path("model.py"), HEAD.encode() + b"        print(x)\n        return x.sin()\n"
    )
    inner = finding("GD101", 7)
    place = Place(source, inner.replace(user_stack=inner.user_stack * 2))
    with pytest.raises(DeclinedError, match="isn't in the function that"):
        record_outside.edit(place)
