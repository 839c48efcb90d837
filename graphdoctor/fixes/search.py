"""Searches for the fixes that hold together: try, keep, halve.

A fix can uncover the next break, so each round starts from the program with the verified fixes of
earlier rounds. Where fixes don't hold together, halves of them are tried. What the user's backend,
the clock or a moved break say against the best program takes one fix back, and the search goes on
from the program before it.
"""

from __future__ import annotations

import itertools
import operator
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import (
    WORKING,
    ColdCompile,
    PairedTime,
    Reason,
    Treatment,
    TriedPatch,
    UntriedCause,
    Verdict,
    because,
)
from graphdoctor.facts.progress import DecidedTrial
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import Recording
from graphdoctor.fixes.entry_file import with_settings
from graphdoctor.fixes.log import TrialLog
from graphdoctor.fixes.options import Sources, options_for, treated_findings
from graphdoctor.fixes.patch import (
    Candidate,
    FileChange,
    Options,
    Patch,
    SearchOptions,
    SearchResult,
    compatible,
    diff_text,
    with_fixes,
)
from graphdoctor.fixes.run_changes import regional_options
from graphdoctor.fixes.trials import INDUCTOR, Check, Numbers, State, Trials, UserBackend
from graphdoctor.fixes.verdicts import (
    BREAK,
    REPEATED_BLOCKS,
    SKIPPED_FRAME,
    Judgment,
    Reasons,
    Score,
    is_less_compiled,
    judge_patch,
    made_worse,
    score,
)
from graphdoctor.probe.wire import FIXES_FILE
from graphdoctor.trials.judge import Observed, failure_of
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.recorded import fitting
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import EAGER, Replays
from graphdoctor.trials.timing import faster, plainly_slower, slower

FOLDER = "fixes"
_MAX_JOBS = 4
_MAX_ROUNDS = 12
_MAX_REPLAYS = 100
_MAX_TIMED = 6
"""How many fixes are timed one by one; all together are always timed."""
_LESS = 0.9
"""The most that compiling repeated modules apart may take, beside compiling them in one graph."""

CheckEdits = Callable[[Sequence[FileChange]], None]


@dataclass(eq=False)
class _Trial:
    """One fix in a wave of trials, for all findings that it is the fix for."""

    fix: Candidate
    findings: list[Finding]
    number: int = 0
    verdicts: list[Verdict] = field(default_factory=list)
    announced: list[Verdict] | None = None
    observed: Observed | None = None

    @property
    def is_working(self) -> bool:
        return any(verdict in WORKING for verdict in self.verdicts)


def search(
    request: Request,
    folder: Path,
    recording: Recording,
    *,
    root: Path,
    options: SearchOptions,
    setup: Setup,
    check: CheckEdits | None = None,
    patch: Patch | None = None,
) -> SearchResult:
    """Try fixes for the findings of a recorded run, or a patch; the trials' recordings go below its
    folder.

    ``check`` is called before any trial with the edits that can be tried; an exception from it ends
    the treatment.
    """
    setup = replace(setup, timeout_s=options.timeout_s, memory_bytes=options.memory_bytes)
    replays = Replays(request, folder / FOLDER, setup)
    jobs = options.jobs or default_jobs(request, recording)
    numbers = Numbers(setup.on_phase, setup.on_trial)
    trials = Trials(replays, root, jobs, request.spec.backend, setup.on_phase, numbers)
    searching = _Search(trials, options, recording)
    try:
        searching.result = searching.run(check) if patch is None else searching.run_patch(patch)
        return searching.result
    except KeyboardInterrupt:
        replays.cancel()
        raise
    finally:
        replays.close()
        if searching.result is not None:
            write_fact(searching.result.treatment, folder / FIXES_FILE)


def default_jobs(request: Request, recording: Recording) -> int:
    """Count the trials to run side by side: those on one accelerator share its memory."""
    if request.spec.device is not None:
        return 1
    return fitting(recording.exit.peak_memory_bytes, most=min(_MAX_JOBS, os.cpu_count() or 1))


