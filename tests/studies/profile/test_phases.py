"""What a profile takes its time for."""

from __future__ import annotations

import pytest

from graphdoctor.studies.profile import profile
from graphdoctor.studies.profile.profile import Phases


def test_each_part_has_its_seconds_without_numbers_the_longest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, shown = [10.0], list[str]()
    monkeypatch.setattr(profile.time, "monotonic", lambda: now[0])
    phases = Phases(shown.append)
    for seconds, begun in (
        (0.5, "importing torch"),
        (3.0, "making the inputs of call 1"),
        (0.25, "call 1"),
        (0.5, "call 1, compiling 0/0"),
        (4.0, "call 1, compiling 12/3_1"),
        (2.0, "call 1"),
        (0.25, "call 2"),
        (0.05, "profiling kernels"),
    ):
        now[0] += seconds
        phases.begin(begun)
    now[0] += 0.01
    assert list(phases.taken().items()) == [
        ("compiling", 6.0),
        ("importing torch", 3.0),
        ("call", 0.8),
        ("starting", 0.5),
        ("making the inputs", 0.25),
    ]
    assert shown[3] == "call 1, compiling 0/0"
