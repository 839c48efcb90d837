"""What fixes changed, in one sentence."""

from __future__ import annotations

from typing import Any

from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.fixes import (
    LeftFinding,
    PairedTime,
    Reason,
    SiteCounts,
    Treatment,
    TriedFix,
    WholeRun,
    because,
)
from graphdoctor.facts.recording import TargetInfo
from graphdoctor.facts.trials import Difference, ResultKind
from graphdoctor.views.fixes import outcome, treatment_parts
from graphdoctor.views.reasons import verdict_text
from graphdoctor.views.words import time_changes
from tests.each import for_each
from tests.factories import diagnosed, recording
from tests.views.outputs import statements

BEFORE = Counts(
    break_sites=3,
    skipped_frames=0,
    graphs=27,
    compiles=30,
    recompiles=17,
    frames_over_limit=0,
    coverage=0.5,
)


def target(backend: str = "eager") -> TargetInfo:
    return TargetInfo(text="model.py", compile_arguments={"backend": backend})


def fix(number: int = 1, **values: Any) -> TriedFix:
    return TriedFix(
        **{
            "title": f"Fix {number}", "kind": "code", "is_safe": True, "code": "GD101", "fingerprint": f"f{number}",
            "finding_place": f"model.py:{number}", "round": 1, "is_on_untouched": True, "verdict": "verified",
            "is_applied": True, "diff": f"-{number}\n", **values,
        }
    )  # fmt: skip


def treated(*tried: TriedFix, times: tuple[PairedTime, ...] = (), **after: Any) -> Treatment:
    return Treatment(
        tried=tried or (fix(),), before=BEFORE, after=BEFORE.replace(**after), times=times
    )


def times(backend: str, ratio: float, low: float, high: float) -> PairedTime:
    return PairedTime(
        backend=backend,
        before_us=100.0,
        after_us=100.0 * ratio,
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        turns=21,
    )


def shown(treatment: Treatment) -> str:
    return ", ".join(
        filter(None, statements(tuple(treatment_parts(diagnosed(recording()), treatment))))
    )


FASTER, SLOWER = times("inductor", 0.59, 0.58, 0.6), times("inductor", 1.2, 1.1, 1.3)


def nothing(*tried: dict[str, Any], left: bool = True) -> Treatment:
    """Fixes of which none was applied."""
    found = LeftFinding(code="GD101", place="model.py:3", message="broken")
    cases = [
        fix(number, **{"is_applied": False, "verdict": "not tried"} | one)
        for number, one in enumerate(tried)
    ]
    return Treatment(tried=tuple(cases), before=BEFORE, left=(found,) if left else ())


def recording_graphs() -> Treatment:
    """CUDA graphs that torch records with a fix, and not before."""
    return treated(cuda_graphs=1).replace(before=BEFORE.replace(cuda_graphs=0))


def losing(reason: Reason) -> Treatment:
    """A fix that loses what the reason names."""
    return treated(fix(verdict="verified with loss", reasons=(because("until_others", reason),)))


def dropped(kind: ResultKind) -> Reason:
    return because("drops_lines", Difference(kind=kind, where="call 1"))


UNSAFE = {"untried_cause": "unsafe"}
INTERRUPTED = {"is_interrupted": True}
UNCLEAR = ((0.9, 0.8, 1.01), (1.02, 1.0, 1.04), (0.999, 0.998, 0.9995))
OUTCOMES: dict[str, tuple[Treatment, str]] = {
    "faster": (treated(graphs=3, recompiles=0, times=(FASTER,)), "inductor"),
    "two fixes": (treated(fix(1), fix(2), break_sites=1, coverage=1.0), "eager"),
    "what got worse": (treated(fix(1), fix(2), fix(3), graphs=29, times=(SLOWER,)), "eager"),
    "one edit for several findings is one fix": (
        treated(fix(1, diff="-same"), fix(2, title="Fix 1", diff="-same"), graphs=3), "eager"
    ),
    # No speed is claimed that wasn't measured, and eager doesn't decide beside inductor.
    **{f"unclear, {pair}": (treated(graphs=3, times=(times("inductor", *pair),)), "eager") for pair in UNCLEAR},
    # Each turn was shorter, and their medians say the opposite.
    "contradictory": (treated(graphs=3, times=(FASTER.replace(before_us=202.0, after_us=207.0),)), "eager"),
    "slower under inductor": (treated(graphs=3, times=(times("eager", 0.2, 0.2, 0.2), SLOWER)), "eager"),
    "faster under eager": (treated(graphs=3, times=(times("eager", 0.5, 0.5, 0.5),)), "eager"),
    "unknown coverage is no change": (treated(graphs=3, coverage=None), "eager"),
    "faster alone": (treated(times=(FASTER,)), "eager"),
    "no count changed": (treated(), "eager"),
    "CUDA graphs": (recording_graphs(), "eager"),
    "CUDA graphs that were unknown before": (treated(cuda_graphs=1), "eager"),
    "interrupted": (treated(graphs=3).replace(**INTERRUPTED), "eager"),
    # Nothing was applied, which isn't called a failure.
    "interrupted before": (nothing({"verdict": "verified"}, left=False).replace(**INTERRUPTED), "eager"),
    "interrupted at once": (nothing(left=False).replace(**INTERRUPTED), "eager"),
    "nothing to fix": (nothing(left=False), "eager"),
    "no fix": (nothing(), "eager"),
    "not tried as unsafe": (nothing(UNSAFE), "eager"),
    "trials are off": (nothing({"untried_cause": "not_requested"}, UNSAFE), "eager"),
    "one without effect": (nothing({"verdict": "no effect"}), "eager"),
    "none kept": (
        nothing(*({"verdict": verdict} for verdict in ("no effect", "failed", "no effect")), UNSAFE), "eager"
    ),
}  # fmt: skip


