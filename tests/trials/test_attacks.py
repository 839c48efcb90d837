"""Edits that agree with the program on its own calls, and not on others: attack inputs find each,
and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.facts.spec import RunSpec
from graphdoctor.facts.trials import Attacked
from graphdoctor.trials.launch.child import Setup, probe_command
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.launch.warm import WarmProbes
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from graphdoctor.views.reasons import detail_text, difference_text
from tests.conftest import probe_python
from tests.each import at_night

pytestmark = pytest.mark.slow

PROGRAM = """\
import logging
import warnings

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.full((4,), 0.5))
        self.register_buffer("total", torch.zeros(()))
        self.count = 0

    def forward(self, x, index, mask):
{body}

def example_inputs():
    torch.manual_seed(0)
    return torch.rand(3, 4), torch.tensor([0, 2, 1]), torch.tensor([True, False, True])
"""


@dataclass(frozen=True)
class Case:
    """A body, another that is the same on the program's own call, and what is found to differ, and
    when."""

    before: str
    after: str
    differs: str | None = None
    when: str = ""
    is_compiled: bool = False


CHECKED = "if x.sum() > 100:\n    raise ValueError('large')\nreturn x * 2"
TRIED = "try:\n    torch.linalg.cholesky(x.T @ x + torch.eye(4))\n    y = x\nexcept RuntimeError:\n    y = -x\nreturn y"
PRINTED = "if torch.isnan(x).any():\n    print('NaN')\nreturn x * 2"
WARNED = "if torch.isnan(x).any():\n    warnings.warn('NaN')\nreturn x * 2"

CASES = {
    "another gradient where a divisor is 0": Case(
        "y = x * self.scale\nif y.max() > 1:\n    y = y / y.max()\nreturn y",
        "y = x * self.scale\nreturn torch.where(y.max() > 1, y / y.max(), y)",
        "call 1, gradient of scale: NaN or infinity", "x is all zero",
    ),
    "no other gradient where the divisor is guarded": Case(
        "y = x * self.scale\nif y.max() > 1:\n    y = y / y.max()\nreturn y",
        "y = x * self.scale\nreturn y / torch.where(y.max() > 1, y.max(), 1)",
    ),
    "a chance of 0 that is asked about before a draw": Case(
        "draw = torch.rand([])\nif draw < self.count:\n    return x\nreturn x * 2",
        "draw = torch.rand([])\nif self.count > 0 and draw < self.count:\n    return x\nreturn x * 2",
    ),
    "a sign": Case("return x.abs()", "return x", "call 1, output differs", "x is negated"),
    "an exception of another type": Case(
        CHECKED, CHECKED.replace("ValueError", "RuntimeError"),
        "the call raises RuntimeError: large instead of ValueError: large", "x is infinite in one place",
    ),
    "an exception with other words": Case(
        CHECKED, CHECKED.replace("large", "too large"),
        "the call raises ValueError: too large instead of ValueError: large", "x is infinite in one place",
    ),
    "an exception that is gone": Case(CHECKED, "return x * 2", "the call doesn't raise ValueError: large",
                                      "x is infinite in one place"),
    "an exception that nobody catches while compiling": Case(
        TRIED.replace("try:", "try:\n    torch._dynamo.graph_break()"), TRIED,
        "the call raises _LinAlgError", "x is NaN in one place", is_compiled=True,
    ),
    "a batch of another size": Case(
        "return x + torch.arange(len(x)).unsqueeze(1)", "return x + torch.arange(3).unsqueeze(1)",
        "call 2, output: ", "nothing is changed, and the next batch is 1",
    ),
    "an empty batch": Case(
        "return x.mean() if len(x) else x.sum()", "return x.sum() / x.numel()", "call 1, output: NaN or infinity",
        "the batch is 0",
    ),
    "a branch that values of some size reach": Case(
        "return x * 2 if 1.2 < x.mean() < 5 else x", "return x", "call ",
        "the condition at line ",
    ),
    "an index": Case("return x[index]", "return x[torch.tensor([0, 2, 1])]", "the call raises IndexError",
                     "nothing is changed, and the next batch is 1"),
    "a mask": Case("return x.sum() if mask.any() else x.prod()", "return x.sum()", "call 1, output differs",
                   "mask is all False"),
    "what no argument changes": Case(
        "keep = torch.rand(3) > -1\nreturn x * 2 if keep.all() else x * keep[:, None]",
        "keep = torch.rand(3) > -1\nreturn x * 2", "call 1, output differs",
        "`keep` in `forward` is 1 in every second row",
    ),
    "what no argument changes, chosen in the graph": Case(
        "keep = torch.rand(3) > -1\nif keep.all():\n    x = x * 2\nreturn x",
        "keep = torch.rand(3) > -1\nx = torch.where(keep.all(), x * 2, x)\nreturn x",
    ),
    "what no argument changes, where the program refuses another": Case(
        "keep = torch.rand(3) > -1\nreturn x * 2 if keep.all() else x.view(7)",
        "keep = torch.rand(3) > -1\nreturn x * 2",
    ),
    "what an argument decides isn't set": Case(
        "n = (x * 0).sum()\nif n > 1:\n    x = x + 1\nreturn x + n", "n = (x * 0).sum()\nreturn x + n",
    ),
    "what a module keeps": Case(
        "self.total += x.clamp(min=0).sum()\nreturn x", "self.total += x.sum()\nreturn x",
        "total after the calls differs", "x is negated",
    ),
    "a number that a module keeps": Case(
        "self.count += int((x > 0).sum())\nreturn x", "self.count += x.numel()\nreturn x", "count after the calls",
        "x is all zero",
    ),
    "an argument that is changed in place": Case(
        "x.clamp_(0, 1)\nreturn x + 1", "return x.clamp(0, 1) + 1", "call 1, argument x after it", "x is infinite",
    ),
    "a log": Case(
        "if (x < 0).any():\n    logging.getLogger('net').error('negative')\nreturn x", "return x",
        "logged text: 0 of 1 lines", "x is negated",
    ),
    "a warning that is left out while compiling": Case(
        WARNED, WARNED.replace("if torch", "if not torch.compiler.is_compiling() and torch"), "warnings: 0 of 1 lines",
        "x is NaN in one place", is_compiled=True,
    ),
    "a print that is only left out while compiling is named": Case(
        PRINTED, PRINTED.replace("if torch", "if not torch.compiler.is_compiling() and torch"),
    ),
    "rounding isn't a difference": Case("return x.sum() / 12", "return x.sum(0).sum() * (1 / 12)"),
    "what the program refuses isn't tried": Case("return x.view(3, 4) + 1", "return x + 1"),
}  # fmt: skip


@pytest.fixture(scope="module")
def setup() -> Iterator[Setup]:
    warm = WarmProbes(probe_command(str(probe_python())))
    yield Setup(python=str(probe_python()), warm=warm)
    warm.close()


def attacked(
    folder: Path, setup: Setup, before: str, after: str, *, redraws: bool = False
) -> tuple[Attacked, Attacked]:
    """What attacks show of a program, and of one with another body."""
    model = folder / "model.py"
    bodies = (
        "".join(f"        {line}\n" for line in body.splitlines()) for body in (before, after)
    )
    texts = [PROGRAM.format(body=body) for body in bodies]
    model.write_text(texts[0])
    request = Request.of(RunSpec(target=f"{model}:Net", backend="eager"))
    with Replays(request, folder / "replays", setup) as replays:

        def replayed(program: Program, name: str, **keeps: bool) -> Any:
            recording = replays.replay(
                program, name, attacks="untouched", backend="eager", redraws=redraws, **keeps
            )
            assert recording.exit.reason == "finished", recording.exit.message
            assert recording.replay is not None
            return recording.replay.attacked

        changed = Program({model: texts[1].encode()})
        untouched, edited = replayed(Program(), "untouched"), replayed(changed, "edited")
        if edited.failure is not None and edited.failure.is_compiled:
            replayed(Program(), "untouched-again", keeps_compiled=True)
            edited = replayed(changed, "edited-again")
    return untouched, edited


@pytest.mark.parametrize("name", CASES)
def test_an_edit_is_tried_on_inputs_that_no_call_has(tmp_path, setup, name):
    case = CASES[name]
    untouched, edited = attacked(tmp_path, setup, case.before, case.after)
    assert untouched.failure is None
    assert untouched.count >= 8
    if case.differs is None:
        assert (edited.failure, edited.count) == (None, untouched.count)
        return
    failure = edited.worst
    assert failure is not None
    found = failure.difference
    words = difference_text(found)
    assert words.startswith(case.differs)
    assert failure.text.startswith(case.when)
    assert failure.is_compiled == case.is_compiled
    assert edited.count <= untouched.count


DRAWN = """\
keep = torch.rand(len(x)) > -1
noise = torch.rand({count}, 4)
{chosen}
return y"""
CHOSEN = """\
if keep.all():
    y = x + noise
