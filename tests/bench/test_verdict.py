"""The answer of a bench in a sentence: only what was measured, and no doubt left out."""

from __future__ import annotations

from typing import Any

from graphdoctor.facts.bench import EAGER, BenchVerdict, Sweep, SweepPoint, Variant
from graphdoctor.facts.diagnosis import Cost, Effects
from graphdoctor.studies.bench.verdict import verdict
from tests.bench_reports import (
    LIBRARY,
    NOISY,
    OVERHEAD,
    QUIET,
    attention,
    eager,
    ended,
    finding,
    mobilenet,
    swept,
    troubled,
    variant,
)
from tests.each import for_each
from tests.factories import change


def said(*variants: Variant, **more: Any) -> BenchVerdict:
    return verdict(variants, more.get("noise", QUIET))


def test_the_fastest_with_its_interval_and_the_call_from_which_it_pays() -> None:
    found = verdict(mobilenet().variants, QUIET)
    assert found.text == (
        "mode=reduce-overhead is fastest: 2.69× (2.66 to 2.72) over eager, pays off after 10,000 calls; "
        "mode=max-autotune-no-cudagraphs gives 1.53×; default gives 1.47×."
    )
    assert found.best == "mode=reduce-overhead"


def test_when_none_is_faster_it_says_how_much_slower_and_why() -> None:
    found = verdict(attention().variants, QUIET)
    assert found.text == (
        "No variant is measurably faster than eager: default takes 1.14 times as long (1.13 to 1.15), "
        "mode=reduce-overhead takes 1.20 times as long (1.19 to 1.21). "
        f"What holds default back: {LIBRARY.message}."
    )
    assert found.best == EAGER


def test_the_reason_is_the_first_of_the_variant_nearest_to_eager() -> None:
    other = finding("GD301", "guards take a third of a call", call_us=900.0)
    slow = variant("b", 9000.0, findings=(other,))
    found = said(eager(), variant("a", 6000.0, findings=(LIBRARY, OVERHEAD)), slow)
    assert found.text.endswith(f" What holds a back: {LIBRARY.message}.")


def test_what_eager_mode_does_too_is_no_reason() -> None:
    products = finding("GD510", "2 matrix products in float32 could run on tensor cores")
    assert "tensor cores" not in said(eager(), variant(median_us=6000.0, findings=(products,))).text


def test_what_only_takes_compile_time_is_no_reason_for_slow_calls() -> None:
    compiles = finding("GD401", "12 modules in one graph").model_copy(update={"cost": Cost(compile_s=9.0)})
    assert "12 modules" not in said(eager(), variant(median_us=6000.0, findings=(compiles,))).text
    recompiles = finding("GD212", "recompiled once").model_copy(update={"changes": (change(),)})
    assert "recompiled" not in said(eager(), variant(median_us=6000.0, findings=(recompiles,))).text
    found = said(eager(), variant(median_us=6000.0, findings=(compiles, recompiles, OVERHEAD)))
    assert found.text.endswith(f" What holds default back: {OVERHEAD.message}.")


def test_a_recompile_that_leaves_a_function_eager_is_a_reason() -> None:
    eager_now = finding("GD201", "`forward` runs eagerly").model_copy(
        update={"changes": (change(),), "effects": Effects(skipped_frames=("forward",))}
    )
    assert "runs eagerly" in said(eager(), variant(median_us=6000.0, findings=(eager_now,))).text


def test_no_measurable_difference_is_never_called_slower_or_faster() -> None:
    found = said(eager(), variant(median_us=5200.0), variant("b", 5230.0))
    assert found.text == (
        "No variant is measurably faster than eager: "
        "default is at 1.004× (0.99 to 1.01), b is at 0.998× (0.99 to 1.01)."
    )
    assert found.best == EAGER


def test_a_judgement_counts_not_the_interval() -> None:
    found = said(eager(), variant(judgement="same"))
    assert found.text.startswith("No variant is measurably faster")
    assert found.best == EAGER


def test_two_that_cannot_be_told_apart_are_said_to_be_and_the_one_that_compiles_faster_is_best() -> None:
    slow, quick = variant("a", 2000.0, spread=0.05, cold_s=60.0), variant("b", 2050.0, spread=0.05, cold_s=8.0)
    found = said(eager(), quick, slow, variant("c", 3000.0))
    assert found.text == (
        "a and b are fastest and can't be told apart: 2.61× (2.48 to 2.74) and 2.55× (2.42 to 2.67) over eager; "
        "b compiles faster (8.0 s, a 60 s) and pays off after 2,500 calls; c gives 1.74×."
    )
    assert found.best == "b"


