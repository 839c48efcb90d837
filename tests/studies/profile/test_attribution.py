"""Which call in the generated code a run of a kernel is."""

import json
import re
from collections import defaultdict

from graphdoctor.facts.profiled import InductorGraph, InductorKernel, InductorRun, ProfiledCall
from graphdoctor.facts.reading import read_fact
from graphdoctor.probe.measure.kernels import MeasuredKernels, calls_in, short_name
from graphdoctor.probe.torch_private.torch_kernels import ProfiledEvent
from graphdoctor.trace.grammar import LogDamage, read_records
from graphdoctor.trace.inductor import base_name, matched_runs
from tests.conftest import RECORDED_LOGS
from tests.each import for_each
from tests.studies.profile.facts import code, graph, names_of, profiled, ran


def launched(operation, name="gemm", launch=None):
    """A run of a library's kernel."""
    return ran(name, operation=f"aten::{operation}", launch=launch)


SPLIT = [launched("mm", name, launch) for launch in (1, 2) for name in ("splitk", "reduce")]
ADDMM, MM, BMM = (code(f"extern_kernels.{name}") for name in ("addmm", "mm", "bmm"))
POI, AGAIN = code("triton_poi_0", 0), code("triton_poi_0", 1)
TWICE = [InductorRun(graph=0, phase="forward", us=1.0)] * 2


@for_each(
    "found, calls",
    [
        # Generated kernels are found by name, and a library's by what launched them.
        (
            profiled(
                [launched("addmm"), ran("triton_poi_0"), launched("mm")], graph([ADDMM, POI, MM])
            ),
            [(0, 0), (0, 1), (0, 2)],
        ),
        # One in C++ is known without the number that the profiler puts before it.
        (profiled([ran("graph_3_cpp_fused_add_0")], graph([code("cpp_fused_add_0")])), [(0, 0)]),
        # One name that is called again is the next call.
        (
            profiled(
                [ran("triton_poi_0"), launched("mm"), ran("triton_poi_0")], graph([POI, MM, POI])
            ),
            [(0, 0), (0, 1), (0, 2)],
        ),
        # Several kernels of one call are all its, and calls of one operation in a row have their
        # own.
        (
            profiled([*SPLIT[:2], launched("bmm", launch=3)], graph([MM, BMM])),
            [(0, 0), (0, 0), (0, 1)],
        ),
        (
            profiled([*SPLIT, launched("mm", "splitk", 3)], graph([MM, MM])),
            [(0, 0), (0, 0), (0, 1), (0, 1), (None, None)],
        ),
        # In a CUDA graph the place between generated kernels tells.
        (
            profiled(
                [ran("a"), ran("triton_poi_0"), ran("b"), ran("c")], graph([MM, POI, BMM, ADDMM])
            ),
            [(0, 0), (0, 1), (0, 2), (0, 3)],
        ),
        # What the code does not call has no call.
        (
            profiled(
                [launched("copy_", "aten::copy_"), ran("triton_poi_9"), ran("x", run=None)],
                graph([POI]),
            ),
            [(None, None)] * 3,
        ),
        # A forward and its backward of one number are two graphs, and a graph that runs twice
        # begins anew.
        (
            profiled(
                [ran("triton_poi_0"), ran("triton_poi_0", run=1, phase="backward")],
                *(graph([POI]), graph([AGAIN], phase="backward")),
            ),
            [(0, 0), (1, 0)],
        ),
        (
            profiled([ran("triton_poi_0"), ran("triton_poi_0", run=1)], graph([POI]), runs=TWICE),
            [(0, 0), (0, 0)],
        ),
    ],
)
def test_each_run_is_matched_to_a_call_in_the_code(found, calls):
    assert [
        (each.graph if each.kernel is not None else None, each.kernel) for each in found.matched
    ] == calls
    assert [each.us for each in found.matched] == [10.0] * len(calls)


def test_several_possible_calls_share_a_run_equally():
    found = profiled(
        [ran("a", 6.0), ran("b", 4.0), ran("c", 2.0)],
        graph([code("extern_kernels.mm"), code("extern_kernels.bmm")]),
    )
    times = {"extern_kernels.mm": 0.0, "extern_kernels.bmm": 0.0}
    for _, name, us in names_of(found):
        times[name] += us
    assert times == {"extern_kernels.mm": 6.0, "extern_kernels.bmm": 6.0}


@for_each(
    "name, base",
    [
        ("extern_kernels.addmm", "addmm"),
        ("aten::addmm", "addmm"),
        (
            "torch.ops.aten._scaled_dot_product_flash_attention.default",
            "_scaled_dot_product_flash_attention",
        ),
        ("aten.randint.low_out", "randint"),
        ("torch.ops.mkldnn._linear_pointwise.default", "_linear_pointwise"),
        ("mkldnn::_linear_pointwise", "_linear_pointwise"),
        ("aten.convolution", "convolution"),
    ],
)
def test_the_name_that_code_and_profiler_share(name, base):
    assert base_name(name) == base


# A recorded training step.


RECORDED = RECORDED_LOGS / "2.11.0"
PHASES = ("forward", "backward")


def seen(name):
    events = json.loads((RECORDED / "cuda.events.json").read_text())[name]
    (call,) = calls_in([ProfiledEvent(*event) for event in events], has_device=True)
    return call


def handles():
    """The calls of kernels in each graph's code, as torch numbered them."""
    found = []
    (log,) = (RECORDED / "cuda.bare").iterdir()
    with log.open("rb") as lines:
        codes = read_records(lines, lambda kind: kind == "inductor_output_code", LogDamage())
        found += (
            re.findall(r"\[Provenance debug handles\] (\S+):\d+", code.payload or "")
            for code in codes
        )
    return dict(zip(PHASES, found, strict=True))


def matched(measured):
    """The runs of kernels that each call in the code has."""
    runs, kernels = measured.runs()
    call = ProfiledCall(
        device="cuda", times_us=(measured.best.us,), runs=tuple(runs), kernels=tuple(kernels)
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


def test_a_cuda_graph_runs_the_same_kernels():
    graphs, one_by_one = seen("graphs"), seen("one_by_one")
    inside = [kernel for kernel in graphs.kernels if not kernel.is_graph_input]
    assert [short_name(kernel.name) for kernel in inside] == [
        short_name(each.name) for each in one_by_one.kernels
    ]
    assert (graphs.graph_launches, one_by_one.graph_launches) == (2, 0)


@for_each("name", ["graphs", "one_by_one"])
def test_kernel_runs_match_the_calls_in_torchs_log(name):
    found = matched(MeasuredKernels([seen(name)], [0.0], one_by_one=seen("one_by_one")))
    named = handles()
    for side, phase in enumerate(PHASES):
        for number, call in enumerate(named[phase]):
            assert found[side, number], call
            if call.startswith("triton_"):
                assert [run.name for run in found[side, number]] == [call]
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


def test_library_kernels_inside_a_cuda_graph_have_no_operation():
    _, kernels = MeasuredKernels([seen("graphs")], [0.0]).runs()
    known = {
        kernel.operation
        for kernel in kernels
        if kernel.kind == "library" and kernel.run is not None
    }
    assert known == {None}