elif not keep.any():
    y = x
else:
    y = x.clone()
    y[keep] = x[keep] + noise"""


@pytest.mark.parametrize(
    ("chosen", "redraws", "is_right"),
    [
        ("y = torch.where(keep[:, None], x + noise, x)", True, True),
        ("y = torch.where(keep[:, None], x + noise, x)", False, False),
        ("y = x + noise", True, False),
    ],
)
def test_what_draws_for_more_rows_is_compared_where_all_rows_draw_alike(
    tmp_path, setup, chosen, redraws, is_right
):
    before = DRAWN.format(count="int(keep.sum())", chosen=CHOSEN)
    after = DRAWN.format(count="len(x)", chosen=chosen)
    _, edited = attacked(tmp_path, setup, before, after, redraws=redraws)
    assert (edited.failure is None) == is_right
    assert (edited.redrawn is not None) == redraws or not is_right


COIN = """\
coin = torch.bernoulli(torch.full((1,), 0.5))
{drawn}
return x * keep.view(-1, 1)"""
DECIDED = """\
if coin.sum() == 1:
    keep = torch.bernoulli(torch.full((len(x),), 0.5)) * coin
else:
    keep = coin.repeat(len(x))"""
EACH = "keep = torch.bernoulli(torch.full((len(x),), 0.5))"


@pytest.mark.parametrize(
    ("drawn", "redraws", "is_right"),
    [
        (f"{EACH} * coin", True, True),
        (
            f"{EACH}\nkeep = torch.where(coin.sum() == 1, keep * coin, coin.repeat(len(x)))",
            True,
            True,
        ),
        (f"{EACH} * coin", False, False),
        (EACH, True, False),
        at_night(f"{EACH} * (1 - coin)", True, False),
        at_night(f"{EACH} * coin * 2", True, False),
        ("keep = coin.repeat(len(x))", True, False),
    ],
)
def test_what_draws_whatever_a_coin_says_is_compared_where_all_rows_draw_alike(
    tmp_path, setup, drawn, redraws, is_right
):
    before, after = COIN.format(drawn=DECIDED), COIN.format(drawn=drawn)
    _, edited = attacked(tmp_path, setup, before, after, redraws=redraws)
    assert (edited.failure is None) == is_right
    assert edited.is_own_redrawn or not is_right


def test_omissions_while_compiling_and_torchs_changes_are_reported(tmp_path, setup):
    case = CASES["a print that is only left out while compiling is named"]
    _, edited = attacked(tmp_path, setup, case.before, case.after)
    assert [(found.kind, detail_text(found)) for found in edited.dropped] == [
        ("stdout", "0 of 1 lines; the first missing one: 'NaN'")
    ]
    assert (edited.failure, edited.torch_kinds) == (None, ())


def equal_in(folder: Path, setup: Setup, body: str) -> dict[str, tuple[str, ...]]:
    """What equals the numbers that a body reads, on all inputs."""
    model = folder / "model.py"
    model.write_text(
        PROGRAM.format(body="".join(f"        {line}\n" for line in body.splitlines()))
    )
    with Replays(
        Request.of(RunSpec(target=f"{model}:Net", backend="eager")), folder / "replays", setup
    ) as replays:
        replays.replay(Program(), "untouched", attacks="untouched", backend="eager")
        found = replays.equal_sizes("untouched")
    assert all((file, function) == (str(model), "forward") for file, function, _ in found)
    return {text: equal.names for (_, _, text), equal in found.items()}


def test_branches_that_inputs_take_and_skip_are_noted(tmp_path, setup):
    model = tmp_path / "model.py"
    body = "if len(x) > 0:\n    x = x * 2\nif x.sum() > 0:\n    x = x + 1\nreturn x"
    text = PROGRAM.format(body="".join(f"        {line}\n" for line in body.splitlines()))
    model.write_text(text)
    request = Request.of(RunSpec(target=f"{model}:Net", backend="eager"))
    with Replays(request, tmp_path / "replays", setup) as replays:
        replays.replay(Program(), "untouched", attacks="untouched", backend="eager")
        skipped = {line for _, line in replays.lines("untouched", "skipped")}
    lines = text.splitlines()
    assert lines.index("        if x.sum() > 0:") + 1 in skipped
    assert lines.index("            x = x + 1") + 1 not in skipped


def test_size_equal_to_a_number_of_one_call_is_left(tmp_path, setup):
    assert equal_in(tmp_path, setup, "n = int(index.max().item()) + 1\nreturn x.sum() * n") == {}


def test_size_equal_to_a_later_length_is_found(tmp_path, setup):
    # All of them are as many, or the program refuses the call.
    body = (
        "counts = torch.bincount(index)\n"
        "y = torch.repeat_interleave(x, counts, dim=0)\n"
        "if len(x) != len(mask) or len(x) != len(index) or len(x) < 2: return x[len(x)]\n"
        "return y.view_as(x) + x"
    )
    found = equal_in(tmp_path, setup, body)
    given = ("x.shape[0]", "mask.shape[0]", "index.shape[0]")
    assert found["torch.bincount(index)"] == given
    assert found["torch.repeat_interleave(x, counts, dim=0)"] == (*given, "counts.shape[0]")
