"""Programs that go wrong at one stage of torch.compile: the stage is named, and what of it, by
running them."""

from dataclasses import replace

import pytest

from graphdoctor.facts.bench import Workaround
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.accuracy.stages import CROSSREF, DECOMPOSED, INDUCTOR, Subject, follow
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from tests.conftest import probe_python

pytestmark = pytest.mark.slow

INPUTS = """

def example_inputs():
    return torch.randn(4, 8)
"""

KERNEL = f"""\
import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"


def forward(x):
    return torch.relu(x)
{INPUTS}"""

DECOMPOSITION = f"""\
import torch
from torch._inductor.decomposition import decompositions

decompositions[torch.ops.aten.hardswish.default] = lambda x: x * (x + 3).clamp(0, 6) / 6.5


def forward(x):
    return torch.nn.functional.silu(torch.nn.functional.hardswish(x))
{INPUTS}"""

FAKE_KERNEL = f"""\
import torch


@torch.library.custom_op("graphdoctor_test::halved", mutates_args=())
def halved(x: torch.Tensor) -> torch.Tensor:
    return x[: x.shape[0] // 2].clone()


@halved.register_fake
def _(x):
    return torch.empty_like(x)


def forward(x):
    y = halved(x)
    return y.sum() / y.shape[0]
{INPUTS}"""


def followed(folder, program):
    """The stages of the program as the default variant."""
    (folder / "model.py").write_text(program)
    base = RunSpec(target=f"{folder}/model.py:forward")
    setup = Setup(python=str(probe_python()), timeout_s=300)
    with Replays(Request.of(base), folder / "bench", setup) as replays:
        reference = Reference(replays, Program(), on_phase=lambda _phase: None)
        spec = replace(base, backend=INDUCTOR)
        subject = Subject(reference, Program(), spec, {"backend": INDUCTOR}, "default")
        return follow(subject, limit_s=600, on_phase=lambda _phase: None)


@pytest.mark.nightly
def test_a_kernel_that_inductor_writes_is_found(tmp_path):
    stages = followed(tmp_path, KERNEL)
    assert (stages.first, stages.part, stages.note) == (
        INDUCTOR,
        "the lowering of aten.relu.default",
        None,
    )
    lowering = "torch._inductor.lowering"
    lines = (
        f"import {lowering}",
        f"{lowering}.make_fallback(torch.ops.aten.relu.default, override_decomp=True)",
    )
    assert stages.workaround == Workaround(lines=lines)
    assert stages.results[3].outcome == "wrong"


def test_a_decomposition_is_found_before_inductor_compiles_anything(tmp_path):
    stages = followed(tmp_path, DECOMPOSITION)
    assert (stages.first, stages.part) == (
        DECOMPOSED,
        "the decomposition of aten.hardswish.default",
    )
    table = "torch._inductor.decomposition"
    lines = (
        f"import {table}",
        f"{table}.decompositions.pop(torch.ops.aten.hardswish.default, None)",
    )
    assert stages.workaround == Workaround(lines=lines)
    assert INDUCTOR not in {result.name for result in stages.results}


def test_a_fake_kernel_with_another_shape_is_blamed(tmp_path):
    stages = followed(tmp_path, FAKE_KERNEL)
    assert (stages.first, stages.part) == ("eager", None)
    assert stages.note == "an operator's fake kernel says something else than its kernel"
    assert stages.results[-1].name == CROSSREF
    assert "graphdoctor_test.halved.default" in str(stages.results[-1].reason)
    assert stages.workaround is None
