"""Lines that ask whether torch.compile is at work, as Dynamo meets them."""

import ast
import re
from pathlib import Path

import pytest

from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch.request import Measured
from tests.recorded import recorded

HELPERS = """\
import functools

import torch


def is_busy():
    return torch.compiler.is_compiling()


def is_really_busy():
    busy = is_busy() or torch.jit.is_tracing()
    return busy


def passed_on(function):
    @functools.wraps(function)
    def inner(*args):
        return function(*args)

    return inner


@passed_on
def is_wrapped():
    return torch.compiler.is_compiling()


is_short = lambda: torch.compiler.is_compiling() is not False


def does_more(x):
    if x.shape[0] == 3:
        return True
    if torch.compiler.is_compiling():
        return False
    return x.shape[1] == 3


def asks_if():
    if torch.compiler.is_dynamo_compiling():
        return True
    return False
"""
PROGRAM = """\
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import torch
import torch.compiler as tc
from torch.compiler import is_compiling
from torch.compiler import is_dynamo_compiling as asked

import asking_helpers


class Base(torch.nn.Module):
    def fast(self, x):
        return x + 1 if torch.compiler.is_compiling() else x + 2  # False → True


class Net(Base):
    @property
    def compiling(self):
        return is_compiling()

    def fast(self, x):
        return super().fast(x)

    def forward(self, x):
        if torch.compiler.is_compiling():  # False → True
            x = x + 1
        if not torch.compiler.is_compiling():  # True → False
            x = x + 1
        if is_compiling():  # False → True
            x = x + 1
        if tc.is_compiling():  # False → True
            x = x * 2
        if asked() and x.shape[0] == 2:  # False → None
            x = x * 2
        if asking_helpers.is_busy():  # False → True
            x = x * 2

        def inner(y, compiling=is_compiling()):  # False → True
            return y + 1 if compiling else y

        x = inner(x)
        if self.compiling:  # False → True
            x = x + 1
        x = sum([x * k for k in range(3) if k > 0 or is_compiling()])  # None → True
        if asking_helpers.asks_if():  # False → True
            x = x + 1
        if asking_helpers.is_really_busy():  # None → True
            x = x + 1
        if asking_helpers.does_more(x):
            x = x + 1
        if asking_helpers.is_wrapped():  # False → True
            x = x + 1
        if asking_helpers.is_short() and x.shape[0] == 2:  # None → None
            x = x + 1
        if not torch.jit.is_tracing():  # alike
            x = x + 5
        return self.fast(x)


def example_inputs():
    return (torch.ones(2, 3),)
"""


@pytest.mark.slow
def test_each_asking_line_has_its_value_in_eager_mode_and_compiled(tmp_path: Path) -> None:
    (tmp_path / "asking_helpers.py").write_text(HELPERS)
    folder = recorded(tmp_path, PROGRAM, Measured(), name="Net", backend="eager")
    branches = read_recording(folder).tracing_branches
    seen = {
        item.location.line: "alike" if item.is_answered_alike else f"{item.eager} → {item.compiled}"
        for item in branches
        if item.location.file.endswith("model.py")
    }
    marks = (re.search(r"  # (\w+ → \w+|alike)$", line) for line in PROGRAM.splitlines())
    assert seen == {number: mark[1] for number, mark in enumerate(marks, start=1) if mark}
    (more,) = (item for item in branches if not item.location.file.endswith("model.py"))
    assert (more.location.function, more.asks) == ("does_more", "torch.compiler.is_compiling")


class Noting(ast.NodeTransformer):
    """Has each condition of an ``if`` or a conditional expression noted with its line."""

    def noted(self, node):
        self.generic_visit(node)
        call = ast.parse(f"note({node.test.lineno}, 0)", mode="eval").body
        call.args[1] = node.test
        node.test = ast.copy_location(call, node.test)
        return ast.fix_missing_locations(node)

    visit_If = visit_IfExp = noted


@pytest.mark.slow
def test_plain_torch_has_these_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    (tmp_path / "asking_helpers.py").write_text(HELPERS)
    monkeypatch.syspath_prepend(tmp_path)
    notes: list[tuple[int, bool]] = []

    def note(line: int, condition: object) -> bool:
        notes.append((line, bool(condition)))
        return bool(condition)

    program = {"__file__": str(tmp_path / "model.py"), "__name__": "model", "note": note}
    exec(compile(Noting().visit(ast.parse(PROGRAM)), "model.py", "exec"), program)
    net, x = program["Net"](), torch.ones(2, 3)
    net(x)
    eager = dict(notes)
    notes.clear()
    torch.compile(net, backend="eager")(x)
    compiled = dict(notes)
    marks = {
        number: mark
        for number, line in enumerate(PROGRAM.splitlines(), start=1)
        if number in eager and (mark := re.search(r"  # (\w+) → (\w+)$", line))
    }
    assert len(marks) >= 11
    for number, mark in marks.items():
        for expected, values in zip(mark.groups(), (eager, compiled), strict=True):
            assert expected in ("None", str(values[number])), number


@pytest.mark.slow
def test_a_program_that_asks_nothing_has_no_such_line(tmp_path: Path) -> None:
    program = "import torch\n\n\ndef f(x):\n    return torch.relu(x)\n\n\ndef example_inputs():\n    return (torch.ones(3),)\n"
    folder = recorded(tmp_path, program, Measured(), backend="eager")
    assert read_recording(folder).tracing_branches == ()
