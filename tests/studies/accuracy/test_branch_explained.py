"""Whether results agree once eager mode takes the ways of compiled code, by running programs."""

import pytest

from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.accuracy.accuracy import is_branch_explained
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from tests.conftest import probe_python

pytestmark = pytest.mark.slow

INPUTS = """

def example_inputs():
    return (torch.linspace(1, 2, 8).requires_grad_(),)
"""
IN_FORWARD = """
import torch

def forward(x):
    return x + 1 if torch.compiler.is_compiling() else x * 3
"""
IN_BACKWARD = """
import torch

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3 if torch.compiler.is_compiling() else gradient * 2

def forward(x):
    return Doubled.apply(x).sin()
"""
FAILS_IN_EAGER = """
import torch

def forward(x):
    if torch.compiler.is_compiling():
        # True while Dynamo traces (``torch/_dynamo/variables/torch.py``, 2.13).
        if not torch.nn.modules.activation._is_make_fx_tracing():
            raise ValueError("only for compiled code")
        return x + 1
    return x * 3
"""


@pytest.mark.parametrize("program", [IN_FORWARD, IN_BACKWARD])
def test_a_branch_explains_other_results(tmp_path, program):
    assert explained(tmp_path, program) is True


def test_nothing_is_said_if_eager_mode_cant_take_the_compiled_branch(tmp_path):
    assert explained(tmp_path, FAILS_IN_EAGER) is None


def explained(folder, program):
    (folder / "model.py").write_text(program + INPUTS)
    setup = Setup(python=str(probe_python()), timeout_s=300)
    request = Request.of(RunSpec(target=f"{folder}/model.py:forward", backend="aot_eager"))
    with Replays(request, folder / "accuracy", setup) as replays:
        return is_branch_explained(replays, Program(), on_phase=lambda _phase: None)
