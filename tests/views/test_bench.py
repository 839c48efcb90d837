"""What people read of a bench at 80 and at 140 columns: the answer first, nothing cut, no unknown
shown as a number."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.bench import BenchReport, CallTimes, Correctness, StageResult, Stages
from graphdoctor.facts.kernels import CacheUse, KernelShare
from graphdoctor.facts.trials import ResultError
from graphdoctor.views.bench import bench_view
from graphdoctor.views.html.document import render_view_page
from graphdoctor.views.markdown_text import MAX_CHARACTERS, render_view_markdown
from graphdoctor.views.measures import bytes_text, call_cell, rate_text, time_text
from graphdoctor.views.parts import Drawing, Section, cell_line, statements
from tests.each import for_each
from tests.studies.bench.reports import (
    EXACT,
    KERNELS,
    ROUNDED,
    attention,
    calls,
    eager,
    ended,
    finding,
    mobilenet,
    report,
    swept,
    troubled,
    variant,
    waiting,
)
from tests.views.outputs import on_terminal

REPORTS = {
    "faster": mobilenet,
    "slower": attention,
    "troubled": troubled,
    "sweep": swept,
    "waiting": waiting,
}


def rendered(shown: BenchReport, *, width: int = 80, is_verbose: bool = False) -> str:
    return on_terminal(bench_view(shown), width=width, is_verbose=is_verbose)


@pytest.mark.parametrize("width", [80, 140])
@pytest.mark.parametrize("name", REPORTS)
def test_a_bench(snapshot: SnapshotAssertion, name: str, width: int) -> None:
    text = rendered(REPORTS[name](), width=width)
    assert all(len(line) <= width for line in text.splitlines())
    assert text == snapshot


@pytest.mark.parametrize("name", REPORTS)
def test_a_bench_for_a_pull_request(snapshot: SnapshotAssertion, name: str) -> None:
    assert render_view_markdown(bench_view(REPORTS[name]())) == snapshot


def test_a_long_answer_is_whole_in_markdown_and_the_rest_fits_a_comment() -> None:
    many = tuple(finding("GD401", f"Reason {number}. " + 250 * "x") for number in range(400))
    found = report(eager(), variant(findings=many), text=f"{'word ' * 300}end.")
    text = render_view_markdown(bench_view(found))
    assert "end.**" in text
    assert len(text) <= MAX_CHARACTERS
    assert "more finding" in text


def test_verbose_adds_all_figures(snapshot: SnapshotAssertion) -> None:
    found = mobilenet().replace(recordings={"default": "/project/.graphdoctor/20260101-120000"})
    assert rendered(found, width=140, is_verbose=True) == snapshot
    assert "F.scaled_dot_product_attention(q, k, v)" in rendered(attention(), is_verbose=True)


@for_each("width", [40, 60, 80, 140])
def test_no_name_and_no_figure_is_cut(width: int) -> None:
    name = "backend=a_package_with_a_long_name.and_modules.and_a_function"
    same = variant(median_us=5200.0, cold_s=90_000.0)
    found = report(
        eager(), same, variant(name, 2000.0, regions=("12 GPT2Block", "1 Head"), is_regional=True)
    )
    text = rendered(found, width=width)
    assert "…" not in text
    squeezed = "".join(text.split())
    if width >= 80:
        assert squeezed.count("nomeasurable") == 1
        assert "12 GPT2Block" in text


def backwards() -> BenchReport:
    """A sweep with its largest size first."""
    found = swept()
    return found.replace(sweep=found.sweep.replace(points=found.sweep.points[::-1]))


UNKNOWN = dict.fromkeys(
    ("cold_s", "throughput", "peak_memory_bytes", "graphs", "break_sites", "recompiles", "launches", "correct",
     "correctness", "cache")
)  # fmt: skip
BOTH, ONE = finding("GD503", "Both."), finding("GD402", "One.")
CODE = "CppCompileError: C++ compile error.\n\nint main() {\n  no;\n}"
FAILED_STAGES = Stages(
    results=(StageResult(name="aot_eager", outcome="failed", reason=f"{CODE} "),), first="aot_eager"
)
FORMS = {
    "the tables of a sweep are of the largest size that ran": backwards(),
    "what is unknown is no number": report(
        eager(throughput=None, peak_memory_bytes=None, launches=None),
        variant(**UNKNOWN),
        throughput=None,
    ),
    "no times": report(
        eager(), variant(call_us=None, speedup=None, judgement="unknown", break_even_calls=None)
    ),
    "what a wrong variant would win back isn't said": report(
        eager(), variant(status="wrong", correct=False, reason="outputs[0] differs")
    ),
    "one reason of several variants is said once": report(
        eager(), variant("a", findings=(ONE, BOTH)), variant("b", findings=(BOTH,))
    ),
    "results that may be right": report(
        eager(), variant(correct=None, reason="outputs[0] differs by 1e-3, which may be rounding")
    ),
    "code below an error": report(
        eager(), ended("default", "failed", CODE, stages=FAILED_STAGES, graphs=0, recompiles=0)
    ),
    "eager mode failed": report(
        ended("eager", "failed", "ValueError: bad shape"), best=None, noise=None, environment=None
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_bench_in_which_something_is_missing_or_wrong(
    snapshot: SnapshotAssertion, name: str
) -> None:
    assert rendered(FORMS[name], width=140) == snapshot


def test_code_below_an_error_is_for_verbose_and_for_the_page() -> None:
    assert rendered(FORMS["code below an error"], is_verbose=True).count("int main() {") == 2
    assert "int main" in render_view_page(bench_view(FORMS["code below an error"]))


def test_quartiles_have_the_unit_and_the_digits_of_their_median() -> None:
    times = CallTimes(
        median=1003.0, q1=996.0, q3=1010.0, min=990.0, max=1500.0, mean=1004.0, count=9
    )
    assert cell_line(call_cell(times)) == "1.00 ms (1.00 to 1.01)"
    assert cell_line(call_cell(calls(508.0, 0.01))) == "508 µs (505 to 511)"


def test_numbers_have_three_digits_that_count() -> None:
    times = {
        0.5: "0.50 µs",
        3.417: "3.42 µs",
        508.2: "508 µs",
        5220: "5.22 ms",
        28.4e6: "28.4 s",
        9e10: "90,000 s",
    }
    assert {us: time_text(us) for us in times} == times
    sizes = {
        None: None,
        1: "1 byte",
        900: "900 bytes",
        2048: "2.00 KiB",
        812_400_000: "775 MiB",
        1 << 34: "16.0 GiB",
    }
    assert {size: bytes_text(size) for size in sizes} == sizes
    rates = {None: None, 0.0123: "0.0123", 3.5: "3.5", 354.4: "354", 16_494.8: "16,500"}
    assert {rate: rate_text(rate) for rate in rates} == rates


def kernel_view(kernels: KernelShare) -> list[Any]:
    """The parts of a bench whose variant's call goes into these kernels."""
    shown = bench_view(report(eager(), variant(kernels=kernels)))
    return next(
        part.parts for part in shown.parts if isinstance(part, Section) and part.short == "Kernels"
    )


