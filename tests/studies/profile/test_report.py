"""Whose line, module and kernel the time is."""

from __future__ import annotations

from graphdoctor.facts.diagnosis import Cost
from graphdoctor.facts.picture import Picture, SourceText
from graphdoctor.facts.profiled import InductorRun, KeptTensor, MeasuredMemory, Partition
from graphdoctor.facts.recording import Call, SteadyCall
from graphdoctor.studies.profile.report import (
    fusion_of,
    memory_use,
    module_roots,
    profile_report,
    share_out,
)
from tests.each import for_each
from tests.factories import compiled, diagnosed, entry, frame, recording
from tests.factories import record as broken_at
from tests.studies.profile.facts import code, graph, operation, profiled, ran


def shared(kernels, *graphs):
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


def test_what_a_pass_of_inductors_added_is_no_operation_of_the_program():
    own = operation("abs", 1)
    div = [operation(name, 1).replace(stack=(), module=None) for name in ("eq", "where", "div")]
    softmax = [operation(name, 2, operation="aten._softmax.default") for name in ("exp", "sum")]
    found = fusion_of(
        profiled(
            [ran("cpp_fused_0")], graph([code("cpp_fused_0", *range(6))], [own, *div, *softmax])
        )
    )
    # What it replaced counts once.
    assert (found.operations, found.decomposed, found.vanished) == (3, 6, 3)


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


# Memory.


def kept(name, line=1, **more):
    """100 float32 elements that are cheap to compute again."""
    given = {
        "operation": "aten.gelu.default",
        "tensor": "f32[100]",
        "bytes": 400,
        "is_argument": False,
        "is_cheap": True,
        "stack": () if line is None else (entry(line),),
    }
    return KeptTensor(**{"name": name} | given | more)


def argument(name):
    return kept(name, None, operation=None, is_argument=True, is_cheap=None)


def cut(number, *saved, **recomputed):
    """A graph with a backward graph."""
    counts = {f"aten.{name}.default": count for name, count in recomputed.items()}
    return graph(
        (),
        graph=number,
        compile_id=f"{number}/0",
        partition=Partition(saved=saved, recomputed=counts, draws_random=False),
    )


def measured(**more):
    given = {
        "peak_of": "process",
        "before_bytes": 5000,
        "peak_bytes": 9000,
        "saved_bytes": 0,
        "eager_saved_bytes": 0,
    }
    return MeasuredMemory(**given | more)


def use(found, memory):
    known = memory_use(found, memory, {}, has_backward=True)
    assert known is not None
    return known


def test_equal_tensors_of_one_line_are_one_with_a_count():
    saved = [
        kept(f"gelu_{number}", 7, module=f"L['self'].layers.{number}.mlp") for number in range(3)
    ]
    found = use(
        profiled((), cut(0, *saved, kept("mul", 9, bytes=1000), argument("primals_1"))), measured()
    )
    assert [
        (each.name, each.line, each.count, each.bytes, each.module) for each in found.saved
    ] == [
        ("gelu_0", 7, 3, 1200, "layers.*.mlp"),
        ("mul", 9, 1, 1000, None),
        ("primals_1", None, 1, 400, None),
    ]
    assert [each.is_argument for each in found.saved] == [False, False, True]
    assert (found.saved[0].operation, found.saved[0].compile_id) == ("aten.gelu", "0/0")


def test_a_graph_that_runs_twice_keeps_twice_as_much():
    runs = [InductorRun(graph=0, phase="forward", us=1.0)] * 2
    found = use(profiled((), cut(0, kept("gelu"), gelu=2), runs=runs), measured(saved_bytes=800))
    assert [(each.count, each.bytes) for each in found.saved] == [(2, 800)]
    assert (found.recomputed, found.recomputed_count, found.unlisted_bytes) == (
        {"aten.gelu": 4},
        4,
        0,
    )


def test_what_no_graph_keeps_is_left_over():
    found = use(
        profiled((), cut(0, kept("gelu")), cut(1, kept("gelu", 2))), measured(saved_bytes=1000)
    )
    assert (found.saved_bytes, found.unlisted_bytes) == (1000, 200)
    unknown = use(profiled((), cut(0, kept("gelu", bytes=None))), measured(saved_bytes=1000))
    assert (unknown.saved[0].bytes, unknown.unlisted_bytes) == (None, None)


def test_the_smaller_budget_is_what_is_left_without_cheap_ones():
    costly = kept("addmm", 2, operation="aten.addmm.default", is_cheap=False, bytes=800)
    values = [
        profiled((), cut(0, *saved, argument("primals_1"))).smaller_budget.value
        for saved in ((kept("gelu"), costly), (kept("gelu"),), (costly,), ())
    ]
    assert values == [0.6, 0.1, 0.5, 0.5]


# Costs of other calls.


@for_each("gap_us, is_said", [(60.0, True), (21_000.0, False)])
def test_no_cost_is_more_than_the_call(gap_us, is_said):
    facts = recording(breaks=(broken_at(entry(12, "print(x)")),)).replace(
        profiled=profiled(()), steady_call=SteadyCall(call_us=30_000.0, runs=())
    )
    diagnosis = diagnosed(facts)
    finding = diagnosis.findings[0].replace(
        cost=Cost(call_us=gap_us, call_from="gap", share=0.7, compile_s=2.0)
    )
    (shown,) = profile_report(facts, diagnosis.replace(findings=(finding,)), version="0").findings
    assert shown.cost is not None
    assert (shown.cost.call_us, shown.cost.share) == ((gap_us, 0.7) if is_said else (None, None))
    assert shown.cost.compile_s == 2.0


@for_each(
    "made_in, inputs, expected",
    [
        (2, ("f32[4, 8]", "f32[7, 8]", "f32[12, 8]"), "f32[7, 8]"),
        (2, ("f32[4, 8]", "f32[7, 8]", "f32[7, 8]"), None),
        (1, ("f32[4, 8]",), None),
        (None, ("f32[4, 8]", "f32[7, 8]"), None),
        (1, ("f32[4, 8]", None), None),
        (1, (None, "f32[7, 8]"), None),
    ],
)
def test_a_profile_says_for_which_call_its_code_was_compiled(made_in, inputs, expected):
    ran_code = profiled([ran("cpp_fused_0")], graph([code("cpp_fused_0", 0)], [operation("a", 1)]))
    (of_run,) = ran_code.partitioned
    facts = recording(
        compiles=(compiled(of_run.compile_id).replace(call_index=made_in),),
        calls=tuple(Call(index=at, inputs=text) for at, text in enumerate(inputs, 1)),
    ).replace(profiled=ran_code)
    assert profile_report(facts, diagnosed(facts), version="1").compiled_for == expected
