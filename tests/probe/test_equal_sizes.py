"""What equals a number that the host reads, over calls of programs in which some sizes are only
equal by chance."""

from __future__ import annotations

import importlib.util
import sys
from types import FrameType
from typing import Any

import pytest
import torch

from graphdoctor.probe.replay.equal_sizes import EqualSizes
from tests.each import for_each

_INDEX = """
def f(x, idx, charge):
    size = int(idx[-1].item()) + 1
    return x, size
"""


@pytest.fixture
def looked(tmp_path):
    def run(
        text: str, *calls: tuple[Any, ...], refused: tuple[int, ...] = ()
    ) -> list[dict[str, Any]]:
        path = tmp_path / "program.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("program", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        equal, before = EqualSizes(), sys.gettrace()

        def local(frame: FrameType, event: str, _):
            if event == "line":
                equal.look(frame)
            return local

        def enter(frame: FrameType, _: str, __):
            is_own = frame.f_code.co_filename == str(path)
            return local if is_own and equal.has_sites(frame.f_code) else None

        for number, call in enumerate(calls):
            sys.settrace(enter)
            try:
                module.f(*call)
            finally:
                sys.settrace(before)
            equal.settle(is_accepted=number not in refused)
        return equal.as_json()

    return run


def _call(atoms: int, molecules: int, *index: int) -> tuple[torch.Tensor, ...]:
    return torch.zeros(atoms, 3), torch.tensor(index), torch.zeros(molecules)


def test_only_a_size_that_is_equal_in_each_call_is_found(looked):
    [equality] = looked(_INDEX, _call(4, 2, 0, 0, 1, 1), _call(4, 3, 0, 1, 2, 2))
    assert (equality["function"], equality["text"]) == ("f", "int(idx[-1].item()) + 1")
    assert equality["names"] == ["charge.shape[0]"]
    assert (equality["count"], equality["is_varied"]) == (2, True)
    # Not sorted, so the last index isn't the highest.
    assert looked(_INDEX, _call(4, 2, 0, 0, 1, 1), _call(4, 2, 0, 1, 1, 0)) == []
    # Unless the program refuses that call.
    [equality] = looked(_INDEX, _call(4, 2, 0, 0, 1, 1), _call(4, 3, 0, 1, 1, 0), refused=(1,))
    assert equality["names"] == ["charge.shape[0]"]


def test_a_size_that_is_equal_by_chance_is_dropped(looked):
    first = (torch.zeros(2, 3), torch.tensor([0, 1]), torch.zeros(2))
    [equality] = looked(_INDEX, first)
    assert equality["names"] == ["x.shape[0]", "idx.shape[0]", "charge.shape[0]"]
    assert not equality["is_varied"]
    [equality] = looked(_INDEX, first, _call(4, 2, 0, 0, 1, 1))
    assert equality["names"] == ["charge.shape[0]"]


_NOTHING = [
    (_INDEX, _call(4, 2, 0, 0, 1, -3)),  # negative
    ("def f(x, y):\n    return x.mean().item()\n", (torch.full((2,), 2.0), 2)),  # a fraction
    (
        "def f(x):\n    for _ in range(3):\n        n = x.max().item()\n",
        (torch.tensor([7]),),
    ),  # its own
]


@for_each("text, call", _NOTHING)
def test_what_equals_no_other_size_says_nothing(looked, text, call):
    assert looked(text, call) == []


def test_a_read_that_raises_says_nothing(looked):
    text = "def f(x, y):\n    return int(x[-1].item()) if len(x) else 0\n"
    assert looked(text, (torch.zeros(0), 0)) == []
    [equality] = looked(text, (torch.zeros(0), 0), (torch.tensor([2]), 2))
    assert (equality["names"], equality["count"]) == (["y"], 1)


def test_value_dependent_lengths_are_found_in_dictionaries_and_modules(looked):
    text = """
import torch
def f(net, data):
    counts = torch.bincount(data["idx"])
    return torch.repeat_interleave(data["w"], counts, dim=1)
"""
    net = torch.nn.Linear(2, 3)
    first = {"idx": torch.tensor([0, 1, 2, 2]), "w": torch.zeros(1, 3)}
    second = {"idx": torch.tensor([2, 2]), "w": torch.zeros(1, 3)}
    counts, repeated = looked(text, (net, first), (net, second))
    assert counts["text"] == "torch.bincount(data['idx'])"
    assert 'data["w"].shape[1]' in counts["names"]
    assert {"net.weight.shape[0]", "net.out_features"} < set(counts["names"])
    assert counts["names"].index("net.out_features") > counts["names"].index("net.weight.shape[0]")
    assert repeated["names"] == ['data["idx"].shape[0]']


def test_what_has_effects_is_not_run_once_more(looked):
    taken = torch.tensor([3, 4, 5])
    text = "def f(values, n):\n    return int(next(values)), n.pop().item()\n"
    assert looked(text, (iter(taken), [taken[0]])) == []
