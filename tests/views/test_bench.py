"""What people read of a bench: the answer first, nothing cut, no unknown
shown as a number."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.bench import BenchReport, Correctness, StageResult, Stages
from graphdoctor.facts.kernels import CacheUse
from graphdoctor.facts.trials import ResultError
from graphdoctor.views.bench import bench_view
from graphdoctor.views.markdown_text import MAX_CHARACTERS, render_view_markdown
from graphdoctor.views.measures import bytes_text, rate_text, time_text
from tests.studies.bench.reports import (
    EXACT,
    ROUNDED,
    attention,
    eager,
    ended,
    finding,
    mobilenet,
    report,
    troubled,
    variant,
    waiting,
)
from tests.views.outputs import on_terminal

REPORTS = {"faster": mobilenet, "slower": attention, "troubled": troubled, "waiting": waiting}


def rendered(shown: BenchReport, *, width: int = 80, is_verbose: bool = False) -> str:
    return on_terminal(bench_view(shown), width=width, is_verbose=is_verbose)


@pytest.mark.parametrize("name", REPORTS)
def test_a_bench(snapshot: SnapshotAssertion, name: str) -> None:
    assert rendered(REPORTS[name](), width=140) == snapshot


def test_a_long_answer_is_whole_in_markdown() -> None:
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


def test_without_a_cold_start_cache_hits_are_shown() -> None:
    one = variant(cold_s=None, correct=None, correctness=None).replace(
        compile_warm_s=2.0, cache=CacheUse(hits=1, misses=4, bypasses=0)
    )
    text = rendered(report(eager(), one).replace(measured=()))
    assert "cache hits: 1 of 5" in text
    assert "Not checked: cold starts, results and causes. Add" in text
    assert "results  " not in text
