"""The API called inside a function that is being compiled: it runs as Python, and finds what it
finds elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import graphdoctor

pytestmark = pytest.mark.slow


def printing(x):
    print("hi")
    return torch.relu(x) + 1


def test_a_call_is_explained_inside_a_compiled_function(capfd):
    found = []

    @torch.compile(backend="eager")
    def outer(x):
        y = x * 2
        found.append(graphdoctor.explain(printing, y))
        return y + 1

    x = torch.ones(4)
    assert torch.equal(outer(x), torch.full((4,), 3.0))
    assert [finding.code for finding in found[0].diagnosis.findings] == ["GD101"]


def test_a_block_is_recorded_inside_a_compiled_function(capfd):
    inner = torch.compile(printing, backend="eager")

    @torch.compile(backend="eager")
    def outer(x):
        with graphdoctor.record(reset=True) as recording:
            y = inner(x)
        reports.append(recording)
        return y

    reports: list[Any] = []
    outer(torch.ones(4))
    assert "GD101" in {finding.code for finding in reports[0].diagnosis.findings}