def test_what_changed_is_named_and_nothing_that_was_not_measured(
    snapshot: SnapshotAssertion,
) -> None:
    told = {
        name: outcome(treatment, target(backend)) for name, (treatment, backend) in OUTCOMES.items()
    }
    assert told == snapshot
    assert "CUDA graphs, 0, 1" in shown(recording_graphs())


@for_each(
    "reason, lost",
    [
        (dropped("stdout"), "prints are lost"),
        (dropped("logs"), "log lines are lost"),
        (because("exceptions"), "another exception is raised"),
        (because("not_kept", "self.seen"), "a value isn't kept"),
    ],
)
def test_a_fix_that_loses_output_never_goes_without_saying_so(reason: Reason, lost: str) -> None:
    treatment = losing(reason)
    assert f"; {lost} when compiled" in outcome(treatment, target())
    [tried] = treatment.tried
    assert verdict_text(tried) == f"gone, but {lost} when compiled"
    whole = tried.replace(is_one_graph=True, grade="guarded")
    assert verdict_text(whole) == f"one graph, with a guard, but {lost} when compiled"
    assert "The applied fix" in shown(treatment)


WIDE = times("inductor", 0.07, 0.06, 0.37).replace(before_us=40420.0, after_us=2810.0)


@for_each("timed", [WIDE, FASTER, SLOWER, FASTER.replace(before_us=202.0, after_us=207.0)])
def test_the_table_and_the_last_line_give_one_speed(timed: PairedTime) -> None:
    treatment = treated(graphs=3, times=(timed,))
    [(*_, in_table)] = time_changes(treatment)
    assert in_table.partition(" (")[0] in outcome(treatment, target("inductor"))


@for_each(
    "values, said",
    [
        ({"grade": "merged"}, "gone"),
        ({"grade": "merged", "is_one_graph": True}, "one graph"),
        ({"grade": "guarded", "is_one_graph": True}, "one graph, with a guard"),
        ({"grade": "guarded", "kind": "config"}, "gone, with a setting"),
        ({"grade": "guarded", "kind": "config", "is_one_graph": True}, "one graph, with a setting"),
        ({"grade": "guarded", "kind": "call"}, "gone, with another call"),
        ({"grade": "contained"}, "break stays"),
        ({"grade": "contained", "is_one_graph": True}, "break stays"),
        ({"grade": "contained", "is_faster": True}, "faster, break stays"),
        ({"grade": "contained", "verdict": "contained", "is_faster": True}, "faster, break stays"),
        ({"grade": "merged", "verdict": "contained"}, "break stays"),
        ({"grade": "merged", "verdict": "unproven"}, "unproven"),
    ],
)
def test_each_grade_has_words_of_its_own_and_none_is_just_verified(
    values: dict[str, Any], said: str
) -> None:
    assert verdict_text(fix(**values)) == said


ONE, BROKEN = WholeRun(is_one_graph=True), WholeRun(is_one_graph=False)
SITES: dict[str, tuple[WholeRun | None, SiteCounts, str]] = {
    "all merged": (ONE, SiteCounts(merged=3), "With the fix: one graph; "),
    "a guard": (ONE, SiteCounts(guarded=1), "With the fix: one graph, with a guard; "),
    "both": (
        ONE,
        SiteCounts(merged=2, guarded=1),
        "one graph, with a guard (2 breaks gone, 1 by a setting or guard); ",
    ),
    "all kinds": (
        BROKEN,
        SiteCounts(merged=1, guarded=2, contained=3, left=4),
        "not one graph (1 break gone; 2 by a setting or guard; 3 where the break stays; 4 left); ",
    ),
    "none by an edit": (
        BROKEN,
        SiteCounts(guarded=2, left=1),
        "not one graph (2 breaks gone by a setting or guard, 1 left); ",
    ),
    "not asked": (None, SiteCounts(merged=1, left=1), "With the fix: 1 break gone, 1 left; "),
    "no breaks": (ONE, SiteCounts(), "With the fix: no count changed"),
}


@for_each("name", list(SITES))
def test_the_last_line_counts_the_three_kinds_apart(name: str) -> None:
    whole, sites, said = SITES[name]
    treatment = treated(fix(grade="guarded" if sites.guarded else "merged"))
    assert said in outcome(treatment.replace(whole=whole, sites=sites), target())


def test_lines_that_nobody_writes_are_counted_apart_from_the_fixes() -> None:
    setting = fix(kind="config", diff=None, snippet="a.b = 1")
    by_hand = treated(setting, fix(2), recompiles=0).replace(settings=("a.b = 1",))
    said = outcome(by_hand, target())
    assert said.startswith("With both fixes (1 line of them to add yourself): ")
    assert "to add yourself" not in outcome(by_hand.replace(settings_file="a.py"), target())


@for_each(
    "whole, said",
    [
        (ONE, "Runs under fullgraph=True: each call is one graph."),
        (
            BROKEN.replace(code="GD103", place="model.py:30", message="`x.item()` reads a tensor"),
            "Not one graph: GD103 at model.py:30 `x.item()` reads a tensor.",
        ),
        (BROKEN, "Not one graph: with these fixes, torch leaves a function uncompiled."),
    ],
)
def test_what_keeps_it_from_being_one_graph_is_shown(whole: WholeRun, said: str) -> None:
    assert said in shown(treated().replace(whole=whole))
