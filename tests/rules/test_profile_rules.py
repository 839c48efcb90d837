"""What the rules make of a hand-built profile."""

from __future__ import annotations

from typing import Any

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.profiled import InductorGraph, InductorKernel, InductorOperation
from graphdoctor.rules.diagnosis.kernel_times import by_line, timed_kernels
from graphdoctor.studies.profile.lines import share_out
from tests.each import for_each
from tests.profiles.facts import code, graph, operation, profiled, ran
from tests.rules.test_kernel_rules import found, recorded, share


def made(runs: list[Any], *graphs: InductorGraph) -> list[Finding]:
    return found(recorded(profiled=profiled(runs, *graphs)))


CONVOLUTION = operation("convolution", 3)


def copying(us: float, *operations: InductorOperation, library: str = "extern_kernels.convolution") -> list[Finding]:
    """A kernel of some operations, then a library's of the first."""
    copy = code("triton_poi_fused_0", *range(len(operations)))
    found = graph([copy, code(library, 0)], operations)
    runs = [ran("triton_poi_fused_0", us), ran("conv", 50.0, "aten::convolution")]
    return made(runs, found)


def test_copies_that_a_library_needs() -> None:
    (finding,) = copying(20.0, CONVOLUTION)
    assert (finding.code, finding.location.line, finding.count) == ("GD508", 3, 1)
    assert finding.message == (
        "copies into the layouts that `aten.convolution` and what reads its results need take 20% of a steady call "
        "(1 kernel)"
    )
    assert finding.cost is not None
    assert finding.cost.call_us == 20.0
    assert finding.compile_ids == ("0/0",)


def test_a_kernel_that_also_computes_is_no_copy() -> None:
    assert copying(20.0, CONVOLUTION, operation("relu", 4)) == []
    assert copying(4.0, CONVOLUTION) == []


def test_the_programs_own_copies() -> None:
    kernels = [code("triton_poi_fused_clone_0", 0), code("triton_poi_fused_clone_1", 1)]
    clones = [operation("clone", 3), operation("clone", 7)]
    runs = [ran("triton_poi_fused_clone_0", 4.0), ran("triton_poi_fused_clone_1", 8.0)]
    (finding,) = made(runs, graph(kernels, clones))
    assert (finding.code, finding.location.line) == ("GD508", 7)
    assert finding.message == "copies by `aten.clone` take 12% of a steady call (2 kernels)"
    assert [(each.line, each.note) for each in finding.related] == [(3, "4% of the call")]


def test_writing_to_an_argument_is_no_copy() -> None:
    written = graph([code("triton_poi_fused_copy_0", 0)], [operation("copy_", 3)])
    assert made([ran("triton_poi_fused_copy_0", 50.0)], written) == []


def cast(line: int, source: str = "float32", target: str = "bfloat16", **more: Any) -> InductorOperation:
    given = {"target": "prims.convert_element_type.default", "input_dtypes": (source,), "dtype": target}
    return operation("_to_copy", line, **given | more)


def test_kernels_that_only_cast() -> None:
    kernels = [code("triton_poi_fused_0", 0, bytes=3_000_000), code("triton_poi_fused_1", 1, 2)]
    runs = [ran("triton_poi_fused_0", 30.0), ran("triton_poi_fused_1", 50.0)]
    (finding,) = made(runs, graph(kernels, [cast(3), cast(4), operation("relu", 4)]))
    assert (finding.code, finding.location.line) == ("GD509", 3)
    assert finding.message == (
        "casts from float32 to bfloat16 take 30% of a steady call: 1 kernel that only casts moves 3 MB"
    )


def test_memory_that_casts_move_is_left_out_where_it_is_unknown() -> None:
    kernels = [code("triton_poi_fused_0", 0, bytes=3_000_000), code("triton_poi_fused_1", 1, bytes=None)]
    runs = [ran("triton_poi_fused_0", 30.0), ran("triton_poi_fused_1", 20.0)]
    (finding,) = made(runs, graph(kernels, [cast(3), cast(4)]))
    assert finding.message == "casts from float32 to bfloat16 take 50% of a steady call: 2 kernels only cast"


def test_the_lines_of_a_finding_have_the_time_that_the_profile_gives_them() -> None:
    casts = [cast(3, elements=300), cast(4, elements=100)]
    found = profiled([ran("triton_poi_fused_0", 40.0)], graph([code("triton_poi_fused_0", 0, 1)], casts))
    lines = {line.line: line.forward_us for line in share_out(found, 100.0, {}).lines}
    assert {
        entry.line: us for entry, us in by_line(timed_kernels(found), lambda each: each.operations).items()
    } == lines
    assert lines == {3: 30.0, 4: 10.0}


def test_a_cast_stays_one_beside_something_small() -> None:
    def both(elements: int | None) -> list[Finding]:
        found = graph(
            [code("triton_poi_fused_0", 0, 1)], [cast(3, elements=1000), operation("relu", 4, elements=elements)]
        )
        return made([ran("triton_poi_fused_0", 50.0)], found)

    (finding,) = both(100)
    assert (finding.code, finding.location.line) == ("GD509", 3)
    assert both(1000) == both(None) == []


def widened(us: float, computed: InductorOperation) -> list[Finding]:
    kernels: list[InductorKernel] = [code("triton_poi_fused_0", 0, 1)]
    return made([ran("triton_poi_fused_0", us)], graph(kernels, [cast(3, target="float64"), computed]))


def test_float64_that_was_float32() -> None:
    (finding,) = widened(40.0, operation("mul", 3, dtype="float64", input_dtypes=("float64",)))
    assert (finding.code, finding.location.line) == ("GD509", 3)
    assert finding.message == (
        "float32 becomes float64 here: 1 kernel that computes in float64 takes 40% of a steady call"
    )
    assert widened(4.0, operation("mul", 3, dtype="float64")) == []
    # A program that computes in float64 throughout wants it.
    wide = graph([code("triton_poi_fused_0", 0)], [operation("mul", 3, dtype="float64")])
    assert made([ran("triton_poi_fused_0", 40.0)], wide) == []


@for_each("is_profiled", [True, False])
def test_library_calls_name_their_lines(is_profiled: bool) -> None:
    kernels = [code("extern_kernels.mm", 0), code("extern_kernels.mm", 1)]
    runs = [ran("gemm", 20.0, "aten::mm"), ran("gemm", 74.0, "aten::mm")]
    known = profiled(runs, graph(kernels, [operation("mm", 3), operation("mm", 9)]))
    calls = share(library_us=94.0, generated_us=3.0, region_us=3.0)
    (finding,) = found(recorded(calls, profiled=known if is_profiled else None))
    assert finding.code == "GD503"
    assert (finding.location.line == 9) == is_profiled
    assert ("at this line and 1 other" in finding.message) == is_profiled
    assert [(each.line, each.note) for each in finding.related] == [(3, "20% of the call")] * is_profiled


def test_an_ordinary_run_has_none_of_these() -> None:
    assert found(recorded(share())) == []