def test_the_parts_of_a_call_add_up_to_it() -> None:
    (drawing,) = (part for part in kernel_view(KERNELS) if isinstance(part, Drawing))
    parts = drawing.facts["parts"]
    assert [part.kind for part in parts] == ["library", "generated", "copies", "outside"]
    assert sum(part.us for part in parts) == KERNELS.call_us
    assert sum(part.share for part in parts) == pytest.approx(1)
    (drawing,) = (
        part for part in kernel_view(KERNELS.replace(call_us=3000.0)) if isinstance(part, Drawing)
    )
    assert [part.kind for part in drawing.facts["parts"]] == ["library", "generated", "copies"]
    unknown = kernel_view(KERNELS.replace(library_us=None))
    assert "default: unknown; 3.61 ms in all under the profiler" in [*statements(tuple(unknown))]


def test_results_stand_beside_eager_modes_own_error() -> None:
    random = Correctness(
        is_bitwise_equal=False, is_eager_repeatable=False, note="dropout differs by design"
    )
    with_state = ROUNDED.replace(
        errors=(*ROUNDED.errors, ResultError(kind="state", variant=0.0, eager=0.0))
    )
    variants = [
        variant(name, correctness=each)
        for name, each in zip("abcd", (EXACT, ROUNDED, with_state, random), strict=True)
    ]
    text = rendered(report(eager(), *variants), width=300)
    assert "a: identical to eager mode, bit by bit" in text
    assert "b, c: " in text
    assert "d: eager mode itself gives other bits each time; dropout differs by design" in text


def test_without_a_cold_start_the_cache_says_how_cold_it_was() -> None:
    one = variant(cold_s=None, correct=None, correctness=None).replace(
        compile_warm_s=2.0, cache=CacheUse(hits=1, misses=4, bypasses=0)
    )
    text = rendered(report(eager(), one).replace(measured=()))
    assert "1 of 5 from the cache" in text
    assert "Not measured: an empty cache (--cold), results (--check-results) and" in text
    assert "results  " not in text
