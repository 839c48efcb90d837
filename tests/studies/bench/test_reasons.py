"""Which findings explain a variant's speed, and in which order."""

import re

import pytest

from graphdoctor.facts.diagnosis import Cost, Effects, Finding
from graphdoctor.facts.guards import Guards
from graphdoctor.facts.kernels import KernelShare
from graphdoctor.facts.spec import RunSpec
from graphdoctor.facts.stack import StackEntry
from graphdoctor.studies.bench.looks import Look, reasons
from graphdoctor.studies.bench.side_by_side import Way
from graphdoctor.studies.bench.variants import VariantSpec
from graphdoctor.trials.judge import Reference
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Measured, Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from tests.conftest import probe_python
from tests.each import for_each
from tests.factories import diagnosed

KERNELS = KernelShare(
    call_us=1000.0, library_us=900.0, generated_us=20.0, copy_us=0.0, launches=4, region_runs=1
)


def finding(code, *, call_us=None, **values):
    cost = None if call_us is None else Cost(call_us=call_us, share=call_us / 1000.0)
    known = {"rule": code.lower(), "severity": "warning", "message": code, "count": 1, "cost": cost}
    place = StackEntry(file="model.py", line=1, function="forward", origin="user")
    return Finding(**{"code": code, "location": place, "fingerprint": "0" * 16, **known, **values})


def ordered(*findings, guards=None):
    return [
        found.code
        for found in reasons(diagnosed(guards=guards).replace(findings=findings), KERNELS)
    ]


SKIPPED = finding("GD111", effects=Effects(skipped_frames=("forward",)))
COMPILING = finding("GD202").replace(cost=Cost(compile_s=2.0))
HINT, TINY = finding("GD504", severity="info"), finding("GD101", call_us=5.0)


@for_each(
    "found, expected",
    [
        # What takes most of a call first.
        (
            [
                finding("GD101", call_us=80.0),
                finding("GD505", call_us=130.0),
                finding("GD503", severity="info"),
            ],
            ["GD503", "GD505", "GD101"],
        ),
        # Guard checks stand where their share puts them.
        (
            [finding("GD301"), finding("GD101", call_us=80.0), finding("GD107", call_us=120.0)],
            ["GD107", "GD301", "GD101"],
        ),
        # What runs eagerly comes before what may cost nothing.
        (
            [COMPILING, HINT, SKIPPED, finding("GD402", call_us=30.0)],
            ["GD402", "GD111", "GD504", "GD202"],
        ),
        # A tiny share of a call is no reason.
        ([TINY, finding("GD904"), finding("GD102", call_us=11.0)], ["GD102"]),
        # Five are enough.
        (
            [finding(f"GD10{number}", call_us=100.0 + number) for number in range(8)],
            ["GD107", "GD106", "GD105", "GD104", "GD103"],
        ),
    ],
)
def test_what_takes_most_of_a_call_comes_first(found, expected):
    guards = Guards(call_us=1000.0, checks_us=100.0, share=0.1)
    assert ordered(*found, guards=guards) == expected


SLOW = """
import torch

def scaled(x):
    return x.cos().sum(0)

def forward(x):
    y = scaled(x)
    return x @ y * 2

def example_inputs():
    return (torch.ones(256, 256),)
"""


@pytest.mark.slow
def test_kernels_of_one_side_are_named(tmp_path):
    (tmp_path / "model.py").write_text(SLOW)
    spec = RunSpec(target=f"{tmp_path / 'model.py'}:forward", backend="inductor")
    with Replays(
        Request.of(spec), tmp_path / "replays", Setup(probe_python(), timeout_s=300)
    ) as replays:
        reference = Reference(
            replays, Program(), on_phase=str, measured=Measured(kernels=True), is_judging=False
        )
        eager = reference.eager.kernels
        assert eager is not None
        # As if eager mode were much faster.
        times = {name: (getattr(eager, name) or 0.0) / 100 for name in ("library_us", "copy_us")}
        way, folder = Way(VariantSpec("default")), tmp_path / "replays"
        look = Look.at(way, reference, "way", folder, beside=eager.replace(**times))
    (slower,) = [found.message for found in look.findings if found.code == "GD506"]
    own, others = slower.partition("only compiled code has ")[2].split("; only eager mode has ")
    assert re.fullmatch(
        r"`graph_0_cpp_fused_cos_\w+` \([\d.]+ [µm]s, model\.py:\d and model\.py:\d\)", own
    ), slower
    for kernel in ("cos", "sum", r"\w+"):
        assert re.search(rf"`aten::{kernel}` \([\d.]+ [µm]s\)", others), slower
