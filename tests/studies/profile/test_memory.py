"""What a call keeps for its backward pass, by line."""

from __future__ import annotations

from typing import Any

from graphdoctor.facts.profile import MemoryUse
from graphdoctor.facts.profiled import (
    InductorGraph,
    InductorRun,
    KeptTensor,
    MeasuredMemory,
    Partition,
    Profiled,
)
from graphdoctor.studies.profile.report import memory_use
from tests.factories import entry
from tests.studies.profile.facts import graph, profiled


def kept(name: str, line: int | None = 1, **more: Any) -> KeptTensor:
    """100 float32 elements that are cheap to compute again."""
    given: dict[str, Any] = {
        "operation": "aten.gelu.default",
        "tensor": "f32[100]",
        "bytes": 400,
        "is_argument": False,
        "is_cheap": True,
        "stack": () if line is None else (entry(line),),
    }
    return KeptTensor(**{"name": name} | given | more)


def argument(name: str) -> KeptTensor:
    return kept(name, None, operation=None, is_argument=True, is_cheap=None)


def cut(number: int, *saved: KeptTensor, **recomputed: int) -> InductorGraph:
    """A graph with a backward graph."""
    counts = {f"aten.{name}.default": count for name, count in recomputed.items()}
    return graph(
        (),
        graph=number,
        compile_id=f"{number}/0",
        partition=Partition(saved=saved, recomputed=counts, draws_random=False),
    )


def measured(**more: Any) -> MeasuredMemory:
    given = {
        "peak_of": "process",
        "before_bytes": 5000,
        "peak_bytes": 9000,
        "saved_bytes": 0,
        "eager_saved_bytes": 0,
    }
    return MeasuredMemory(**given | more)


def use(found: Profiled, memory: MeasuredMemory | None) -> MemoryUse:
    known = memory_use(found, memory, {}, has_backward=True)
    assert known is not None
    return known


def test_equal_tensors_of_one_line_are_one_with_a_count() -> None:
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


def test_a_graph_that_runs_twice_keeps_twice_as_much() -> None:
    runs = [InductorRun(graph=0, phase="forward", us=1.0)] * 2
    found = use(profiled((), cut(0, kept("gelu"), gelu=2), runs=runs), measured(saved_bytes=800))
    assert [(each.count, each.bytes) for each in found.saved] == [(2, 800)]
    assert (found.recomputed, found.recomputed_count, found.unlisted_bytes) == (
        {"aten.gelu": 4},
        4,
        0,
    )


def test_what_no_graph_keeps_is_left_over() -> None:
    found = use(
        profiled((), cut(0, kept("gelu")), cut(1, kept("gelu", 2))), measured(saved_bytes=1000)
    )
    assert (found.saved_bytes, found.unlisted_bytes) == (1000, 200)
    unknown = use(profiled((), cut(0, kept("gelu", bytes=None))), measured(saved_bytes=1000))
    assert (unknown.saved[0].bytes, unknown.unlisted_bytes) == (None, None)


def test_the_smaller_budget_is_what_is_left_without_cheap_ones() -> None:
    costly = kept("addmm", 2, operation="aten.addmm.default", is_cheap=False, bytes=800)
    values = [
        profiled((), cut(0, *saved, argument("primals_1"))).smaller_budget.value
        for saved in ((kept("gelu"), costly), (kept("gelu"),), (costly,), ())
    ]
    assert values == [0.6, 0.1, 0.5, 0.5]
