"""Whether variants of real programs compute what the programs compute without torch.compile."""

import json

import pytest

from graphdoctor.facts.spec import RunSpec
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from tests.conftest import REPOSITORY, clean_environment, probe_python, run_script

pytestmark = pytest.mark.slow

PLAIN = REPOSITORY / "tests" / "truth" / "plain_errors.py"

CONVOLUTION = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


def example_inputs():
    return torch.randn(4, 3, 16, 16)
"""

WRONG = f"""\
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
{CONVOLUTION}"""

AUTOCAST = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            for layer in self.layers:
                x = nn.functional.gelu(layer(x)) * torch.sigmoid(x) + x.tanh()
            return x


def example_inputs():
    return torch.randn(8, 64)
"""

DROPOUT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 5))

    def forward(self, x):
        return self.layers(x)


def example_inputs():
    for _ in range(2):
        yield torch.randn(4, 16)
"""


def judged(folder, text):
    """The verdict about a program under Inductor, and how many replays it took."""
    (folder / "model.py").write_text(text)
    request = Request.of(RunSpec(target=f"{folder}/model.py:Net", backend="inductor"))
    replays = Replays(request, folder / "bench", Setup(python=str(probe_python())))
    try:
        reference = Reference(replays, Program(), on_phase=lambda _text: None)
        return reference.judge(
            reference.replay(Program(), "default"), Program(), "default"
        ), replays.count
    finally:
        replays.close()


def correctness_of(verdict):
    assert verdict.correctness is not None
    return verdict.correctness


@pytest.mark.parametrize("program", [CONVOLUTION, AUTOCAST], ids=["convolution", "autocast"])
def test_rounding_is_measured_as_plain_torch_measures_it(program, tmp_path):
    verdict, _ = judged(tmp_path, program)
    assert (verdict.correct, verdict.reason) == (True, None)
    found = correctness_of(verdict)
    assert (found.is_bitwise_equal, found.is_eager_repeatable) == (False, True)
    # Inductor adds the gradients of the norm one by one.
    assert (found.note is not None and "last digits" in found.note) is (program == CONVOLUTION)
    plain = json.loads(
        run_script(PLAIN, tmp_path / "model.py", cwd=tmp_path, env=clean_environment()).stdout
    )
    assert {error.kind for error in found.errors} == set(plain)
    for error in found.errors:
        assert (error.variant, error.eager) == pytest.approx(plain[error.kind], rel=0.01)
    if program == AUTOCAST:
        [outputs] = [error for error in found.errors if error.kind == "outputs"]
        assert outputs.variant < outputs.eager


def test_a_compiler_s_mistake_is_wrong(tmp_path):
    verdict, _ = judged(tmp_path, WRONG)
    assert verdict.correct is False
    found = correctness_of(verdict)
    assert found.where == "call 1, output"
    assert found.largest > 0.1
    [outputs] = [error for error in found.errors if error.kind == "outputs"]
    assert outputs.variant > 1e5 * outputs.eager


def test_random_numbers_are_compared_under_eager_mode_s_own(tmp_path):
    verdict, count = judged(tmp_path, DROPOUT)
    assert (verdict.correct, count) == (True, 5)
    found = correctness_of(verdict)
    assert (
        found.note
        == "torch.compile draws other random numbers by design; with eager mode's, results agree"
    )
    assert {error.kind for error in found.errors} == {"outputs", "gradients", "state"}
