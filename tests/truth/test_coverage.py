"""Coverage against operations counted by hand and by torch's dispatcher in eager mode."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sections import sections

pytestmark = pytest.mark.slow

HEADER = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

def example_inputs():
    return [(torch.ones(2, 4),)]
"""
"""What programs begin with; some have other inputs."""

PROGRAMS = {
    name.partition(": ")[0]: (source, name.partition(": ")[2].split())
    for name, source in sections(Path(__file__).with_name("coverage.txt")).items()
}
"""Source by name, and what was counted."""


@pytest.fixture
def measure(
    explain_json: Callable[..., dict[str, Any]], tmp_path: Path
) -> Callable[..., dict[str, Any]]:
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


@pytest.mark.parametrize("name", [name for name, (_, counted) in PROGRAMS.items() if counted])
def test_operations_are_counted_as_a_person_would(
    measure: Callable[..., dict[str, Any]], name: str
) -> None:
    source, (in_graphs, eager, *counts) = PROGRAMS[name]

    detail = measure(source)

    assert (detail["graph_ops"], detail["eager_ops"]) == (int(in_graphs), int(eager))
    eager_ops = {f"{name}={count}" for name, count in detail["eager_op_names"].items()}
    assert eager_ops == {f"aten::{each}" for each in counts}


@pytest.mark.skipif(not shutil.which("c++"), reason="inductor needs a C++ compiler on a CPU")
def test_inductor_gives_the_same_share(measure: Callable[..., dict[str, Any]]) -> None:
    detail = measure(PROGRAMS["skipped function inside"][0], "--backend", "inductor")

    assert (detail["graph_ops"], detail["eager_ops"]) == (4, 3)


def test_the_backward_pass_is_not_counted(measure: Callable[..., dict[str, Any]]) -> None:
    detail = measure(PROGRAMS["body of a higher-order operator"][0], "--backward")

    assert (detail["graph_ops"], detail["eager_ops"]) == (5, 0)


def test_as_many_operations_as_eager_mode_makes(
    measure: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    """A skipped target's eager operations are those that the dispatcher sees without
    torch.compile."""
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    source, _ = PROGRAMS["skipped, as often as the dispatcher says"]
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
