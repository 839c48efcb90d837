"""What fixes changed, in one sentence."""

from __future__ import annotations

from typing import Any

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.fixes import ColdCompile, LeftFinding, PairedTime, Treatment, TriedFix
from graphdoctor.facts.recording import TargetInfo
from graphdoctor.views.fixes import outcome, treatment_parts
from graphdoctor.views.parts import statements
from tests.each import for_each
from tests.factories import recording
from tests.render.html.made import diagnosed

BEFORE = Counts(
    break_sites=3, skipped_frames=0, graphs=27, compiles=30, recompiles=17, frames_over_limit=0, coverage=0.5
)


def target(backend: str = "eager") -> TargetInfo:
    return TargetInfo(text="model.py", compile_arguments={"backend": backend})


def fix(number: int = 1, **values: Any) -> TriedFix:
    return TriedFix(
        **{
            "title": f"Fix {number}", "kind": "code", "is_safe": True, "code": "GD101", "fingerprint": f"f{number}",
            "place": f"model.py:{number}", "round": 1, "is_on_untouched": True, "verdict": "verified",
            "is_applied": True, "diff": f"-{number}\n", **values,
        }
    )  # fmt: skip


def treated(*tried: TriedFix, times: tuple[PairedTime, ...] = (), **after: Any) -> Treatment:
    return Treatment(tried=tried or (fix(),), before=BEFORE, after=BEFORE.model_copy(update=after), times=times)


def times(backend: str, ratio: float, low: float, high: float) -> PairedTime:
    return PairedTime(
        backend=backend, before_us=100.0, after_us=100.0 * ratio, ratio=ratio, ratio_low=low, ratio_high=high, turns=21
    )


def said(treatment: Treatment, backend: str = "eager") -> str:
    return outcome(treatment, target(backend)).replace("\N{MULTIPLICATION SIGN}", "x")


def shown(treatment: Treatment) -> str:
    return ", ".join(filter(None, statements(tuple(treatment_parts(diagnosed(recording()), treatment)))))


FASTER, SLOWER = times("inductor", 0.59, 0.58, 0.6), times("inductor", 1.2, 1.1, 1.3)


def test_cuda_graphs_that_torch_records_with_a_fix_are_counted() -> None:
    treatment = treated(cuda_graphs=1).model_copy(update={"before": BEFORE.model_copy(update={"cuda_graphs": 0})})
    assert said(treatment) == "With the fix: 0 → 1 CUDA graphs; the call wasn't timed."
    assert "CUDA graphs, 0, 1" in shown(treatment)
    assert "CUDA graphs" not in said(treated(cuda_graphs=1))


UNTIMED = "the call wasn't timed"
UNCLEAR = ((0.9, 0.8, 1.01), (1.02, 1.0, 1.04), (0.999, 0.998, 0.9995))
SAME = "With the fix: 27 → 3 graphs, no measurable difference in speed."
INTERRUPTED = treated(graphs=3).model_copy(update={"is_interrupted": True})


@for_each(
    "treatment, backend, says",
    [
        (
            treated(graphs=3, recompiles=0, times=(FASTER,)),
            "inductor",
            "With the fix: 27 → 3 graphs, 17 → 0 recompiles, 1.7x faster.",
        ),
        (
            treated(fix(1), fix(2), break_sites=1, coverage=1.0),
            "eager",
            f"With both fixes: 3 → 1 break sites, 50% → 100% coverage; {UNTIMED}.",
        ),
        # What got worse.
        (
            treated(fix(1), fix(2), fix(3), graphs=29, times=(SLOWER,)),
            "eager",
            "With all 3 fixes: 27 → 29 graphs, 1.2x slower under inductor.",
        ),
        # One edit for several findings is one fix.
        (
            treated(fix(1, diff="-same"), fix(2, title="Fix 1", diff="-same"), graphs=3),
            "eager",
            "With the fix: 27 → 3 graphs; the call wasn't timed.",
        ),
        # No speed is claimed that wasn't measured, and eager doesn't decide beside inductor.
        *((treated(graphs=3, times=(times("inductor", *pair),)), "eager", SAME) for pair in UNCLEAR),
        (
            treated(graphs=3, times=(times("eager", 0.2, 0.2, 0.2), SLOWER)),
            "eager",
            "With the fix: 27 → 3 graphs, 1.2x slower under inductor.",
        ),
        (
            treated(graphs=3, times=(times("eager", 0.5, 0.5, 0.5),)),
            "eager",
            "With the fix: 27 → 3 graphs, 2.0x faster.",
        ),
        # Unknown coverage is no change.
        (treated(graphs=3, coverage=None), "eager", "With the fix: 27 → 3 graphs; the call wasn't timed."),
        (treated(times=(FASTER,)), "eager", "With the fix: no count changed, 1.7x faster under inductor."),
        (treated(), "eager", "With the fix: no count changed; the call wasn't timed."),
        (INTERRUPTED, "eager", f"With the fix: 27 → 3 graphs; {UNTIMED}; interrupted before everything was tried."),
        # Nothing was applied, which isn't called a failure.
        (
            Treatment(tried=(fix(1, is_applied=False),), before=BEFORE, is_interrupted=True),
            "eager",
            "Interrupted before fixes were put together: 1 fix tried (1 verified).",
        ),
        (Treatment(tried=(), before=BEFORE, is_interrupted=True), "eager", "Interrupted before a fix was tried."),
    ],
)
def test_what_changed_is_named_and_nothing_that_was_not_measured(treatment: Treatment, backend: str, says: str) -> None:
    assert said(treatment, backend) == says


LEFT = LeftFinding(code="GD101", place="model.py:3", message="broken", reason="no fix is known")


@for_each("tried, left, says", [
        ((), (), "there is nothing to fix"),
        ((), (LEFT,), "no fix is known"),
        (({"untried_cause": "unsafe"},), (LEFT,), "no safe fix is known; --unsafe-fixes tries the others"),
        (({"untried_cause": "not_requested", "reason": "trials are off"}, {"untried_cause": "unsafe"}), (LEFT,),
         "nothing was tried, because trials are off"),
        (({"verdict": "no effect"},), (LEFT,), "1 fix tried (1 no effect), none kept"),
        (({"verdict": "no effect"}, {"verdict": "failed"}, {"verdict": "no effect"}, {"untried_cause": "unsafe"}),
         (LEFT,), "3 fixes tried (2 no effect, 1 failed), none kept"),
    ])  # fmt: skip
def test_nothing_changed_says_why(tried: tuple[dict[str, Any], ...], left: tuple[LeftFinding, ...], says: str) -> None:
    cases = tuple(
        fix(number, **{"is_applied": False, "verdict": "not tried", **values}) for number, values in enumerate(tried)
    )
    treatment = Treatment(tried=cases, before=BEFORE, left=left)
    assert said(treatment) == f"Nothing changed: {says}."


def test_what_compiling_takes_is_named_where_a_fix_is_about_that() -> None:
    cold = ColdCompile(backend="inductor", before_s=133.72, after_s=50.31)
    treatment = treated(coverage=0.45, times=(FASTER,)).model_copy(update={"cold_compile": cold})
    assert said(treatment, "inductor") == (
        "With the fix: 50% → 45% coverage, 133.7 → 50.3 s of compiling, 1.7x faster."
    )
    assert "compiling, inductor, 133.7 s, 50.3 s" in shown(treatment)
