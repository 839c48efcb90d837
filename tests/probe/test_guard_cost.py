"""What a guard check costs is measured where it happens, and leaves no trace."""

from __future__ import annotations

import random
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from graphdoctor.probe.measure.guard_cost import CheckTimer, CompiledCode  # noqa: E402
from graphdoctor.probe.target.snapshot import RandomState  # noqa: E402
from graphdoctor.probe.torch_private import torch_guards  # noqa: E402

pytestmark = pytest.mark.slow


_OPEN: list[CompiledCode] = []


@pytest.fixture(autouse=True)
def _fresh_dynamo():
    torch._dynamo.reset()
    yield
    while _OPEN:
        _OPEN.pop().close()
    torch._dynamo.reset()


def known_code() -> CompiledCode:
    """What knows the code that is compiled until the test ends."""
    _OPEN.append(CompiledCode())
    return _OPEN[-1]


def measured(function: Any, *args: Any) -> tuple[list[dict[str, Any]], CheckTimer]:
    """What the timer finds in a steady call."""
    timer = CheckTimer(known_code())
    compiled = torch.compile(function, backend="eager")
    for _ in range(3):
        compiled(*args)
    return timer.run(lambda: compiled(*args)), timer


def test_the_check_of_a_call_is_measured_with_its_parts() -> None:
    net = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(40)])

    def forward(x, scale):
        return net(x) * scale

    (entry,), timer = measured(forward, torch.ones(2, 4), 1.5)
    assert timer.troubles == []
    assert (entry["compile_id"], entry["runs"]) == ("0/0", 1)
    assert entry["check_us"] > 0
    assert entry["check_low_us"] <= entry["check_us"] <= entry["check_high_us"]
    parts = {part["source"]: part["check_us"] for part in entry["bill"]}
    assert {"L['x']", "L['scale']", "L['net']", "L['net']._modules['0']"} <= set(parts)
    assert parts["L['net']"] is not None


def test_arguments_that_the_call_changes_are_checked_as_they_were() -> None:
    def forward(x, options):
        return x * options.pop("scale", 1.0)

    def call(x):
        return compiled(x, {"scale": 2.0})

    timer = CheckTimer(known_code())
    compiled = torch.compile(forward, backend="eager")
    for _ in range(3):
        call(torch.ones(3))
    (entry,) = timer.run(lambda: call(torch.ones(3)))
    assert timer.troubles == []
    assert entry["check_us"] > 0


def test_the_modes_of_the_call_hold_while_it_is_measured() -> None:
    def helper(x):
        torch._dynamo.graph_break()
        return x + 1

    def forward(x):
        with torch.no_grad():
            return helper(x) * 2

    entries, timer = measured(forward, torch.ones(3))
    assert timer.troubles == []
    assert entries


def test_each_run_of_a_function_counts() -> None:
    def helper(x):
        return x.sin() + 1

    def forward(x):
        for _ in range(3):
            x = helper(x)
            torch._dynamo.graph_break()
        return x

    entries, timer = measured(forward, torch.ones(3))
    assert timer.troubles == []
    assert [entry["runs"] for entry in entries if entry["compile_id"].endswith("/0")] == [3]


def test_a_call_is_as_it_was_after_it_was_measured() -> None:
    net = torch.nn.Linear(4, 4)
    compiled_count = []

    def backend(graph, _):
        compiled_count.append(graph)
        return graph

    timer = CheckTimer(known_code())
    compiled = torch.compile(net, backend=backend)
    x = torch.ones(2, 4)
    before = compiled(x)
    timer.run(lambda: compiled(x))
    torch.testing.assert_close(compiled(x), before)
    assert len(compiled_count) == 1


def test_random_numbers_are_put_back() -> None:
    torch.manual_seed(1)
    random.seed(1)
    with RandomState():
        torch.rand(3)
        random.random()
    after = torch.rand(1), random.random()
    torch.manual_seed(1)
    random.seed(1)
    assert (torch.rand(1), random.random()) == after


def test_parts_of_a_tree_are_arguments_modules_and_globals() -> None:
    seen: list[Any] = []
    torch_guards.on_compiled_code(lambda code, made: seen.append((code, made)))
    net = torch.nn.Sequential(torch.nn.Linear(4, 4))
    torch.compile(net, backend="eager")(torch.ones(2, 4))
    code, made = seen[-1]
    entry = torch_guards.cache_entry(code, made)
    assert entry is not None
    parts = dict(torch_guards.guard_parts(entry[1]))
    assert all(source in left_out for source, left_out in parts.items() if source != "G")
    assert all(source.startswith("G[") and "._modules[" not in source for source in parts.get("G", ()))
