"""Which call in the generated code a run of a kernel is."""

from __future__ import annotations

import pytest

from graphdoctor.facts.profiled import InductorRun
from graphdoctor.trace.profiled import base_name
from tests.each import for_each
from tests.studies.profile.facts import code, graph, names_of, profiled, ran


def test_generated_kernels_are_found_by_name_and_libraries_by_what_launched_them():
    found = profiled(
        [
            ran("sm90_gemm", operation="aten::addmm"),
            ran("triton_poi_fused_relu_0"),
            ran("sm90_gemm", operation="aten::mm"),
        ],
        graph([code("extern_kernels.addmm"), code("triton_poi_fused_relu_0"), code("extern_kernels.mm")]),
    )
    assert names_of(found) == [
        ("sm90_gemm", "extern_kernels.addmm", 10.0),
        ("triton_poi_fused_relu_0", "triton_poi_fused_relu_0", 10.0),
        ("sm90_gemm", "extern_kernels.mm", 10.0),
    ]


def test_a_kernel_in_cpp_is_known_without_the_number_that_the_profiler_puts_before_it():
    found = profiled([ran("graph_3_cpp_fused_add_0")], graph([code("cpp_fused_add_0")]))
    assert names_of(found) == [("graph_3_cpp_fused_add_0", "cpp_fused_add_0", 10.0)]


def test_one_name_that_is_called_again_is_the_next_call():
    calls = [code("triton_poi_0", 0), code("extern_kernels.mm", 1), code("triton_poi_0", 2)]
    found = profiled([ran("triton_poi_0"), ran("gemm", operation="aten::mm"), ran("triton_poi_0")], graph(calls))
    assert [each.kernel for each in found.matched] == [0, 1, 2]


def test_several_kernels_of_one_call_are_all_its():
    found = profiled(
        [
            ran("splitk", 7.0, "aten::mm", launch=1),
            ran("reduce", 3.0, "aten::mm", launch=1),
            ran("gemm", 5.0, "aten::bmm", launch=2),
        ],
        graph([code("extern_kernels.mm"), code("extern_kernels.bmm")]),
    )
    assert [(name, us) for _, name, us in names_of(found)] == [
        ("extern_kernels.mm", 7.0),
        ("extern_kernels.mm", 3.0),
        ("extern_kernels.bmm", 5.0),
    ]


def test_calls_of_one_operation_in_a_row_have_their_own_kernels():
    found = profiled(
        [
            ran("splitk", operation="aten::mm", launch=1),
            ran("reduce", operation="aten::mm", launch=1),
            ran("splitk", operation="aten::mm", launch=2),
            ran("reduce", operation="aten::mm", launch=2),
            ran("splitk", operation="aten::mm", launch=3),
        ],
        graph([code("extern_kernels.mm", 0), code("extern_kernels.mm", 1)]),
    )
    assert [each.kernel for each in found.matched] == [0, 0, 1, 1, None]


def test_in_a_cuda_graph_the_place_between_generated_kernels_tells():
    found = profiled(
        [ran("gemm_a"), ran("triton_poi_0"), ran("gemm_b"), ran("gemm_c")],
        graph(
            [code("extern_kernels.mm"), code("triton_poi_0"), code("extern_kernels.bmm"), code("extern_kernels.addmm")]
        ),
    )
    assert [name for _, name, _ in names_of(found)] == [
        "extern_kernels.mm",
        "triton_poi_0",
        "extern_kernels.bmm",
        "extern_kernels.addmm",
    ]


def test_where_several_calls_could_have_run_it_each_has_an_equal_part():
    found = profiled(
        [ran("a", 6.0), ran("b", 4.0), ran("c", 2.0)], graph([code("extern_kernels.mm"), code("extern_kernels.bmm")])
    )
    times = {"extern_kernels.mm": 0.0, "extern_kernels.bmm": 0.0}
    for _, name, us in names_of(found):
        times[name] += us
    assert times == {"extern_kernels.mm": 6.0, "extern_kernels.bmm": 6.0}


def test_what_the_code_does_not_call_has_no_call():
    found = profiled(
        [ran("aten::copy_", operation="aten::copy_"), ran("triton_poi_9"), ran("x", run=None)],
        graph([code("triton_poi_0")]),
    )
    assert sorted((name, call) for name, call, _ in names_of(found)) == [
        ("aten::copy_", None),
        ("triton_poi_9", None),
        ("x", None),
    ]


def test_a_forward_and_its_backward_of_one_number_are_two_graphs():
    found = profiled(
        [ran("triton_poi_0"), ran("triton_poi_0", run=1, phase="backward")],
        graph([code("triton_poi_0", 0)]),
        graph([code("triton_poi_0", 1)], phase="backward"),
    )
    assert [each.graph for each in found.matched] == [0, 1]


def test_a_graph_that_runs_twice_begins_anew():
    runs = [InductorRun(graph=0, phase="forward", us=1.0)] * 2
    found = profiled(
        [ran("triton_poi_0"), ran("triton_poi_0", run=1)], graph([code("triton_poi_0", 0)]), runs=runs
    )  # fmt: skip
    assert [each.kernel for each in found.matched] == [0, 0]


def test_every_microsecond_is_kept():
    found = profiled(
        [ran("a", 6.0), ran("triton_poi_0", 4.0), ran("b", 2.0, "aten::mm"), ran("c", 1.0, run=None)],
        graph(
            [code("extern_kernels.conv"), code("extern_kernels.mm"), code("triton_poi_0"), code("extern_kernels.mm")]
        ),
    )
    assert sum(each.us for each in found.matched) == pytest.approx(13.0)


@for_each(
    "name, base",
    [
        ("extern_kernels.addmm", "addmm"),
        ("aten::addmm", "addmm"),
        ("torch.ops.aten._scaled_dot_product_flash_attention.default", "_scaled_dot_product_flash_attention"),
        ("aten.randint.low_out", "randint"),
        ("torch.ops.mkldnn._linear_pointwise.default", "_linear_pointwise"),
        ("mkldnn::_linear_pointwise", "_linear_pointwise"),
        ("aten.convolution", "convolution"),
    ],
)
def test_the_name_that_code_and_profiler_share(name, base):
    assert base_name(name) == base
