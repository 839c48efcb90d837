"""What only time tells of fixes: which one makes the steady call slower, and whether to compile
repeated modules apart.

Compiling each of the modules that repeat by itself removes no break and no recompile, so counts
don't judge it: it must take less time to compile, with an empty cache, and the call must not take
longer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from graphdoctor.facts.fixes import ColdCompile, Verdict
from graphdoctor.facts.progress import DecidedTrial
from graphdoctor.facts.recording import Recording
from graphdoctor.fixes.log import TrialLog
from graphdoctor.fixes.patch import Candidate, Options, with_fixes
from graphdoctor.fixes.run_changes import call_fix
from graphdoctor.fixes.trials import State, Trials, UserBackend
from graphdoctor.fixes.verdicts import REPEATED_BLOCKS, Judgment
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.trials.judge import Observed, clause
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.timing import plainly_slower, slower

_MAX_TIMED = 6
"""How many fixes are timed one by one; all together are always timed."""


class Slowness:
    """Times the fixes of a treatment."""

    def __init__(self, trials: Trials, log: TrialLog, *, is_each: bool) -> None:
        self._trials = trials
        self._log = log
        self._is_each = is_each

    def blamed(self, best: State) -> tuple[Candidate, str, str] | None:
        """The fix to blame if all of them make the call plainly longer, what it does, and what all
        of them do.

        None if the call takes no longer, or so little that only a toy shows it.
        """
        if self._is_each:
            self._trials.time(Program(), best.program)
        together = self._trials.confirmed(Program(), best.program, plainly_slower)
        found = self._slow_alone(best) if self._is_each else None
        if together is not None and found is None:
            found = self._slow_first(best, together)
        self.note_times(best)
        if found is None:
            return None
        fix, change = found
        alone = f"with it, the steady call is {change}"
        return (
            fix,
            alone,
            alone if together is None else f"with all of them, the steady call is {together}",
        )

    def time_set(self, best: State) -> None:
        """Time all fixes together."""
        (self._trials.time if self._is_each else self._trials.decided)(Program(), best.program)
        self.note_times(best)

    def _slow_first(self, best: State, change: str) -> tuple[Candidate, str]:
        """The first fix with which the call takes longer, beside those before it, by bisection."""
        fast, slow = 0, len(best.applied)
        while slow - fast > 1:
            middle = (fast + slow) // 2
            found = self._trials.confirmed(Program(), best.first(middle).program, plainly_slower)
            fast, slow, change = (middle, slow, change) if found is None else (fast, middle, found)
        return best.applied[fast][0], change

    def _slow_alone(self, best: State) -> tuple[Candidate, str] | None:
        timed = best.applied[:_MAX_TIMED]
        for pair in timed:
            self._trials.time(*added(*pair))
        for fix, before in timed:
            # A step counts together with what follows it.
            if not self._log.is_step(fix):
                change = self._trials.confirmed(*added(fix, before), plainly_slower)
                if change is not None:
                    return fix, change
        return None

    def note_times(self, best: State) -> None:
        """Note what is known of the times of each fix."""
        for pair in best.applied:
            self._log.add_times(pair[0], self._trials.times_of(*added(*pair)))
        if self._is_each and len(best.applied) > _MAX_TIMED:
            self._trials.notes.append(f"only the first {_MAX_TIMED} fixes are timed one by one")


def added(fix: Candidate, before: Program) -> tuple[Program, Program]:
    """A program without a fix that was made for it, and with it."""
    return before, with_fixes(before, (fix,))


_LESS = 0.9
"""The most that compiling may take, beside what it takes without the fix."""


def regional_options(observed: Observed, selection: Selection) -> Options | None:
    """What can be tried for modules that repeat in one graph; None if none do."""
    for finding in observed.diagnosis.findings:
        if finding.code == REPEATED_BLOCKS and selection.keeps(finding):
            (suggested,) = finding.fixes
            fix = call_fix("", suggested.title, RunChange(regional=True), snippet=suggested.snippet)
            fix = replace(
                fix,
                is_safe=suggested.is_safe,
                targets=(finding.fingerprint,),
                place=suggested.place,
            )
            return Options(finding, (fix,))
    return None


@dataclass(frozen=True)
class _Start:
    compiling_s: float
    calls_s: float

    def is_quicker(self, other: _Start) -> bool:
        return self.compiling_s < _LESS * other.compiling_s and self.calls_s < _LESS * other.calls_s


class Regional:
    """Regional compilation in one treatment."""

    def __init__(
        self, trials: Trials, log: TrialLog, backend: UserBackend, *, is_timed: bool
    ) -> None:
        self._trials = trials
        self._log = log
        self._backend = backend
        self._is_timed = is_timed

    def tried(self, options: Options, best: State, number: int) -> State | None:
        """Try it on the best program so far."""
        (fix,) = options.fixes
        numbers: list[int] = []
        [observed] = self._trials.run_each(
            [fix],
            best,
            f"{number}.regional",
            lambda _index, trial, _observed: numbers.append(trial),
        )
        judged, cold = self._judged(fix, best, observed)
        self._log.note(
            options.finding, fix, best, number, judged=judged, after=observed, cold_compile=cold
        )
        place = self._log.shown_place(options.finding, best.program)
        self._trials.numbers.report(DecidedTrial(numbers[0], fix.title, ((place, judged.verdict),)))
        if judged.verdict != "verified":
            return None
        self._log.apply([fix], number)
        # Less of it is in graphs, on purpose.
        return best.joined([fix], observed, mended_count=1, is_outweighed=True)

    def _judged(
        self, fix: Candidate, best: State, observed: Observed
    ) -> tuple[Judgment, ColdCompile | None]:
        verdict, reason = self._results(best, fix, observed)
        if verdict != "verified":
            return Judgment(verdict, reason), None
        before, after, name = best.program, with_fixes(best.program, (fix,)), self._trials.backend
        # Two pairs of processes must agree.
        found = [one for number in (1, 2) for one in self._started(before, after, f"cold-{number}")]
        starts = [one for one in found if isinstance(one, _Start)]
        if failed := [one for one in found if isinstance(one, str)]:
            return Judgment("failed", f"with an empty cache, under {name}: {failed[0]}"), None
        pairs = list(zip(starts[::2], starts[1::2], strict=True))
        was, now = (
            min(start.compiling_s for start in each) for each in (starts[::2], starts[1::2])
        )
        cold = ColdCompile(backend=name, before_s=was, after_s=now)
        took = f"with an empty cache, compiling takes {was:.1f} s → {now:.1f} s under {name}"
        if not all(quick.is_quicker(slow) for slow, quick in pairs):
            return Judgment("no effect", took), cold
        if self._is_timed and (change := self._trials.confirmed(before, after, slower)) is not None:
            return Judgment("makes it worse", f"{took}, but the steady call is {change}"), cold
        return Judgment("verified", took), cold

    def _results(
        self, best: State, fix: Candidate, observed: Observed
    ) -> tuple[Verdict, str | None]:
        recording = observed.recording
        if recording.exit.reason != "finished":
            return "failed", clause(recording.exit.message)
        verdict, reason = self._trials.reference.judge(recording, drops_output=best.drops_output)
        if (
            verdict == "verified"
            and observed.measures.frames_over_limit > best.observed.measures.frames_over_limit
        ):
            return "makes it worse", "a block hits its recompile limit with it"
        if verdict == "verified" and self._backend.is_another:
            check = self._backend.check(
                with_fixes(best.program, (fix,)), drops_output=best.drops_output
            )
            return check.verdict, check.reason and f"under {self._backend.name}: {check.reason}"
        return verdict, reason

    def _started(self, before: Program, after: Program, name: str) -> list[_Start | str]:
        """Start two programs side by side, each with an empty cache; for one that failed, why, as a
        clause.
        """
        self._trials.on_phase("compiling with an empty cache")

        def run(item: tuple[Program, str]) -> Recording:
            program, which = item
            return self._trials.replays.replay(
                program, f"{name}-{which}", backend=self._trials.backend, is_cold=True
            )

        pair = [(before, "before"), (after, "after")]
        return [
            _start(one)
            for one in self._trials.replays.in_parallel(run, pair, jobs=self._trials.jobs)
        ]


def _start(recording: Recording) -> _Start | str:
    if recording.exit.reason != "finished":
        return clause(recording.exit.message)
    compiling = [one.duration_s for one in recording.compiles if one.duration_s is not None]
    if not compiling:
        return "torch doesn't say what compiling takes"
    return _Start(sum(compiling), sum(call.duration_s or 0.0 for call in recording.calls))
