"""Compiling each of the modules that repeat by itself: no break and no recompile goes with it, so
counts don't judge it.

It must take less time to compile, with an empty cache, and the call must not take longer.
"""

from __future__ import annotations

from graphdoctor.facts.fixes import ColdCompile, Verdict, because
from graphdoctor.facts.recording import Recording
from graphdoctor.fixes.trials import Trial, Trials, holds
from graphdoctor.fixes.user_backend import UserBackend
from graphdoctor.fixes.verdicts import Judgment
from graphdoctor.trials.judge import failure_of
from graphdoctor.trials.program import Program
from graphdoctor.trials.timing import slower

_LESS = 0.9
"""The most that compiling repeated modules apart may take, beside compiling them in one graph."""


def judge_regional(
    trial: Trial, trials: Trials, backend: UserBackend, *, is_timed: bool
) -> tuple[Judgment, ColdCompile | None]:
    """Judge a trial of compiling modules apart, and time compiling."""
    best, observed, name = trial.state, trial.observed, trials.backend
    before, after = trial.programs
    verdict: Verdict
    if not observed.is_finished:
        return Judgment("failed", (observed.failure,)), None
    verdict, reasons = trials.reference.judge(observed.recording)
    was, now = best.observed.measures, observed.measures
    is_held = holds(verdict, drops_output=best.drops_output)
    if is_held and now.frames_over_limit > was.frames_over_limit:
        verdict, reasons = "makes it worse", (because("block_over_limit"),)
    elif is_held and backend.is_another:
        check = backend.check(after, drops_output=best.drops_output)
        verdict = check.verdict
        reasons = (because("under", name, *check.reasons),) if check.reasons else ()
    if not holds(verdict, drops_output=best.drops_output):
        return Judgment(verdict, reasons), None

    def start(item: tuple[Program, str]) -> Recording:
        return trials.replays.replay(*item, backend=name, is_cold=True)

    starts = []
    # Two pairs of processes must agree.
    for number in (1, 2):
        trials.on_phase("compiling with an empty cache")
        pair = [(before, f"cold-{number}-before"), (after, f"cold-{number}-after")]
        starts.append(trials.replays.in_parallel(start, pair, jobs=trials.jobs))
    for recording in (recording for pair in starts for recording in pair):
        is_finished = recording.exit.reason == "finished"
        if not is_finished or not _compile_times(recording):
            failure = because("no_compile_times") if is_finished else failure_of(recording)
            return Judgment("failed", (because("cold_failure", name, failure),)), None
    before_s, after_s = (
        min(sum(_compile_times(recording)) for recording in side)
        for side in zip(*starts, strict=True)
    )
    cold = ColdCompile(backend=name, before_s=before_s, after_s=after_s)
    took = because("cold_compile", before_s, after_s, name)
    if not all(_is_quicker(apart, whole) for whole, apart in starts):
        return Judgment("no effect", (took,)), cold
    times = trials.confirmed(before, after, slower) if is_timed else None
    if times is not None:
        call = because("call", times)
        return Judgment("makes it worse", (because("but", took, call),)), cold
    return Judgment("verified", (took,)), cold


def _compile_times(recording: Recording) -> list[float]:
    return [item.duration_s for item in recording.compiles if item.duration_s is not None]


def _is_quicker(apart: Recording, whole: Recording) -> bool:
    sums = [
        (sum(_compile_times(item)), sum(call.duration_s or 0.0 for call in item.calls))
        for item in (apart, whole)
    ]
    return all(seconds < _LESS * limit for seconds, limit in zip(*sums, strict=True))
