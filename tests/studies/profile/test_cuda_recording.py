"""A training step on a CUDA device, as torch.profiler saw it with CUDA graphs and without, beside
torch's own log."""

from __future__ import annotations

import json
import re
from collections import defaultdict

from graphdoctor.facts.kernels import ProfilePhase
from graphdoctor.facts.profiled import InductorGraph, InductorKernel, KernelRun, ProfiledCall
from graphdoctor.facts.reading import read_fact
from graphdoctor.probe.measure.kernels import MeasuredKernels, SeenCall, calls_in, short_name
from graphdoctor.probe.torch_private.torch_kernels import ProfiledEvent
from graphdoctor.trace.grammar import LogDamage, read_records
from graphdoctor.trace.inductor import base_name, matched_runs
from tests.conftest import RECORDED_LOGS
from tests.each import for_each

RECORDED = RECORDED_LOGS / "2.11.0"
PHASES: tuple[ProfilePhase, ...] = ("forward", "backward")


def seen(name: str) -> SeenCall:
    events = json.loads((RECORDED / "cuda.events.json").read_text())[name]
    (call,) = calls_in([ProfiledEvent(*event) for event in events], has_device=True)
    return call


def handles() -> dict[ProfilePhase, list[str]]:
    """The calls of kernels in each graph's code, as torch numbered them."""
    found: list[list[str]] = []
    (log,) = (RECORDED / "cuda.bare").iterdir()
    with log.open("rb") as lines:
        codes = read_records(lines, lambda kind: kind == "inductor_output_code", LogDamage())
        found += (
            re.findall(r"\[Provenance debug handles\] (\S+):\d+", code.payload or "")
            for code in codes
        )
    return dict(zip(PHASES, found, strict=True))


def matched(measured: MeasuredKernels) -> dict[tuple[int | None, int | None], list[KernelRun]]:
    """The runs of kernels that each call in the code has."""
    runs, kernels = measured.runs()
    call = ProfiledCall(
        device="cuda",
        times_us=(measured.best.us,),
        profiled_us=measured.best.us,
        runs=tuple(runs),
        kernels=tuple(kernels),
    )
    graphs = [
        InductorGraph(
            graph=0,
            phase=phase,
            compile_id="0/0",
            operations=(),
            kernels=tuple(
                read_fact(InductorKernel, CALL | {"name": name}, skips_unknown=True)
                for name in names
            ),
        )
        for phase, names in handles().items()
    ]
    found = defaultdict(list)
    for each in matched_runs(call, graphs):
        assert each.us == kernels[each.run].us, "a part of a run"
        found[each.graph, each.kernel].append(kernels[each.run])
    return dict(found)


CALL = {"kind": "library", "operations": (), "bytes": None, "flops": None}


def test_a_cuda_graph_runs_the_same_kernels() -> None:
    graphs, one_by_one = seen("graphs"), seen("one_by_one")
    inside = [kernel for kernel in graphs.kernels if not kernel.is_graph_input]
    assert [short_name(kernel.name) for kernel in inside] == [
        short_name(each.name) for each in one_by_one.kernels
    ]
    assert (graphs.graph_launches, one_by_one.graph_launches) == (2, 0)


@for_each("name", ["graphs", "one_by_one"])
def test_kernel_runs_match_the_calls_in_torchs_log(name: str) -> None:
    found = matched(MeasuredKernels([seen(name)], [0.0], one_by_one=seen("one_by_one")))
    named = handles()
    for graph, phase in enumerate(PHASES):
        for number, call in enumerate(named[phase]):
            assert found[graph, number], call
            if call.startswith("triton_"):
                assert [run.name for run in found[graph, number]] == [call]
    # A product that is split over the inner dim takes two kernels.
    products = [number for number, call in enumerate(named["backward"]) if base_name(call) == "mm"]
    assert [len(found[1, number]) for number in products] == [2, 2, 2]
    attention = next(number for number, call in enumerate(named["backward"]) if "attention" in call)
    assert found[1, attention][-1].name.startswith("fmha_cutlassB")
    # In no code: what autograd begins with, and the copies into CUDA graphs.
    assert {run.operation for run in found[None, None]} <= {
        "aten::ones_like",
        "aten::_foreach_copy_",
    }


def test_library_kernels_inside_a_cuda_graph_have_no_operation() -> None:
    _, kernels = MeasuredKernels([seen("graphs")], [0.0]).runs()
    known = {
        kernel.operation
        for kernel in kernels
        if kernel.kind == "library" and kernel.run is not None
    }
    assert known == {None}
