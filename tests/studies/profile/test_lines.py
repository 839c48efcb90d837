"""Whose line, module and kernel the time is."""

from __future__ import annotations

from graphdoctor.facts.picture import Picture, SourceText
from graphdoctor.studies.profile.report import Shared, fusion_of, module_roots, share_out
from tests.each import for_each
from tests.factories import frame, recording
from tests.studies.profile.facts import code, graph, operation, profiled, ran


def shared(kernels, *graphs) -> Shared:
    return share_out(profiled(kernels, *graphs), 100.0, {})


def test_a_kernels_time_is_shared_by_elements():
    operations = [
        operation("sin", 1, elements=300),
        operation("mul", 2),
        operation("add", 2, elements=0 + 100),
    ]
    found = shared([ran("triton_poi_0", 50.0)], graph([code("triton_poi_0", 0, 1, 2)], operations))
    assert [(line.line, line.forward_us, line.share) for line in found.lines] == [
        (1, 30.0, 0.3),
        (2, 20.0, 0.2),
    ]
    assert found.unattributed_us == 0
    assert found.kernels[0].operations == ("aten.sin", "aten.mul", "aten.add")


def test_an_operation_without_a_line_has_no_part():
    operations = [operation("seed", None), operation("mul", 2)]
    with_line = shared([ran("triton_poi_0", 50.0)], graph([code("triton_poi_0", 0, 1)], operations))
    assert [line.forward_us for line in with_line.lines] == [50.0]
    without = shared([ran("triton_poi_0", 50.0)], graph([code("triton_poi_0", 0)], operations))
    assert (without.lines, without.unattributed_us) == ((), 50.0)


def test_a_call_with_several_kernels_counts_its_work_once():
    split = [
        ran(name, 10.0, "aten::mm", launch=launch)
        for launch in (1, 2)
        for name in ("gemm", "reduce")
    ]
    products = [code("extern_kernels.mm", 0, flops=60), code("extern_kernels.mm", 0, flops=60)]
    (found,) = shared(split, graph(products, [operation("mm", 3)])).kernels
    assert (found.calls, found.time_us, found.bytes, found.flops) == (4, 40.0, 1600, 120)


def test_backward_time_is_of_the_line_whose_gradient_it_is():
    forward, backward = operation("sin", 1), operation("cos", 1)
    found = shared(
        [ran("triton_poi_0", 10.0), ran("triton_poi_1", 30.0, run=1, phase="backward")],
        graph([code("triton_poi_0", 0)], [forward]),
        graph([code("triton_poi_1", 0)], [backward], phase="backward"),
    )
    assert [(line.line, line.forward_us, line.backward_us) for line in found.lines] == [
        (1, 10.0, 30.0)
    ]
    assert found.lines[0].kernels == (0, 1)
    assert [found.kernels[number].phase for number in found.lines[0].kernels] == [
        "backward",
        "forward",
    ]


def test_runs_that_compute_the_same_are_one_kernel():
    operations = [
        operation("mul_0", 1, operation="aten.mul.Tensor"),
        operation("mul_1", 1, operation="aten.mul.Tensor"),
    ]
    operations = [each.replace(target="aten.mul.Tensor") for each in operations]
    found = shared(
        [ran("triton_poi_0", 10.0), ran("triton_poi_0", 12.0)],
        graph([code("triton_poi_0", 0), code("triton_poi_0", 1)], operations),
    )
    (only,) = found.kernels
    assert (only.calls, only.time_us, only.bytes) == (2, 22.0, 1600)


def test_a_module_has_what_is_in_it():
    operations = [
        operation("a", 1, module="L['self'].layers.2.fc"),
        operation("b", 2, module="L['self'].layers.10"),
    ]
    found = shared(
        [ran("triton_poi_0", 10.0), ran("triton_poi_1", 30.0)],
        graph([code("triton_poi_0", 0), code("triton_poi_1", 1)], operations),
    )
    assert [(module.path, module.forward_us) for module in found.modules] == [
        ("", 40.0),
        ("layers", 40.0),
        ("layers.2", 10.0),
        ("layers.2.fc", 10.0),
        ("layers.10", 30.0),
    ]


def test_fusion_counts_operations_before_and_what_never_gets_to_memory():
    decomposed = [
        operation("mul", 1, operation="aten.gelu.default"),
        operation("erf", 1, operation="aten.gelu.default", bytes=None),
        operation("view", 1, is_view=True),
        operation("add", 2, is_stored=True),
    ]
    found = fusion_of(
        profiled([ran("triton_poi_0")], graph([code("triton_poi_0", 0, 1, 3)], decomposed))
    )
    assert (found.operations, found.decomposed, found.kernels, found.vanished) == (2, 3, 1, 2)
    assert found.vanished_bytes is None
    assert fusion_of(profiled([ran("x", run=None)])) is None


@for_each(
    "qualname, text, roots",
    [
        (
            "Conv.forward",
            "class Conv(nn.Module):\n    def forward(self, x):\n        pass\n",
            {"0/0": "Conv"},
        ),
        ("Conv.forward", None, {"0/0": "Conv"}),
        (
            "keeps_defaults.wrapper",
            "def keeps_defaults(f):\n    def wrapper(self, x):\n        pass\n",
            {},
        ),
        ("Net.forward", None, {}),
    ],
)
def test_what_a_decorator_wraps_around_a_forward_is_no_module(qualname, text, roots):
    found = recording(frames=(frame().replace(qualname=qualname),))
    picture = Picture(files=(SourceText(file=found.frames[0].file, text=text),))
    assert module_roots(found.replace(picture=picture)) == roots
