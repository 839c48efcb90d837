"""Waits for processes, and looks whether they are there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

SLEEPING = """\
import time

import torch


class Net(torch.nn.Module):
    def forward(self, x):
        open("running", "w").close()
        time.sleep(600)
        return x


def example_inputs():
    return (torch.randn(4),)
"""


def wait_until(holds: Callable[[], object], within_s: float = 30) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "it takes too long"
        time.sleep(0.05)


def children_of(pid: int) -> list[int]:
    try:
        return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants_of(pid: int) -> list[int]:
    return [each for child in children_of(pid) for each in (child, *descendants_of(child))]


def is_running(pid: int) -> bool:
    return _state_and_group(Path(f"/proc/{pid}"))[0] not in ("Z", "")


def is_group_running(group: int) -> bool:
    states = map(_state_and_group, Path("/proc").glob("[0-9]*"))
    return any(state not in ("Z", "") and number == group for state, number in states)


def _state_and_group(process: Path) -> tuple[str, int]:
    try:
        state, _, group, *_ = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return "", 0
    return state, int(group)