def test_compile_times_that_hardly_differ_decide_nothing() -> None:
    found = said(
        eager(), variant("a", 2000.0, spread=0.05, cold_s=60.0), variant("b", 2050.0, spread=0.05, cold_s=58.0)
    )
    assert found.best == "a"
    assert "compiles faster" not in found.text


def test_an_unknown_compile_time_decides_nothing_and_gives_no_break_even() -> None:
    found = said(eager(), variant("a", 2000.0, cold_s=None), variant("b", 2010.0, cold_s=8.0))
    assert found.best == "a"
    assert "a but when that pays off is unknown" in found.text


@for_each(
    "median_us, cold_s, shown",
    [
        (4999.0, 2000.0, "pays off after 9 million calls, 13 hours of calling"),
        (2610.0, 0.002, "pays off with the first call"),
        (2610.0, 0.1, "pays off after 38 calls."),
        (2610.0, 40.0, "pays off after 15,000 calls, 80 seconds of calling"),
        (5100.0, 90_000.0, "pays off after 750 million calls, 45 days of calling"),
    ],
)
def test_how_long_until_it_pays_is_said_in_calls_and_if_long_in_time(
    median_us: float, cold_s: float, shown: str
) -> None:
    assert shown in said(eager(), variant(median_us=median_us, cold_s=cold_s)).text


def test_a_slower_one_that_pays_off_much_sooner_says_so() -> None:
    found = said(eager(), variant("a", 2000.0, cold_s=900.0), variant(cold_s=3.0))
    assert "; default gives 1.47× after 1,800 calls." in found.text


def test_a_wrong_variant_is_never_best_and_is_named() -> None:
    wrong = variant("c", 2000.0, status="wrong", correct=False)
    found = said(eager(), variant("a", 3000.0), wrong)
    assert found.best == "a"
    assert found.text.endswith(" c is faster still (2.61×), but its results are wrong.")
    assert said(eager(), wrong).best == EAGER
    assert "c is 2.61× as fast, but wrong" in said(eager(), wrong).text
    slow = variant("c", 4000.0, status="wrong", correct=False)
    assert said(eager(), variant("a", 3000.0), slow).text.endswith(" c gives wrong results.")


def test_results_that_are_not_known_to_be_right_are_said_to_be_in_doubt() -> None:
    found = said(eager(), variant(correct=None, correctness=None, reason="the program draws random numbers"))
    assert found.best == "default"
    assert found.text.endswith(
        " Whether the results of default are right is unknown: the program draws random numbers."
    )


def test_variants_that_failed_or_were_skipped() -> None:
    found = verdict(troubled().variants, QUIET)
    assert found.text.endswith("mode=max-autotune is faster (2.01×), but its results are wrong; default failed.")
    failed = ended("default", "failed", "RuntimeError: no kernel.")
    skipped = ended("b", "skipped", "there is no CUDA device")
    assert said(eager(), failed, skipped).text == (
        "Only eager mode gives right results: default failed (RuntimeError: no kernel), "
        "b was skipped (there is no CUDA device)."
    )
    assert said(eager(), skipped).text == (
        "Nothing was compared with eager mode: b was skipped (there is no CUDA device)."
    )
    many = [ended(f"v{n}", "failed", "x") for n in range(5)]
    assert said(eager(), *many).text.endswith("v2 failed (x), and 2 more.")


def test_a_long_reason_is_cut_in_the_answer() -> None:
    found = said(eager(), ended("default", "failed", f"CppCompileError: {'x' * 300}\n\nint main() {{}}"))
    assert "int main" not in found.text
    assert "x…)" in found.text
    assert len(found.text) < 250


def test_without_eager_mode_nothing_is_best() -> None:
    found = said(ended(EAGER, "failed", "ValueError: bad shape"), variant())
    assert found == BenchVerdict(
        text="Eager mode failed: ValueError: bad shape. default ran, but there is nothing to compare with.", best=None
    )


