"""Graphs that are reused though a value changed that no guard holds, and what a replay compares
besides values."""

from __future__ import annotations

import pytest

from graphdoctor.facts.recording import Recording
from graphdoctor.facts.spec import RunSpec
from graphdoctor.trials.launch.child import Setup, probe_command
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.launch.warm import WarmProbes
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import EAGER, Replays
from graphdoctor.trials.stale import stale_value
from tests.conftest import probe_python

pytestmark = pytest.mark.slow

FILTERED = '@torch.compile(backend="aot_eager", options={{"guard_filter_fn": torch.compiler.{}}})\n'
CALLS = """
def example_inputs():
    for value in (2.0, 3.0):
        change(value)
        yield (torch.ones(3),)
"""
EAGERLY = """
@torch.compiler.disable(recursive=False)
def apart(x):
    return inner(x)

def model(x):
    return apart(x) + 1
"""
"""Compiled as a part of the target it would have all guards."""

IN_DICT = 'STATE = {"scale": 2.0}\n\ndef change(value):\n    STATE["scale"] = value\n\n'
SCALED = """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 2.0

    {}
    def forward(self, x):
        return x * self.scale

inner = Net()

def change(value):
    inner.scale = value
"""
CASES = {
    "a global whose guard is filtered out": (
        "SCALE = 2.0\n\ndef change(value):\n    global SCALE\n    SCALE = value\n\n"
        + FILTERED.format("skip_guard_on_globals_unsafe")
        + "def inner(x):\n    return x * SCALE\n"
        + EAGERLY,
        ("SCALE", "2.0", "3.0", "return x * SCALE"),
    ),
    "a number in a global container, beside one that no graph has": (
        IN_DICT.replace("= value", '= value\n    STATE["count"] = 1 + value')
        + FILTERED.format("keep_tensor_guards_unsafe")
        + 'def inner(x):\n    return x * STATE["scale"]\n'
        + EAGERLY,
        ("STATE['scale']", "2.0", "3.0", 'return x * STATE["scale"]'),
    ),
    "an attribute of a module": (
        SCALED.format(FILTERED.format("skip_guard_on_all_nn_modules_unsafe").strip()) + EAGERLY,
        ("inner.scale", "2.0", "3.0", "return x * self.scale"),
    ),
    "a variable of the function around": (
        "def made():\n    scale = 2.0\n\n    def change(value):\n        nonlocal scale\n"
        "        scale = value\n\n    "
        + FILTERED.format("keep_tensor_guards_unsafe")
        + "    def model(x):\n        return x * scale\n\n    return model, change\n\n"
        "inner, change = made()\n" + EAGERLY,
        ("scale", "2.0", "3.0", "return x * scale"),
    ),
    "what a constant result was made of": (
        IN_DICT + "@torch.compiler.assume_constant_result\ndef scale():\n"
        '    return STATE["scale"]\n\ndef model(x):\n    return x * scale()\n',
        ("STATE['scale']", "2.0", "3.0", "return x * scale()"),
    ),
    "what a function that is allowed in the graph reads": (
        IN_DICT + "@torch._dynamo.allow_in_graph\ndef scaled(x):\n"
        '    return x * STATE["scale"]\n\ndef model(x):\n    return scaled(x) + 1\n',
        ("STATE['scale']", "2.0", "3.0", None),
    ),
}


@pytest.fixture(scope="module")
def setup():
    warm = WarmProbes(probe_command(str(probe_python())))
    yield Setup(python=str(probe_python()), warm=warm)
    warm.close()


def replayed(folder, setup, source, *, backend="aot_eager") -> tuple[Recording, Recording]:
    """The calls of a program with torch.compile, and with each compiled anew."""
    model = folder / "model.py"
    model.write_text(f"import torch\n\n{source}")
    request = Request.of(RunSpec(target=f"{model}:model", backend=backend))
    with Replays(request, folder / "replays", setup) as replays:
        replays.replay(Program(), EAGER, is_eager=True, has_forms=True)
        reused, fresh = (
            replays.replay(
                Program(),
                f"fresh-{is_fresh}",
                references={EAGER: EAGER},
                has_forms=True,
                is_fresh_compiled=is_fresh,
            )
            for is_fresh in (False, True)
        )
    return reused, fresh


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_stale_value_is_named(case, tmp_path, setup):
    source, (expression, before, after, text) = case
    reused, fresh = replayed(tmp_path, setup, source + CALLS)
    [difference] = results_of(reused)
    assert not results_of(fresh)
    stale = stale_value(reused, fresh, difference, difference.call)
    assert (stale.call, stale.expression, stale.before, stale.after) == (
        2,
        expression,
        before,
        after,
    )
    lines = (tmp_path / "model.py").read_text().splitlines()
    place = stale.location
    assert (place and lines[(place.line or 1) - 1].strip()) == text


def test_value_with_a_guard_is_not_stale(tmp_path, setup):
    source = IN_DICT + 'def model(x):\n    return x * STATE["scale"]\n'
    reused, fresh = replayed(tmp_path, setup, source + CALLS)
    assert not results_of(reused)
    assert fresh.replay.changing == {"STATE['scale']": ("2.0", "3.0")}


def results_of(recording):
    return recording.replay.compared[EAGER].results


RAISING = """
def model(x, k):
    if k == 1:
        raise ValueError(f"refuses {k}")
    return x * (k + 1)

def example_inputs():
    return [(torch.ones(2, 3), k) for k in range(3)]
"""


def test_same_exception_in_the_same_call_is_no_difference(tmp_path, setup):
    reused, _ = replayed(tmp_path, setup, RAISING, backend="eager")
    compared = reused.replay.compared[EAGER]
    assert (reused.exit.reason, compared.differences) == ("finished", ())
    assert {("outputs", 1), ("exceptions", 2)} <= {*compared.counts}


def test_other_exception_is_a_difference_and_earlier_calls_are_compared(tmp_path, setup):
    body = "return x @ torch.ones(4 if k else 3)"
    source = RAISING.replace("k == 1", "False").replace("return x * (k + 1)", body)
    reused, _ = replayed(tmp_path, setup, source, backend="eager")
    [difference] = reused.replay.compared[EAGER].differences
    assert (difference.kind, difference.call) == ("exceptions", 2)
    assert difference.value.startswith("torch._dynamo.exc.TorchRuntimeError: ")
    assert difference.reference.startswith("RuntimeError: ")
    assert ("outputs", 1) in reused.replay.compared[EAGER].counts
