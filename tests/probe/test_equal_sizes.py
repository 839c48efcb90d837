"""What equals a number that the host reads, over calls of programs in which some sizes are only
equal by chance."""

import importlib.util
import sys

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
    def run(text, *calls, refused=()):
        path = tmp_path / "program.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location("program", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        equal = EqualSizes()
        before = sys.gettrace()

        def local(frame, event, _):
            if event == "line":
                equal.look(frame)
            return local

        def enter(frame, _, __):
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


def _call(atoms, molecules, *index):
    return torch.zeros(atoms, 3), torch.tensor(index), torch.zeros(molecules)


THREE = _call(4, 2, 0, 0, 1, 1), _call(4, 3, 0, 1, 2, 2), _call(5, 1, 0, 0, 0, 0, 0)
"""Calls with as many different numbers."""


def test_only_a_size_that_is_equal_in_each_call_is_found(looked):
    [equality] = looked(_INDEX, *THREE)
    assert (equality["function"], equality["text"]) == ("f", "int(idx[-1].item()) + 1")
    assert (equality["names"], equality["count"]) == (["charge.shape[0]"], 3)
    # Not sorted, so the last index isn't the highest.
    assert looked(_INDEX, *THREE, _call(4, 2, 0, 1, 1, 0)) == []
    # Unless the program refuses that call.
    [equality] = looked(_INDEX, *THREE, _call(4, 3, 0, 1, 1, 0), refused=(3,))
    assert equality["names"] == ["charge.shape[0]"]


def test_sizes_that_were_equal_for_one_number_or_two_are_coincident(looked):
    assert looked(_INDEX, THREE[0]) == []
    assert looked(_INDEX, *THREE[:2], *THREE[:2]) == []
    square = [(torch.zeros(n, 3), torch.arange(n), torch.zeros(n)) for n in (1, 2, 3)]
    [equality] = looked(_INDEX, *square)
    assert equality["names"] == ["x.shape[0]", "idx.shape[0]", "charge.shape[0]"]
    [equality] = looked(_INDEX, *square, *THREE)
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
    calls = [(torch.tensor([n]), torch.zeros(n)) for n in (2, 3, 4)]
    [equality] = looked(text, (torch.zeros(0), torch.zeros(1)), *calls)
    assert (equality["names"], equality["count"]) == (["y.shape[0]"], 3)


def test_numbers_that_a_program_keeps_equal_nothing(looked):
    text = """
import types
kept = types.SimpleNamespace(restarts=0)
def f(x, n, net):
    return x.sum().item()
"""
    net = torch.nn.Linear(2, 3)
    net.count = 0
    net.history = []

    def calls():
        for n in (0, 1, 2, 4):
            net.count = n
            net.history = [0] * n
            yield torch.tensor([n]), n, net

    assert looked(text, *calls()) == []


def test_value_dependent_lengths_are_found_in_dictionaries_and_modules(looked):
    text = """
import torch
def f(net, data):
    counts = torch.bincount(data["idx"])
    return torch.repeat_interleave(data["w"], counts, dim=1)
"""
    net = torch.nn.Linear(2, 3)
    calls = [([0, 1, 2, 2], 3), ([3, 3], 4), ([1], 2)]
    counts, repeated = looked(
        text, *((net, {"idx": torch.tensor(index), "w": torch.zeros(1, n)}) for index, n in calls)
    )
    assert counts["text"] == "torch.bincount(data['idx'])"
    assert counts["names"] == ['data["w"].shape[1]']
    assert repeated["names"] == ['data["idx"].shape[0]']


def test_what_has_effects_is_not_run_once_more(looked):
    taken = torch.tensor([3, 4, 5])
    text = "def f(values, n):\n    return int(next(values)), n.pop().item()\n"
    assert looked(text, (iter(taken), [taken[0]])) == []


_COUNTS = [
    "def f(x, on):\n    return int(on.sum().item())\n",
    "def f(x, on):\n    return on.sum().item()\n",
    "def f(x, on):\n    return on.long().sum().item()\n",
    "def f(x, on):\n    return int((~on == 0).sum())\n",
    "def f(x, on):\n    n = (x > 0).sum()\n    return n.item()\n",
    "def f(x, on):\n    off = ~on\n    return len(on) - int(off.sum()), int((~off).sum())\n",
    "def f(x, on):\n    rows = on.nonzero().squeeze(1)\n    return int(rows[-1].item()) + 1\n",
    "def f(x, on):\n    n = on.float().mul(1).sum()\n    return int(n)\n",
    "def f(x, on):\n    n = on.count_nonzero()\n    return n.item()\n",
    "def f(x, on):\n    n = g(on)\n    return n.item()\ndef g(on): return on.sum()\n",
    "def f(x, on):\n    return g(on.sum())\ndef g(n): return n.item()\n",
    "def f(x, on):\n    n = 0\n    n += on.sum()\n    return int(n)\n",
    "def f(x, on):\n    return g({'on': on}, x)\ndef g(d, x): return int(d['on'].sum())\n",
    "import torch\ndef f(x, on):\n    return torch.repeat_interleave(x, on.long())\n",
]


@for_each("text", _COUNTS)
def test_the_count_of_a_mask_that_was_all_true_equals_nothing(looked, text):
    assert looked(text, *((torch.ones(n), torch.ones(n) > 0) for n in (2, 3, 4, 5))) == []


def test_the_count_of_a_mask_equals_what_was_made_by_it(looked):
    text = """
def f(x, on):
    kept = x[on]
    return kept, int(on.sum().item())
"""
    masks = [torch.arange(n) % 2 == 0 for n in (3, 5, 8)]
    [equality] = looked(text, *((torch.ones(len(mask), 1), mask) for mask in masks))
    assert equality["names"] == ["kept.shape[0]"]
