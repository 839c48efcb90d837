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
CASES = {
    "a number in a global container": (
        IN_DICT
        + FILTERED.format("keep_tensor_guards_unsafe")
        + 'def inner(x):\n    return x * STATE["scale"]\n'
        + EAGERLY,
        True,
    ),
    "a number with a guard": (IN_DICT + 'def model(x):\n    return x * STATE["scale"]\n', False),
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
def test_a_fresh_compile_shows_a_graph_to_be_stale(case, tmp_path, setup):
    source, is_stale = case
    reused, fresh = replayed(tmp_path, setup, source + CALLS)
    assert [difference.call for difference in results_of(reused)] == [2] * is_stale
    assert not results_of(fresh)


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