class _Search:
    """The state of one search: what it began with, the best program so far, and every program on
    the way to it.
    """

    def __init__(self, trials: Trials, options: SearchOptions, recording: Recording) -> None:
        self._trials, self._options = trials, options
        self._recording = recording
        self._log = TrialLog(trials, options.selection)
        self._backend = UserBackend(trials)
        self._base = self._untouched = self._best = State(Program(), trials.observe(recording))
        self._kept: list[State] = []
        self._repeated = regional_options(self._base.observed, options.selection)
        self._round = 0
        self._outweighed: set[Candidate] = set()
        """Fixes with which less is compiled, and which are worth it."""
        self._is_containing = False
        self._leaving_out, self._together = itertools.count(1), itertools.count(1)
        self.result: SearchResult | None = None

    def run(self, check: CheckEdits | None) -> SearchResult:
        """Search; if an interrupt ends it, ``result`` holds the fixes verified until then."""
        base, is_timed = self._base, self._options.is_timed
        if not self._options_for(base) and self._repeated is None:
            return self._treated()
        if self._recording.exit.reason != "finished":
            self._trials.notes.append(because("unfinished"))
            return self._suggested("unfinished_run")
        if not self._options.is_tried:
            return self._suggested("not_requested")
        open_options = self._open(base)
        if not open_options and self._repeated is None:
            return self._treated()
        if check is not None:
            check(self._writable([fix for options in open_options for fix in options.fixes]))
        if not self._run_untouched({options.finding.fingerprint for options in open_options}):
            return self._suggested("not_repeatable")
        try:
            self._keep_what_holds()
            self._best = self._with_containing(self._best)
            self._best = self._without_slow(self._best)
            if self._repeated is not None:
                self._best = self._with_regional(self._repeated, self._best)
            if is_timed and self._best.applied:
                self._time_all(self._best)
            return self._treated()
        except KeyboardInterrupt:
            self._trials.notes.append(because("interrupted"))
            is_checked = self._backend.known(self._best.program) is not None
            if self._best.applied and self._backend.is_another and not is_checked:
                self._doubt(self._best, (because("not_run_there"),))
            result = self._treated()
            self.result = replace(result, treatment=result.treatment.replace(is_interrupted=True))
            raise

    def _run_untouched(self, fingerprints: set[str]) -> bool:
        has_inductor = self._options.is_timed or self._trials.backend == INDUCTOR
        self._trials.replays.prepare(INDUCTOR if has_inductor else EAGER)
        untouched = self._trials.run_untouched(self._base.observed, fingerprints)
        if untouched is not None:
            self._untouched = self._best = untouched
        return untouched is not None

    def _keep_what_holds(self) -> None:
        """Search from the untouched program, and again from before each fix that is taken back."""
        start: State | None = self._untouched
        while start is not None:
            best, is_open = self._rounds(start)
            while is_open:
                # A fix that was tried beside one that is taken back may help by itself.
                self._best = best
                best, is_open = self._rounds(best)
            self._best = best = self._pruned(best)
            check = self._check_elsewhere(best)
            if check is not None and check.verdict == "unproven":
                self._doubt(best, check.reasons)
                return
            start = self._without_failing(best, check) or self._without_moved(best)

    # Rounds: try what is open for a program, and keep what works.

    def _rounds(self, start: State) -> tuple[State, bool]:
        """Run rounds until no more fixes work; returns the best state on the way, and whether any
        fix worked.
        """
        states = [start]
        while open_options := self._open(states[-1]):
            if self._round >= _MAX_ROUNDS or self._is_exhausted:
                values = self._round, self._trials.replays.count
                self._trials.notes.append(because("bounded", *values))
                break
            self._round += 1
            following = self._run_round(states[-1], open_options)
            if following is not None:
                states.append(following)
                self._kept.append(following)
                self._best = following
            elif self._round < _MAX_ROUNDS and not self._is_exhausted:
                break
        settled = [at for at, state in enumerate(states) if not self._log.has_moved_break(state)]
        at = min(settled or [0], key=lambda index: (states[index].score, index))
        if at + 1 < len(states):
            self._take_back_worse(states[at], states[at + 1], states[-1])
        return states[at], len(states) > 1

    def _run_round(self, state: State, open_options: Sequence[Options]) -> State | None:
        # Breaks first: a break makes resume functions, and these recompile.
        breaks = [options for options in open_options if options.finding.code.startswith(BREAK)]
        rest = [options for options in open_options if options not in breaks]
        steps: list[_Trial] = []
        for number, waiting in enumerate((breaks, rest), start=1):
            useful = self._run_waves(waiting, state, f"{self._round}.{number}")
            if working := [trial for trial in useful if trial.is_working]:
                return self._join(state, working)
            steps += useful
        return self._join(state, steps[:1]) if steps else None

    def _run_waves(self, waiting: list[Options], state: State, label: str) -> list[_Trial]:
        """Try the first fix for each finding, then the next ones for those that it doesn't help;
        returns the trials to keep.
        """
        useful: list[_Trial] = []
        for wave in itertools.count(1):
            if not waiting or self._is_exhausted:
                break
            breaks = [options for options in waiting if options.finding.code != SKIPPED_FRAME]
            now = [options for options in waiting if not _is_skipped_at(options, breaks)]
            trials = _trials_of(now)
            self._try(trials, state, f"{label}.{wave}")
            following = [options for options in waiting if options not in now]
            for options in now:
                trial = next(trial for trial in trials if options.finding in trial.findings)
                judged = self._judge(options.finding, trial, state)
                trial.verdicts.append(judged.verdict)
                is_working = judged.verdict in WORKING
                if (is_working or judged.instead) and trial not in useful:
                    useful.append(trial)
                if not is_working and options.fixes[1:]:
                    following.append(replace(options, fixes=options.fixes[1:]))
            for trial in trials:
                # Some wait for timing, and a later trial can show what is noise.
                if trial.verdicts != trial.announced:
                    self._announce(trial, state, trial.verdicts)
            targets = {
                target for trial in useful if trial.is_working for target in trial.fix.targets
            }
            mended = [options for options in now if options.finding.fingerprint in targets]
            waiting = [options for options in following if not _is_skipped_at(options, mended)]
        return useful

    def _try(self, trials: Sequence[_Trial], state: State, label: str) -> None:
        """Make trials, and announce each when it ends, unless timing has to decide first."""

        def on_done(index: int, number: int, observed: Observed) -> None:
            trial = trials[index]
            trial.number, trial.observed = number, observed
            judged = [self._judge_counts(finding, trial, state) for finding in trial.findings]
            if all(judgment.if_faster is None for judgment in judged):
                self._announce(trial, state, [judgment.verdict for judgment in judged])

        self._trials.run_each([trial.fix for trial in trials], state, label, on_done)

    def _announce(self, trial: _Trial, state: State, verdicts: list[Verdict]) -> None:
        trial.announced = verdicts
        places = [self._log.shown_place(finding, state.program) for finding in trial.findings]
        backend = self._trials.trial_backend if self._backend.is_another else None
        pairs = tuple(zip(places, verdicts, strict=True))
        self._trials.numbers.report(DecidedTrial(trial.number, trial.fix.title, pairs, backend))

    def _judge_counts(self, finding: Finding, trial: _Trial, state: State) -> Judgment:
        """Judge a trial by counts; to contain a break is for the end, unless the fix removes
        another one.
        """
        observed = _observed(trial)
        judged = self._trials.judge(finding, trial.fix, state, observed)
        if judged.verdict != "contained" or self._is_containing:
            return judged
        verdicts = (
            self._trials.judge(other, trial.fix, state, observed).verdict
            for other in trial.findings
        )
        if "verified" in verdicts:
            return judged
        left = judged.reasons[0].parts[0]
        untimed = because("and", left, because("call_untimed"))
        return replace(judged, verdict="unproven", reasons=(untimed,))

    def _judge(self, finding: Finding, trial: _Trial, state: State) -> Judgment:
        """Judge a trial by counts, and by time where that outweighs them; the log keeps it."""
        fix, observed = trial.fix, _observed(trial)
        judged = self._judge_counts(finding, trial, state)
        if judged.if_faster is not None:
            times, reasons = None, judged.reasons
            if is_moved := _moved_only(fix, state.observed.measures, observed.measures):
                reasons = (because("moved_out", *judged.reasons),)
            elif self._options.is_timed:
                times = self._trials.confirmed(*_added(fix, state.program), faster)
                reasons = (*reasons, because("call_all_the_same", times))
            if is_moved or times is not None:
                self._outweighed.add(fix)
                judged = replace(judged, verdict=judged.if_faster, reasons=reasons)
        self._log.note(finding, fix, state, self._round, judged=judged, after=observed)
        return judged

    def _join(self, state: State, chosen: Sequence[_Trial]) -> State:
        """Keep as many fixes as hold together, by halves; those that are left out are tried again
        beside them.
        """
        kept: list[Candidate] = []
        observed: Observed | None = None
        waiting = [compatible([trial.fix for trial in chosen])]
        while waiting:
            group = waiting.pop(0)
            both, together = [*kept, *group], None
            if len(both) > 1 and not (kept and self._is_exhausted):
                together = self._trials.run_together(
                    both,
                    state,
                    f"{self._round}-together-{next(self._together)}",
                    is_outweighed=not self._outweighed.isdisjoint(both),
                )
            if together is not None or len(both) == 1:
                kept, observed = both, together
            elif len(group) > 1:
                middle = len(group) // 2
                waiting[:0] = [group[:middle], group[middle:]]
        trials = [trial for trial in chosen if trial.fix in kept]
        self._log.apply(kept, self._round)
        return state.joined(
            kept,
            observed or _observed(trials[0]),
            mended_count=sum(trial.verdicts.count("verified") for trial in trials),
            is_outweighed=not self._outweighed.isdisjoint(kept),
        )

    # What is open, and how long.

    def _options_for(self, state: State) -> list[Options]:
        trials = self._trials
        sources = Sources(state.program, trials.root, trials.originals, trials.equal_sizes)
        return options_for(state.observed, sources, self._options.selection)

    def _open(self, state: State) -> list[Options]:
        """List what is still to be tried for a program: what worked before an interrupt first."""
        opened = [
            (options, self._open_fixes(options, state, self._round + 1))
            for options in self._options_for(state)
        ]
        return [replace(options, fixes=tuple(fixes)) for options, fixes in opened if fixes]

    def _open_fixes(self, options: Options, state: State, number: int) -> list[Candidate]:
        is_unsafe_tried, earlier = self._options.is_unsafe_tried, self._options.earlier
        fixes = self._log.open(options, state, number, is_unsafe_tried=is_unsafe_tried)
        if not earlier:
            return fixes
        return sorted(fixes, key=lambda fix: (self._diff(fix.edits) or fix.snippet) not in earlier)

    @property
    def _is_exhausted(self) -> bool:
        is_late = self._options.deadline is not None and time.monotonic() > self._options.deadline
        return is_late or self._trials.replays.count >= _MAX_REPLAYS

    # Objections to the best program: each takes fixes back.

    def _pruned(self, best: State) -> State:
        """Leave out fixes that others make needless, settings before edits of source.

        What the last round brought was tried beside all of the earlier ones.
        """
        last = best.applied[-1][1] if best.applied else best.program
        doubtful = [
            fix
            for fix, before in reversed(best.applied)
            if before != last or self._log.is_doubled(fix)
        ]
        if doubtful:
            self._trials.on_phase("trying what is needed of the verified fixes")
        for fix in sorted(doubtful, key=lambda fix: bool(fix.edits)):
            if self._is_exhausted:
                break
            pruned = self._trials.run_without(fix, best, self._name_without())
            if pruned is not None:
                self._log.take_back([fix], "no effect", (because("needless"),))
                best = pruned
        return best

    def _name_without(self) -> str:
        return f"{self._round}-without-{next(self._leaving_out)}"

    def _take_back_worse(self, best: State, worse: State, last: State) -> None:
        """Blame the fix that led from the best program to one that no more fixes made better."""

        def score_alone(fix: Candidate) -> Score:
            return score(
                self._log.measures_with(fix) or best.observed.measures,
                mended_count=best.mended_count,
                is_outweighed=best.is_outweighed or fix in self._outweighed,
            )

        count = len(best.applied)
        blamed = max(worse.fixes[count:], key=score_alone)
        how = made_worse(best.observed, last.observed)
        is_worse = is_less_compiled(last.score, best.score)
        self._log.take_back(
            [blamed], "makes it worse" if is_worse else "moved", (because("no_helping_fix", how),)
        )
        self._log.take_back([fix for fix in last.fixes[count:] if fix is not blamed])

    def _check_elsewhere(self, best: State) -> Check | None:
        """Run a program with fixes under the user's backend; None if trials compile with it."""
        if not best.applied or not self._backend.is_another:
            return None
        return self._backend.check(best.program, drops_output=best.drops_output)

    def _doubt(self, best: State, reasons: Reasons) -> None:
        """Take all fixes back, which prove nothing under the user's backend."""
        self._log.take_back(
            best.fixes, "unproven", self._under(reasons), backend=self._backend.name
        )
        self._best = self._untouched

    def _under(self, reasons: Reasons) -> Reasons:
        return (because("under", self._backend.name, *reasons),)

    def _without_failing(self, best: State, check: Check | None) -> State | None:
        if check is None or check.verdict == "verified":
            return None
        blamed, reasons = best.fixes[-1], self._under(check.reasons)
        if len(best.applied) > 1:
            reasons = (because("beside_others", *reasons),)
            for fix, before in best.applied:
                # Each is run beside the fixes of earlier rounds, so the first that fails is the
                # one.
                program = with_fixes(before, (fix,))
                alone = self._backend.check(program, drops_output=best.drops_output)
                if alone.verdict != "verified":
                    blamed, check, reasons = fix, alone, self._under(alone.reasons)
                    break
        return self._back(best, blamed, check.verdict, reasons, self._backend.name)

    def _without_moved(self, best: State) -> State | None:
        """Take back a fix whose break came back beside the others."""
        sites = self._trials.sites(self._untouched, best)
        for fix in best.fixes:
            if again := self._log.broken_again(fix, sites):
                instead = because("breaks_instead", *(finding.site for finding in again))
                beside = because("beside_others", instead)
                return self._back(best, fix, "moved", (beside,))
        return None

    def _back(
        self,
        best: State,
        blamed: Candidate,
        verdict: Verdict,
        reasons: Reasons,
        backend: str | None = None,
    ) -> State:
        """Take a fix back; returns the latest program before it."""
        at = best.fixes.index(blamed)
        earlier = (
            state
            for state in [self._untouched, *self._kept]
            if len(state.applied) <= at and all(map(operator.is_, state.fixes, best.fixes))
        )
        start = max(earlier, key=lambda state: len(state.applied))
        self._log.take_back([blamed], verdict, reasons, backend=backend)
        later = best.fixes[len(start.applied) :]
        self._log.take_back([fix for fix in later if fix is not blamed])
        return start

    def _with_more(
        self, start: State, objection: Callable[[Program], Reasons], verdict: Verdict
    ) -> State:
        """Run further rounds; keep them unless there is something to be said against it."""
        more, _ = self._rounds(start)
        fixes = more.fixes[len(start.applied) :]
        if not fixes:
            return start
        check = self._check_elsewhere(more)
        is_checked = check is None or check.verdict == "verified"
        reasons = objection(more.program) if check is None or is_checked else check.reasons
        if is_checked and not reasons:
            return more
        self._log.take_back(fixes, verdict, reasons)
        return start

    def _with_containing(self, best: State) -> State:
        """Add fixes that contain a break, and what shows beside them, if the call is faster so."""
        if not self._options.is_timed or not self._log.reopen_untimed():
            return best

        def objection(program: Program) -> Reasons:
            is_faster = self._trials.confirmed(best.program, program, faster) is not None
            return () if is_faster else (because("call_not_faster"),)

        self._is_containing = True
        more = self._with_more(best, objection, "no effect")
        self._is_containing = False
        return more

    # Time.

    def _without_slow(self, best: State) -> State:
        """If the call is plainly longer, put another fix in the place of the one to blame."""
        blame = self._slow_fix(best) if self._options.is_timed and best.applied else None
        if blame is None:
            return best
        blamed, alone, together = blame
        at = best.fixes.index(blamed)
        fewer = (self._as_fast(state) for state in (best.without(blamed), best.first(at)))
        kept = next(filter(None, fewer), self._untouched)
        self._log.take_back([blamed], "makes it worse", (alone,))
        dropped = [fix for fix in best.fixes if fix not in kept.fixes]
        self._log.take_back(dropped, "makes it worse", (together,))

        def objection(program: Program) -> Reasons:
            times = self._trials.confirmed(Program(), program, plainly_slower)
            return () if times is None else (because("call_with_it", times),)

        return self._with_more(kept, objection, "makes it worse")

    def _as_fast(self, state: State | None) -> State | None:
        if state is None or not state.applied:
            return None
        fewer = self._trials.run_fewer(state, self._name_without())
        if fewer is None or self._log.has_moved_break(fewer):
            return None
        check = self._check_elsewhere(fewer)
        is_slow = self._trials.confirmed(Program(), fewer.program, plainly_slower) is not None
        return None if is_slow or (check is not None and check.verdict != "verified") else fewer

    def _slow_fix(self, best: State) -> tuple[Candidate, Reason, Reason] | None:
        """Find the fix to blame if all of them make the call plainly longer; returns what it does,
        and what all of them do.

        None if the call takes no longer, or so little that only a toy shows it.
        """
        is_each = self._options.timing == "each"
        if is_each:
            self._trials.time(Program(), best.program)
        together = self._trials.confirmed(Program(), best.program, plainly_slower)
        slow = self._slow_alone(best) if is_each else None
        if together is not None and slow is None:
            slow = self._slow_first(best, together)
        self._note_times(best)
        if slow is None:
            return None
        alone = because("call_with_it", slow[1])
        return (slow[0], alone, alone if together is None else because("call_with_all", together))

    def _slow_first(self, best: State, times: PairedTime) -> tuple[Candidate, PairedTime]:
        """Halve to the first fix with which the call takes longer, beside those before it."""
        fast, slow = 0, len(best.applied)
        while slow - fast > 1:
            middle = (fast + slow) // 2
            program = best.first(middle).program
            slower_times = self._trials.confirmed(Program(), program, plainly_slower)
            if slower_times is None:
                fast = middle
            else:
                slow, times = middle, slower_times
        return best.fixes[fast], times

    def _slow_alone(self, best: State) -> tuple[Candidate, PairedTime] | None:
        timed = best.applied[:_MAX_TIMED]
        for pair in timed:
            self._trials.time(*_added(*pair))
        for pair in timed:
            # A step counts together with what follows it.
            if not self._log.is_step(pair[0]):
                times = self._trials.confirmed(*_added(*pair), plainly_slower)
                if times is not None:
                    return pair[0], times
        return None

    def _time_all(self, best: State) -> None:
        is_each = self._options.timing == "each"
        (self._trials.time if is_each else self._trials.decided)(Program(), best.program)
        self._note_times(best)

    def _note_times(self, best: State) -> None:
        for pair in best.applied:
            self._log.add_times(pair[0], self._trials.times_of(*_added(*pair)))
        if self._options.timing == "each" and len(best.applied) > _MAX_TIMED:
            self._trials.notes.append(because("few_timed", _MAX_TIMED))

    # Compiling each of the modules that repeat by itself removes no break and no recompile, so
    # counts don't judge it: it must take less time to compile, with an empty cache, and the call
    # must not take longer.

    def _with_regional(self, options: Options, best: State) -> State:
        number, (fix,) = self._round + 1, options.fixes
        trial = _Trial(fix, [options.finding])

        def on_done(_index: int, trial_number: int, observed: Observed) -> None:
            trial.number, trial.observed = trial_number, observed

        [observed] = self._trials.run_each([fix], best, f"{number}.regional", on_done)
        judged, cold = self._judge_regional(fix, best, observed)
        self._log.note(
            options.finding, fix, best, number, judged=judged, after=observed, cold_compile=cold
        )
        place = self._log.shown_place(options.finding, best.program)
        self._trials.numbers.report(
            DecidedTrial(trial.number, fix.title, ((place, judged.verdict),))
        )
        if judged.verdict != "verified":
            return best
        self._log.apply([fix], number)
        # Less of it is in graphs, on purpose.
        return best.joined([fix], observed, mended_count=1, is_outweighed=True)

    def _judge_regional(
        self, fix: Candidate, best: State, observed: Observed
    ) -> tuple[Judgment, ColdCompile | None]:
        if not observed.is_finished:
            return Judgment("failed", (observed.failure,)), None
        before, after = _added(fix, best.program)
        verdict: Verdict
        verdict, reasons = self._trials.reference.judge(
            observed.recording, drops_output=best.drops_output
        )
        was, now = best.observed.measures, observed.measures
        if verdict == "verified" and now.frames_over_limit > was.frames_over_limit:
            verdict, reasons = "makes it worse", (because("block_over_limit"),)
        elif verdict == "verified" and self._backend.is_another:
            check = self._backend.check(after, drops_output=best.drops_output)
            verdict = check.verdict
            reasons = self._under(check.reasons) if check.reasons else ()
        if verdict != "verified":
            return Judgment(verdict, reasons), None
        name = self._trials.backend
        # Two pairs of processes must agree.
        starts = [self._start_cold(before, after, f"cold-{number}") for number in (1, 2)]
        failures = [start.failure for pair in starts for start in pair if start.failure is not None]
        if failures:
            reason = because("cold_failure", name, failures[0])
            return Judgment("failed", (reason,)), None
        before_s, after_s = (
            min(start.compiling_s for start in side) for side in zip(*starts, strict=True)
        )
        cold = ColdCompile(backend=name, before_s=before_s, after_s=after_s)
        took = because("cold_compile", before_s, after_s, name)
        if not all(quick.is_quicker(slow) for slow, quick in starts):
            return Judgment("no effect", (took,)), cold
        times = self._trials.confirmed(before, after, slower) if self._options.is_timed else None
        if times is not None:
            call = because("call", times)
            return Judgment("makes it worse", (because("but", took, call),)), cold
        return Judgment("verified", (took,)), cold

    def _start_cold(self, before: Program, after: Program, name: str) -> list[_Start]:
        """Start two programs side by side, each with an empty cache."""
        self._trials.on_phase("compiling with an empty cache")

        def run(item: tuple[Program, str]) -> _Start:
            program, which = item
            recording = self._trials.replays.replay(
                program, f"{name}-{which}", backend=self._trials.backend, is_cold=True
            )
            return _Start.of(recording)

        pair = [(before, "before"), (after, "after")]
        return self._trials.replays.in_parallel(run, pair, jobs=self._trials.jobs)

    # A patch in place of fixes.

    def run_patch(self, patch: Patch) -> SearchResult:
        """Try a patch that somebody wrote."""
        trials = self._trials
        trials.originals.update((change.path, change.before) for change in patch.changes)
        fix = Candidate(f"Apply {patch.name}", "code", is_safe=False, edits=patch.changes)
        tried = TriedPatch(name=patch.name, verdict="unproven")
        if self._recording.exit.reason != "finished":
            reason = because("unfinished_without")
            return self._of_patch(tried.replace(reasons=(reason,)), fix)
        findings = treated_findings(self._base.observed, self._options.selection)
        if not self._run_untouched({finding.fingerprint for finding in findings}):
            return self._of_patch(tried.replace(reasons=(trials.notes.pop(),)), fix)
        [observed] = trials.run_each([fix], self._untouched, "patch", lambda *_: None)
        after = self._untouched.joined([fix], observed, mended_count=0, is_outweighed=False)
        places, is_none_run = trials.lines_not_run(fix)
        judged = self._judge_patch(after)
        if judged.verdict in WORKING and is_none_run:
            reason = because("not_run", *places[:1])
            judged = replace(judged, verdict="unproven", reasons=(reason,))
        if judged.verdict in WORKING:
            self._best = after
        tried = tried.replace(
            verdict=judged.verdict,
            reasons=judged.reasons,
            after=observed.measures if observed.is_finished else None,
            sites_gone=judged.gone,
            sites_new=judged.new,
            lines_not_run=places,
            compared=observed.compared,
            attacked=observed.attacked,
            recording=observed.name,
        )
        return self._of_patch(tried, fix)

    def _judge_patch(self, after: State) -> Judgment:
        """Judge a patch by counts, then under the user's backend and by the clock."""
        untouched, program = self._untouched, after.program
        judged = judge_patch(
            untouched.observed,
            after.observed,
            self._trials.reference,
            sites=self._trials.sites(untouched, after),
        )
        if judged.verdict != "verified" and judged.if_faster is None:
            return judged
        if self._backend.is_another:
            check = self._backend.check(program, drops_output=untouched.drops_output)
            if check.verdict != "verified":
                return replace(judged, verdict=check.verdict, reasons=self._under(check.reasons))
        if not self._options.is_timed:
            return judged
        times = self._trials.confirmed(untouched.program, program, plainly_slower)
        if times is not None:
            reason = because("call_with_it", times)
            return replace(judged, verdict="makes it worse", reasons=(reason,))
        if judged.if_faster and self._trials.confirmed(Program(), program, faster) is not None:
            return replace(judged, verdict=judged.if_faster, reasons=())
        return judged

    def _of_patch(self, tried: TriedPatch, fix: Candidate) -> SearchResult:
        result = self._treated()
        treatment = result.treatment.replace(patch=tried, diff=self._diff(fix.edits))
        return replace(result, treatment=treatment)

    # Results.

    def _suggested(self, cause: UntriedCause) -> SearchResult:
        """Note every fix for the untouched program; the first edit for each finding goes into the
        patch.
        """
        base, edits = self._base, list[Candidate]()
        for options in self._options_for(base):
            fixes = self._open_fixes(options, base, 1)
            for fix in fixes:
                self._log.note_untried(options.finding, fix, base, 1, cause)
            edits += [fix for fix in fixes if fix.edits][:1]
        if (repeated := self._repeated) is not None:
            for fix in repeated.fixes:
                self._log.note_untried(repeated.finding, fix, base, 1, cause)
        suggested = self._changes(with_fixes(base.program, edits))
        treatment = self._treated().treatment.replace(diff=self._diff(suggested))
        return SearchResult(treatment, suggested=suggested)

    def _changes(self, program: Program) -> tuple[FileChange, ...]:
        originals = self._trials.originals
        return tuple(
            FileChange(path, originals[path], content) for path, content in program.content.items()
        )

    def _writable(self, fixes: Sequence[Candidate]) -> list[FileChange]:
        """List the files that fixes would change: for settings, the one that the program starts
        with.
        """
        edits = [edit for fix in fixes for edit in fix.edits]
        entry = self._entry_file if any(fix.kind == "config" for fix in fixes) else None
        if entry is not None:
            content = entry.read_bytes()
            edits.append(FileChange(entry, content, content))
        return edits

    @property
    def _entry_file(self) -> Path | None:
        """The file of the program's own that is imported first."""
        environment = self._recording.environment
        roots = () if environment is None else environment.site_roots
        file = Path(self._recording.target.file or "")
        is_own = file.suffix == ".py" and not any(file.is_relative_to(root) for root in roots)
        return file if is_own and file.is_file() else None

    def _with_settings(
        self, changes: tuple[FileChange, ...], settings: Sequence[str]
    ) -> tuple[tuple[FileChange, ...], Path | None]:
        """Add lines of settings to the edits; returns the file that holds them, None if none can."""
        path = self._entry_file if settings else None
        if path is None:
            return changes, None
        edited = next((change for change in changes if change.path == path), None)
        before = edited.before if edited else path.read_bytes()
        lines = [line for snippet in settings for line in snippet.splitlines()]
        after = with_settings(edited.after if edited else before, lines)
        if after is None:
            return changes, None
        rest = (change for change in changes if change is not edited)
        return (*rest, FileChange(path, before, after)), path

    def _diff(self, changes: Sequence[FileChange]) -> str:
        return "".join(diff_text(change, self._trials.root) for change in changes)

    def _treated(self) -> SearchResult:
        untouched, best, log = self._untouched, self._best, self._log
        is_applied = bool(best.applied)
        snippets = {
            kind: tuple(
                dict.fromkeys(fix.snippet for fix in best.fixes if fix.kind == kind and fix.snippet)
            )
            for kind in ("config", "call")
        }
        changes, settings_file = self._with_settings(
            self._changes(best.program), snippets["config"]
        )
        findings = [
            finding
            for finding in untouched.observed.diagnosis.findings
            if finding.code != REPEATED_BLOCKS and self._options.selection.keeps(finding)
        ]
        log.settle_moved(best)
        compared = best.observed.compared if is_applied else None
        before, after = untouched.observed.measures, best.observed.measures
        check = self._backend.known(best.program) if is_applied else None
        if check is not None:
            compared = check.compared
            before, after = self._backend.untouched_measures or before, check.measures or after
        if self._backend.is_another:
            log.doubt_unapplied(self._backend.name)
        left, gone = list(log.left(best)), log.gone(untouched, best, findings) if is_applied else ()
        if self._repeated is not None:
            if best.program.change.regional:
                gone = (*gone, self._repeated.finding.fingerprint)
            else:
                left.append(log.left_finding(self._repeated.finding, best.program))
        cold = (fix.cold_compile for fix in log.tried if fix.is_applied and fix.cold_compile)
        treatment = Treatment(
            tried=log.tried,
            before=before,
            after=after if is_applied else None,
            diff=self._diff(changes),
            settings=snippets["config"],
            settings_file=None if settings_file is None else str(settings_file),
            calls=snippets["call"],
            compared=compared,
            attacked=best.observed.attacked if is_applied else None,
            backend=self._backend.name if compared else None,
            times=self._trials.times_of(Program(), best.program),
            cold_compile=next(cold, None),
            gone=gone,
            declined=log.declined,
            left=tuple(left),
            choices=self._options.choices,
            trial_count=self._trials.replays.count,
            notes=tuple(dict.fromkeys(self._trials.notes)),
        )
        return SearchResult(treatment, changes, program=best.program)


