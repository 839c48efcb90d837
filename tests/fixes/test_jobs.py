"""How many trials run side by side if nobody says."""

from __future__ import annotations

import os

import pytest

from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.spec import RunSpec
from graphdoctor.fixes import search
from graphdoctor.trials.launch import recorded
from graphdoctor.trials.launch.request import Request, TargetText
from tests.factories import recording

GIB = 2**30


def jobs(
    monkeypatch: pytest.MonkeyPatch,
    *,
    cores: int,
    free: int | None,
    peak: int | None,
    device: str | None,
) -> int:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(recorded, "memory", lambda: (None, free))
    spec = RunSpec(target="model.py", device=device)
    request = Request(spec, TargetText("model.py", None, None, is_call=False))
    ended = ProbeExit(status=0, reason="finished", peak_memory_bytes=peak)
    return search.default_jobs(request, recording(ended=ended))


@pytest.mark.parametrize(
    ("cores", "free", "peak", "device", "expected"),
    [
        (1, None, None, None, 1), (2, 64 * GIB, GIB, None, 2), (64, 64 * GIB, GIB, None, 4), (64, None, GIB, None, 4),
        (4, 12 * GIB, 2 * GIB, None, 3), (4, GIB, 2 * GIB, None, 1), (64, 64 * GIB, GIB, "cuda", 1),
    ],
)  # fmt: skip
def test_as_many_as_there_are_cores_and_memory(
    monkeypatch: pytest.MonkeyPatch,
    cores: int,
    free: int | None,
    peak: int | None,
    device: str | None,
    expected: int,
) -> None:
    assert jobs(monkeypatch, cores=cores, free=free, peak=peak, device=device) == expected
