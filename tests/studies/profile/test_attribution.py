"""Which call in the generated code a run of a kernel is."""

from __future__ import annotations

from graphdoctor.facts.profiled import InductorRun, KernelRun, Profiled
from graphdoctor.trace.inductor import base_name
from tests.each import for_each
from tests.studies.profile.facts import code, graph, names_of, profiled, ran


def launched(operation: str, name: str = "gemm", launch: int | None = None) -> KernelRun:
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
def test_each_run_is_matched_to_a_call_in_the_code(
    found: Profiled, calls: list[tuple[int | None, int | None]]
):
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