def test_eager_mode_alone_and_variants_without_times() -> None:
    assert said(eager()) == BenchVerdict(text="Only eager mode was run.", best=EAGER)
    untimed = variant(call_us=None, speedup=None, judgement="unknown")
    assert said(eager(), untimed).text == "default ran, but couldn't be timed."


def test_a_noisy_machine_is_said() -> None:
    quiet, noisy = said(eager(), variant()), said(eager(), variant(), noise=NOISY)
    assert noisy.text == (
        f"{quiet.text} The machine was noisy, so small differences can't be seen: eager mode came out at 1.08× beside "
        "itself, and the quartiles of its calls are 31% apart."
    )


# Several sizes.


def sweep(*speeds: tuple[int, float | None]) -> Sweep:
    """Sizes, each with the time of a call of ``default``; None if eager mode fails there."""
    failed = (ended(EAGER, "failed", "out of memory"),)
    return Sweep(
        sources=("x.shape[0]",),
        points=tuple(
            SweepPoint(size=size, variants=failed if us is None else (eager(), variant(median_us=us)))
            for size, us in speeds
        ),
    )


@for_each(
    "speeds, text",
    [
        (
            ((1, 5200.0), (8, 4000.0), (32, 2000.0)),
            "torch.compile is faster from x.shape[0] = 8 on. x.shape[0] = 1: no variant is measurably faster; "
            "8 and 32: default is fastest (1.30× to 2.61×).",
        ),
        (
            ((32, 2000.0), (1, 4000.0), (128, None)),
            "torch.compile is faster with every size of x.shape[0] that ran. x.shape[0] = 1 and 32: default is fastest "
            "(1.30× to 2.61×); 128: eager mode failed (out of memory).",
        ),
        (
            ((1, 2000.0), (8, 5300.0), (32, 6000.0)),
            "Whether torch.compile is faster depends on x.shape[0]. x.shape[0] = 1: default is fastest (2.61×); "
            "8 and 32: no variant is measurably faster.",
        ),
        (
            ((1, 5300.0), (8, 5300.0)),
            "No variant is measurably faster than eager with any size of x.shape[0]. x.shape[0] = 1 and 8: "
            "no variant is measurably faster.",
        ),
        (
            ((1, None),),
            "Eager mode failed with every size of x.shape[0]. x.shape[0] = 1: eager mode failed (out of memory).",
        ),
    ],
)
def test_a_sweep_says_where_it_begins_to_pay(speeds: tuple[tuple[int, float | None], ...], text: str) -> None:
    found = sweep(*speeds)
    assert verdict(found.points[-1].variants, None, found).text == text


def test_the_best_of_a_sweep_is_that_of_the_largest_size_that_ran() -> None:
    found = swept()
    assert verdict(found.variants, None, found.sweep).best == "mode=reduce-overhead"
    failed = sweep((1, None))
    assert verdict(failed.points[0].variants, None, failed).best is None


def test_the_sizes_at_which_the_machine_was_noisy_are_named() -> None:
    found = sweep((1, 2000.0), (8, 2000.0))
    noisy = found.model_copy(
        update={"points": tuple(point.model_copy(update={"noise": NOISY}) for point in found.points)}
    )
    assert verdict(found.points[0].variants, None, noisy).text.endswith(
        "The machine was noisy at 1 and 8, so small differences can't be seen."
    )


def test_where_nothing_was_compiled_that_is_the_answer():
    empty = variant("default", 5230.0, judgement="same", graphs=0)
    text = verdict((eager(), empty), None).text
    assert text.endswith("default is at 0.998× (0.99 to 1.01), where torch.compile compiled nothing.")


def test_of_two_that_can_t_be_told_apart_the_one_that_changes_least_is_best():
    first = variant("default", 3310.0, eager_us=4850.0, cold_s=11.1, spread=0.04)
    second = variant("mode=max-autotune-no-cudagraphs", 3270.0, eager_us=4850.0, cold_s=10.5, spread=0.04)
    found = verdict((eager(4850.0), first, second), None)
    assert found.best == "default"
    assert "default pays off after" in found.text


def test_a_function_over_its_limit_holds_calls_back_although_its_cost_is_compile_time():
    over = finding("GD201", "`Net.forward` runs eagerly since call 9").model_copy(update={"cost": Cost(compile_s=12.0)})
    slow = variant("default", 9000.0, findings=(over,))
    assert "What holds default back: `Net.forward` runs eagerly since call 9" in verdict((eager(), slow), None).text