@dataclass(frozen=True)
class _Start:
    """A start with an empty cache; ``failure``: why its seconds are unknown."""

    compiling_s: float
    calls_s: float
    failure: Reason | None = None

    @classmethod
    def of(cls, recording: Recording) -> _Start:
        failure = None
        compiling = [item.duration_s for item in recording.compiles if item.duration_s is not None]
        if recording.exit.reason != "finished":
            failure = failure_of(recording)
        elif not compiling:
            failure = because("no_compile_times")
        calls_s = sum(call.duration_s or 0.0 for call in recording.calls)
        return cls(sum(compiling), calls_s, failure)

    def is_quicker(self, other: _Start) -> bool:
        return self.compiling_s < _LESS * other.compiling_s and self.calls_s < _LESS * other.calls_s


def _added(fix: Candidate, before: Program) -> tuple[Program, Program]:
    return before, with_fixes(before, (fix,))


def _observed(trial: _Trial) -> Observed:
    if trial.observed is None:
        raise AssertionError("a trial is judged once it has run")
    return trial.observed


def _moved_only(fix: Candidate, was: Counts, now: Counts) -> bool:
    before, after = was.coverage_detail, now.coverage_detail
    if before is None or after is None or not fix.moved_out:
        return False
    is_less_broken = now.break_sites < was.break_sites and now.graphs <= was.graphs
    return is_less_broken and after.eager_ops - before.eager_ops <= fix.moved_out


def _is_skipped_at(options: Options, others: Iterable[Options]) -> bool:
    at = options.finding.location.at
    return options.finding.code == SKIPPED_FRAME and any(
        other.finding.location.at == at for other in others
    )


def _trials_of(waiting: Sequence[Options]) -> list[_Trial]:
    """Make trials of each finding's first fix; fixes that do the same are one trial for all their
    findings.
    """
    trials: list[_Trial] = []
    for options in waiting:
        fix = options.fixes[0]
        same = next((trial for trial in trials if trial.fix.is_same(fix)), None)
        if same is None:
            trials.append(_Trial(fix, [options.finding]))
        else:
            same.fix = replace(same.fix, targets=(*same.fix.targets, *fix.targets))
            same.findings.append(options.finding)
    return trials
