"""A recording in this process leaves nothing behind: neither in torch, nor in Python, nor in the
program's objects."""

from __future__ import annotations

import contextlib
import gc
import tempfile
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import graphdoctor
from graphdoctor import Explainer
from tests.api import state

pytestmark = pytest.mark.slow

PROBE_OBJECTS = (
    "TraceListener",
    "TraceFile",
    "RecompileRecorder",
    "Workload",
    "GraphGlobals",
    "_Seen",
    "CompileWatch",
)


class Net(torch.nn.Module):
    """Changes itself in every way that a forward can."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.dropout = torch.nn.Dropout(0.5)
        self.register_buffer("total", torch.zeros(8))
        self.notes: dict[str, int] = {}
        self.step = 0

    def forward(self, x, scale: float = 1.0):
        self.step += 1
        self.notes["step"] = self.step
        self.last = x
        x.mul_(2)
        y = self.dropout(self.norm(self.linear(x)))
        print("a break")
        self.total = self.total + y.detach().sum(0)
        return torch.relu(y) * scale


def module_state(net: torch.nn.Module) -> dict[str, Any]:
    return {
        "tensors": {name: value.tolist() for name, value in net.state_dict().items()},
        "identities": {
            name: id(value) for name, value in [*net.named_parameters(), *net.named_buffers()]
        },
        "gradients": {
            name: None if p.grad is None else p.grad.tolist() for name, p in net.named_parameters()
        },
        "gradient identities": {name: id(p.grad) for name, p in net.named_parameters()},
        "versions": {name: p._version for name, p in net.named_parameters()},
        "attributes": {
            name: repr(value) for name, value in vars(net).items() if not name.startswith("_")
        },
        "names": sorted(vars(net)),
        "training": [module.training for module in net.modules()],
    }


@pytest.fixture(autouse=True)
def own_folder_for_temporary_files(tmp_path, monkeypatch):
    """Other tests make recordings at the same time."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(scope="module", autouse=True)
def torch_is_warm():
    """torch imports more of itself, and makes more loggers, at the first compile and the first
    profile."""
    Explainer(lanes=True).explain(Net(), torch.randn(4, 8))


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    # Dynamo puts graphs and resume functions into the globals of the functions that it compiles.
    before = state.process_state() | {"globals": set(globals())}
    yield
    after = state.process_state() | {"globals": set(globals())}
    assert {name for name in before if before[name] != after[name]} == set()
    assert state.foreign_objects() == []


def plainly(net, x):
    graphdoctor.explain(net, x)


def with_everything(net, x):
    Explainer(calls=2, backward=True, guards=True, lanes=True).explain(net, x, scale=2.0)


def with_an_error(net, x):
    assert graphdoctor.explain(net, x, scale="two").traceback


def with_a_wrong_backend(net, x):
    with pytest.raises(graphdoctor.GraphDoctorError, match="eagr"):
        Explainer(backend="eagr").explain(net, x)


def interrupted(net, x):
    class Interrupts(torch.nn.Module):
        def forward(self, x):
            net(x)
            torch._dynamo.graph_break()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graphdoctor.explain(Interrupts(), x)


@pytest.fixture
def net_and_input():
    torch.manual_seed(0)
    net = Net()
    net(torch.randn(4, 8)).sum().backward()
    return net, torch.randn(4, 8)


@pytest.mark.parametrize(
    "way",
    [plainly, with_everything, with_an_error, with_a_wrong_backend, interrupted],
    ids=lambda way: way.__name__,
)
def test_explain_leaves_nothing(way, net_and_input, monkeypatch):
    monkeypatch.setattr("graphdoctor.probe.steps.measurements._CALL_BUDGET_S", 0.05)
    net, x = net_and_input
    before, values = module_state(net), x.clone()

    alive = state.living(*PROBE_OBJECTS)

    with nothing_left():
        way(net, x)

    assert module_state(net) == before
    assert torch.equal(x, values)
    # torch keeps the backend of a compile that failed, and so what hangs on it.
    assert way is with_an_error or state.living(*PROBE_OBJECTS) == alive


@pytest.mark.parametrize("is_failing", [False, True])
def test_record_leaves_nothing_but_what_the_program_compiled(is_failing):
    def f(x):
        y = x * 2
        print("a break")
        return y + 1

    def run():
        compiled = torch.compile(f, backend="eager")
        with contextlib.suppress(ZeroDivisionError), graphdoctor.record():
            compiled(torch.ones(3))
            compiled(torch.ones(4))
            if is_failing:
                raise ZeroDivisionError

    run()
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    before, alive = state.process_state(), state.living(*PROBE_OBJECTS)
    run()
    after = state.process_state()

    # Those are Dynamo's own accounts of the program's compiles.
    assert {name for name in before if before[name] != after[name]} - {
        "counters",
        "always compiled",
    } == set()
    assert state.foreign_objects() == []
    assert state.living(*PROBE_OBJECTS) == alive
    entries = torch._dynamo.eval_frame._debug_get_cache_entry_list(f)
    assert entries
    assert not any("graphdoctor" in name for entry in entries for name in vars(entry.guard_manager))


def test_a_report_keeps_neither_the_module_nor_its_arguments_alive():
    net, x = Net(), torch.ones(4, 8)
    report = graphdoctor.explain(net, x)
    watched = weakref.ref(net), weakref.ref(x)
    del net, x
    gc.collect()
    assert [reference() for reference in watched] == [None, None]
    assert report.diagnosis.graphs


def test_gradients_and_a_pending_backward_pass_stay():
    weight = torch.ones(3, requires_grad=True)
    hidden = weight * 2
    loss = (hidden * hidden).sum()
    graphdoctor.explain(lambda x: torch.relu(x) + 1, hidden)
    graphdoctor.explain(lambda: torch.relu(hidden) + 1)
    loss.backward()
    assert weight.grad.tolist() == [8.0, 8.0, 8.0]
    Explainer(backward=True).explain(torch.relu, weight)
    assert weight.grad.tolist() == [8.0, 8.0, 8.0]


def test_an_optimizer_is_put_back():
    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(layer.parameters())
    before = [parameter.tolist() for parameter in layer.parameters()]

    def step(x):
        optimizer.zero_grad()
        layer(x).sum().backward()
        optimizer.step()

    graphdoctor.explain(step, torch.ones(3, 2))

    assert [parameter.tolist() for parameter in layer.parameters()] == before
    assert not optimizer.state
    assert all(parameter.grad is None for parameter in layer.parameters())


def test_what_cannot_be_put_back_is_said():
    numbers = iter(range(9))

    def f(x):
        return x + next(numbers)

    report = graphdoctor.explain(f, torch.ones(2))

    assert any("can't be restored" in gap.message for gap in report.diagnosis.recording.gaps)


def test_the_extra_calls_print_nothing(capsys, net_and_input):
    capsys.readouterr()
    graphdoctor.explain(*net_and_input)
    assert capsys.readouterr().out == "a break\n"
