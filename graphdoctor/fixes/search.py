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
from dataclasses import replace
from pathlib import Path

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import (
    LOSSY,
    VERIFIED,
    WORKING,
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
from graphdoctor.fixes.regional import judge_regional
from graphdoctor.fixes.run_changes import regional_options
from graphdoctor.fixes.trials import (
    INDUCTOR,
    Check,
    State,
    Trial,
    Trials,
    UserBackend,
    added,
    holds,
)
from graphdoctor.fixes.verdicts import (
    BREAK,
    REPEATED_BLOCKS,
    SKIPPED_FRAME,
    Judgment,
    Reasons,
    made_worse,
    score,
)
from graphdoctor.probe.wire import FIXES_FILE
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.recorded import fitting
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import EAGER, Replays
from graphdoctor.trials.timing import faster, plainly_slower

FOLDER = "fixes"
_MAX_JOBS = 4
_MAX_ROUNDS = 12
_MAX_REPLAYS = 100
_MAX_TIMED = 6
"""How many fixes are timed one by one; all together are always timed."""

CheckEdits = Callable[[Sequence[FileChange]], None]


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
    trials = Trials(replays, root, jobs, request.spec.backend, setup)
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
        self._log, self._backend = TrialLog(trials), UserBackend(trials)
        self._untouched = self._best = State(Program(), trials.observe(recording))
        self._kept: list[State] = []
        self._repeated = regional_options(self._untouched.observed, options.selection)
        self._round = 0
        self._outweighed: set[Candidate] = set()
        """Fixes with which less is compiled, and which are worth it."""
        self._is_containing = False
        self._leaving_out, self._together = itertools.count(1), itertools.count(1)
        self.result: SearchResult | None = None

    def run(self, check: CheckEdits | None) -> SearchResult:
        """Search; if an interrupt ends it, ``result`` holds the fixes verified until then."""
        if not (offered := self._offered(self._untouched)) and self._repeated is None:
            return self._treated()
        if self._recording.exit.reason != "finished":
            self._trials.notes.append(because("unfinished"))
            return self._suggested(offered, "unfinished_run")
        if not self._options.is_tried:
            return self._suggested(offered, "not_requested")
        opened = self._open(offered, self._untouched)
        if not opened and self._repeated is None:
            return self._treated()
        if check is not None:
            check(self._writable([fix for options in opened for fix in options.fixes]))
        try:
            if not self._run_untouched([options.finding for options in opened]):
                return self._suggested(offered, "not_repeatable")
            self._keep_what_holds()
            if self._options.is_timed:
                self._contain()
                self._replace_slow()
            if self._repeated is not None:
                self._compile_regions(self._repeated)
            if self._options.is_timed and self._best.applied:
                self._time(Program(), self._best.program)
                self._note_times(self._best)
            return self._treated()
        except KeyboardInterrupt:
            self._trials.notes.append(because("interrupted"))
            is_checked = self._best.program in self._backend.checks
            if self._best.applied and self._backend.is_another and not is_checked:
                self._doubt((because("not_run_there"),))
            result = self._treated()
            self.result = replace(result, treatment=result.treatment.replace(is_interrupted=True))
            raise

    def _run_untouched(self, findings: Iterable[Finding]) -> bool:
        has_inductor = self._options.is_timed or self._trials.backend == INDUCTOR
        self._trials.replays.prepare(INDUCTOR if has_inductor else EAGER)
        fingerprints = {finding.fingerprint for finding in findings}
        untouched = self._trials.run_untouched(self._untouched.observed, fingerprints)
        self._untouched = self._best = untouched or self._untouched
        return untouched is not None

    def _keep_what_holds(self) -> None:
        """Search until nothing is to be said against the best program."""
        while True:
            # A fix that was tried beside one that is taken back may help by itself.
            while self._run_rounds():
                pass
            self._prune()
            check = self._check_elsewhere(self._best)
            if check.verdict == "unproven":
                return self._doubt(check.reasons)
            if not self._take_back_failing(check) and not self._take_back_moved():
                return None

    # Rounds: try what is open for a program, and keep what works.

    def _run_rounds(self) -> bool:
        """Run rounds until no more fixes work, and keep the best program on the way; False if no
        fix worked.
        """
        states = [self._best]
        while opened := self._open(self._offered(states[-1]), states[-1]):
            if self._round >= _MAX_ROUNDS or self._is_exhausted:
                values = self._round, self._trials.replays.count
                self._trials.notes.append(because("bounded", *values))
                break
            self._round += 1
            following = self._run_round(states[-1], opened)
            if following is not None:
                self._best = following
                states.append(following)
                self._kept.append(following)
            elif self._round < _MAX_ROUNDS and not self._is_exhausted:
                break
        settled = [at for at, state in enumerate(states) if not self._log.has_moved_break(state)]
        at = min(settled or [0], key=lambda index: (states[index].score, index))
        self._best = states[at]
        if at + 1 < len(states):
            self._take_back_worse(states[at + 1], states[-1])
        return len(states) > 1

    def _run_round(self, state: State, opened: Sequence[Options]) -> State | None:
        # Breaks first: a break makes resume functions, and these recompile.
        breaks = [options for options in opened if options.finding.code.startswith(BREAK)]
        rest = [options for options in opened if options not in breaks]
        steps: list[Trial] = []
        for number, waiting in enumerate((breaks, rest), start=1):
            useful = self._run_waves(waiting, state, f"{self._round}.{number}")
            if working := [trial for trial in useful if _is_working(trial)]:
                return self._join(state, working)
            steps += useful
        return self._join(state, steps[:1]) if steps else None

    def _run_waves(self, waiting: list[Options], state: State, label: str) -> list[Trial]:
        """Try the first fix for each finding, then the next ones for those that it doesn't help;
        returns the trials to keep.
        """
        useful: list[Trial] = []
        for wave in itertools.count(1):
            if not waiting or self._is_exhausted:
                break
            breaks = [options for options in waiting if options.finding.code != SKIPPED_FRAME]
            now = [options for options in waiting if not _is_skipped_at(options, breaks)]
            trials = _trials_of(now, state)
            self._trials.run_each(trials, f"{label}.{wave}", self._announce_early)
            following = [options for options in waiting if options not in now]
            for options in now:
                trial = next(trial for trial in trials if options.finding in trial.findings)
                judged = self._judge(options.finding, trial)
                trial.verdicts.append(judged.verdict)
                is_working = _works(judged.verdict, trial)
                if (is_working or judged.instead) and trial not in useful:
                    useful.append(trial)
                if not is_working and options.fixes[1:]:
                    following.append(replace(options, fixes=options.fixes[1:]))
            for trial in trials:
                # Some wait for timing, and a later trial can show what is noise.
                if trial.verdicts != trial.announced:
                    self._announce(trial, trial.verdicts)
            working = [trial for trial in useful if _is_working(trial)]
            targets = {target for trial in working for target in trial.fix.targets}
            mended = [options for options in now if options.finding.fingerprint in targets]
            waiting = [options for options in following if not _is_skipped_at(options, mended)]
        return useful

    def _announce_early(self, trial: Trial) -> None:
        """Announce a trial when it ends, unless timing has to decide first."""
        judged = [self._judge_counts(finding, trial) for finding in trial.findings]
        if all(judgment.if_faster is None for judgment in judged):
            self._announce(trial, [judgment.verdict for judgment in judged])

    def _announce(self, trial: Trial, verdicts: list[Verdict]) -> None:
        trial.announced = verdicts
        program = trial.state.program
        places = [self._log.shown_place(finding, program) for finding in trial.findings]
        backend = self._trials.trial_backend if self._backend.is_another else None
        pairs = tuple(zip(places, verdicts, strict=True))
        self._trials.report(DecidedTrial(trial.number, trial.fix.title, pairs, backend))

    def _judge_counts(self, finding: Finding, trial: Trial) -> Judgment:
        """Judge a trial by counts; to contain a break is for the end, unless the fix removes
        another one.
        """
        judged = self._trials.judge(finding, trial)
        if judged.verdict != "contained" or self._is_containing:
            return judged
        verdicts = (self._trials.judge(other, trial).verdict for other in trial.findings)
        if not VERIFIED.isdisjoint(verdicts):
            return judged
        left = judged.reasons[0].parts[0]
        untimed = because("and", left, because("call_untimed"))
        return replace(judged, verdict="unproven", reasons=(untimed,))

    def _judge(self, finding: Finding, trial: Trial) -> Judgment:
        """Judge a trial by counts, and by time where that outweighs them; the log keeps it."""
        judged = self._judge_counts(finding, trial)
        if judged.if_faster is not None:
            times, reasons = None, judged.reasons
            if is_moved := _moved_only(trial):
                reasons = (because("moved_out", *judged.reasons),)
            elif self._options.is_timed:
                times = self._trials.confirmed(*trial.programs, faster)
                reasons = (*reasons, because("call_all_the_same", times))
            if is_moved or times is not None:
                self._outweighed.add(trial.fix)
                judged = replace(judged, verdict=judged.if_faster, reasons=reasons)
        self._log.note(finding, trial, self._round, judged)
        return judged

    def _join(self, state: State, chosen: Sequence[Trial]) -> State:
        """Keep as many fixes as hold together, by halves; those that are left out are tried again
        beside them.
        """
        kept: list[Candidate] = []
        observed = None
        waiting = [compatible([trial.fix for trial in chosen])]
        while waiting:
            group = waiting.pop(0)
            both, together = [*kept, *group], None
            if len(both) > 1 and not (kept and self._is_exhausted):
                name = f"{self._round}-together-{next(self._together)}"
                is_outweighed = not self._outweighed.isdisjoint(both)
                together = self._trials.run_together(both, state, name, is_outweighed=is_outweighed)
            if together is not None or len(both) == 1:
                kept, observed = both, together
            elif len(group) > 1:
                middle = len(group) // 2
                waiting[:0] = [group[:middle], group[middle:]]
        trials = [trial for trial in chosen if trial.fix in kept]
        self._log.reopen(kept, self._round)
        return state.joined(
            kept,
            observed or trials[0].observed,
            mended_count=sum(verdict in VERIFIED for trial in trials for verdict in trial.verdicts),
            is_outweighed=not self._outweighed.isdisjoint(kept),
        )

    # What is open, and how long.

    def _offered(self, state: State) -> list[Options]:
        trials = self._trials
        sources = Sources(state.program, trials.root, trials.originals, trials.equal_sizes)
        return options_for(state.observed, sources, self._options.selection)

    def _open(self, offered: Sequence[Options], state: State) -> list[Options]:
        """List what is still to be tried for a program: what worked before an interrupt first."""
        opened, earlier = [], self._options.earlier
        for options in offered:
            fixes = self._log.open(
                options, state, self._round + 1, is_unsafe_tried=self._options.is_unsafe_tried
            )
            if earlier:
                fixes.sort(key=lambda fix: (self._diff(fix.edits) or fix.snippet) not in earlier)
            if fixes:
                opened.append(replace(options, fixes=tuple(fixes)))
        return opened

    @property
    def _is_exhausted(self) -> bool:
        is_late = self._options.deadline is not None and time.monotonic() > self._options.deadline
        return is_late or self._trials.replays.count >= _MAX_REPLAYS

    # Objections to the best program: each takes fixes back.

    def _prune(self) -> None:
        """Leave out fixes that others make needless, settings before edits of source.

        What the last round brought was tried beside all of the earlier ones.
        """
        best = self._best
        last = best.applied[-1][1] if best.applied else best.program
        doubtful = [
            fix
            for fix, before in reversed(best.applied)
            if before != last or self._log.is_doubled(fix, best)
        ]
        if doubtful:
            self._trials.on_phase("trying what is needed of the verified fixes")
        for fix in sorted(doubtful, key=lambda fix: bool(fix.edits)):
            if self._is_exhausted:
                break
            fewer = self._run_fewer(self._best.without(fix))
            if fewer is None or fewer.score > self._best.score:
                continue
            # Nothing may come back.
            if self._trials.left(fewer) <= self._trials.left(self._best):
                self._log.take_back([fix], "no effect", (because("needless"),))
                self._best = fewer

    def _run_fewer(self, state: State | None) -> State | None:
        if state is None:
            return None
        return self._trials.run_fewer(state, f"{self._round}-without-{next(self._leaving_out)}")

    def _take_back_worse(self, worse: State, last: State) -> None:
        """Blame the fix that led from the best program to one that no more fixes made better."""
        best, count = self._best, len(self._best.applied)
        scores = {
            fix: score(
                self._log.measures_with(fix) or best.observed.measures,
                mended_count=best.mended_count,
                is_outweighed=best.is_outweighed or fix in self._outweighed,
            )
            for fix in worse.fixes[count:]
        }
        blamed = max(scores, key=lambda fix: scores[fix])
        # Less is compiled, whatever that counts of breaks.
        is_worse = last.score[:3] > best.score[:3]
        how = because("no_helping_fix", made_worse(best.observed, last.observed))
        self._log.take_back([blamed], "makes it worse" if is_worse else "moved", (how,))
        self._log.take_back([fix for fix in last.fixes[count:] if fix is not blamed])

    def _check_elsewhere(self, best: State) -> Check:
        """Run a program with fixes under the user's backend."""
        if not best.applied:
            return Check("verified")
        return self._backend.check(best.program, drops_output=best.drops_output)

    def _doubt(self, reasons: Reasons) -> None:
        """Take all fixes back, which prove nothing under the user's backend."""
        reasons, name = (self._under(reasons),), self._backend.name
        self._log.take_back(self._best.fixes, "unproven", reasons, backend=name)
        self._best = self._untouched

    def _under(self, reasons: Reasons) -> Reason:
        return because("under", self._backend.name, *reasons)

    def _take_back_failing(self, check: Check) -> bool:
        """Take back the fix that fails under the user's backend, if one does."""
        best = self._best
        drops_output = best.drops_output
        if holds(check.verdict, drops_output=drops_output):
            return False
        blamed, reason = best.fixes[-1], self._under(check.reasons)
        if len(best.applied) > 1:
            reason = because("beside_others", reason)
            for fix, before in best.applied:
                # Each is run beside the fixes of earlier rounds, so the first that fails is the
                # one.
                _, program = added(fix, before)
                alone = self._backend.check(program, drops_output=drops_output)
                if not holds(alone.verdict, drops_output=drops_output):
                    blamed, check, reason = fix, alone, self._under(alone.reasons)
                    break
        self._go_back(blamed, check.verdict, reason, self._backend.name)
        return True

    def _take_back_moved(self) -> bool:
        """Take back a fix whose break came back beside the others, if there is one."""
        best = self._best
        change = self._trials.change(self._untouched, best.observed, best.program)
        for fix in best.fixes:
            if again := self._log.broken_again(fix, change):
                instead = because("breaks_instead", *(finding.site for finding in again))
                self._go_back(fix, "moved", because("beside_others", instead))
                return True
        return False

    def _go_back(
        self, blamed: Candidate, verdict: Verdict, reason: Reason, backend: str | None = None
    ) -> None:
        """Take a fix back, and go on from the latest program before it."""
        fixes = self._best.fixes
        at = fixes.index(blamed)
        earlier = (
            state
            for state in [self._untouched, *self._kept]
            if len(state.applied) <= at and all(map(operator.is_, state.fixes, fixes))
        )
        self._best = max(earlier, key=lambda state: len(state.applied))
        self._log.take_back([blamed], verdict, (reason,), backend=backend)
        later = fixes[len(self._best.applied) :]
        self._log.take_back([fix for fix in later if fix is not blamed])

    def _go_on(self, objection: Callable[[Program], Reasons], verdict: Verdict) -> None:
        """Run further rounds; keep them unless there is something to be said against it."""
        start = self._best
        self._run_rounds()
        more, self._best = self._best, start
        if fixes := more.fixes[len(start.applied) :]:
            check = self._check_elsewhere(more)
            is_checked = holds(check.verdict, drops_output=more.drops_output)
            reasons = objection(more.program) if is_checked else check.reasons
            if is_checked and not reasons:
                self._best = more
            else:
                self._log.take_back(fixes, verdict, reasons)

    def _contain(self) -> None:
        """Add fixes that contain a break, and what shows beside them, if the call is faster so."""
        before = self._best.program
        if not self._log.reopen_untimed():
            return

        def objection(program: Program) -> Reasons:
            is_faster = self._trials.confirmed(before, program, faster) is not None
            return () if is_faster else (because("call_not_faster"),)

        self._is_containing = True
        self._go_on(objection, "no effect")
        self._is_containing = False

    # Time.

    def _replace_slow(self) -> None:
        """If the call is plainly longer, put another fix in the place of the one to blame."""
        best = self._best
        blame = self._slow_fix(best) if best.applied else None
        if blame is None:
            return
        blamed, alone, together = blame
        at = best.fixes.index(blamed)
        fewer = (self._as_fast(state) for state in (best.without(blamed), best.first(at)))
        self._best = next(filter(None, fewer), self._untouched)
        self._log.take_back([blamed], "makes it worse", (alone,))
        dropped = [fix for fix in best.fixes if fix not in self._best.fixes]
        self._log.take_back(dropped, "makes it worse", (together,))

        def objection(program: Program) -> Reasons:
            times = self._slower(Program(), program)
            return () if times is None else (because("call_with_it", times),)

        self._go_on(objection, "makes it worse")

    def _slower(self, before: Program, after: Program) -> PairedTime | None:
        return self._trials.confirmed(before, after, plainly_slower)

    def _as_fast(self, state: State | None) -> State | None:
        fewer = self._run_fewer(state if state and state.applied else None)
        if fewer is None or self._log.has_moved_break(fewer):
            return None
        check = self._check_elsewhere(fewer)
        if not holds(check.verdict, drops_output=fewer.drops_output):
            return None
        return fewer if self._slower(Program(), fewer.program) is None else None

    def _slow_fix(self, best: State) -> tuple[Candidate, Reason, Reason] | None:
        """Find the fix to blame if all of them make the call plainly longer; returns what it does,
        and what all of them do.

        None if the call takes no longer, or so little that only a toy shows it.
        """
        slow = None
        if self._options.timing == "each":
            self._time(Program(), best.program)
        together = self._slower(Program(), best.program)
        if self._options.timing == "each":
            timed = best.applied[:_MAX_TIMED]
            for pair in timed:
                self._time(*added(*pair))
            # A step counts together with what follows it.
            alone = (
                (fix, added(fix, before)) for fix, before in timed if not self._log.is_step(fix)
            )
            slow = next(
                ((fix, times) for fix, pair in alone if (times := self._slower(*pair))), None
            )
        if together is not None and slow is None:
            slow = self._slow_first(best, together)
        self._note_times(best)
        if slow is None:
            return None
        reason = because("call_with_it", slow[1])
        return slow[0], reason, reason if together is None else because("call_with_all", together)

    def _slow_first(self, best: State, times: PairedTime) -> tuple[Candidate, PairedTime]:
        """Halve to the first fix with which the call takes longer, beside those before it."""
        fast, slow = 0, len(best.applied)
        while slow - fast > 1:
            middle = (fast + slow) // 2
            slower_times = self._slower(Program(), best.first(middle).program)
            if slower_times is None:
                fast = middle
            else:
                slow, times = middle, slower_times
        return best.fixes[fast], times

    def _time(self, before: Program, after: Program) -> None:
        self._trials.time(before, after, is_every=self._options.timing == "each")

    def _note_times(self, best: State) -> None:
        for pair in best.applied:
            self._log.add_times(pair[0], self._trials.times_of(*added(*pair)))
        if self._options.timing == "each" and len(best.applied) > _MAX_TIMED:
            self._trials.notes.append(because("few_timed", _MAX_TIMED))

    # What isn't searched: modules that repeat, and a patch in place of fixes.

    def _compile_regions(self, options: Options) -> None:
        """Compile each of the modules that repeat by itself, if that takes less time."""
        best, number, (fix,) = self._best, self._round + 1, options.fixes
        trial = Trial(best, fix, [options.finding])
        self._trials.run_each([trial], f"{number}.regional")
        judged, cold = judge_regional(
            trial, self._trials, self._backend, is_timed=self._options.is_timed
        )
        self._log.note(options.finding, trial, number, judged, cold)
        place = self._log.shown_place(options.finding, best.program)
        self._trials.report(DecidedTrial(trial.number, fix.title, ((place, judged.verdict),)))
        if judged.verdict == "verified":
            # Less of it is in graphs, on purpose.
            self._best = best.joined([fix], trial.observed, mended_count=1, is_outweighed=True)

    def run_patch(self, patch: Patch) -> SearchResult:
        """Try a patch that somebody wrote."""
        trials = self._trials
        trials.originals.update((change.path, change.before) for change in patch.changes)
        fix = Candidate(f"Apply {patch.name}", "code", is_safe=False, edits=patch.changes)
        tried = TriedPatch(name=patch.name, verdict="unproven")
        findings = treated_findings(self._untouched.observed, self._options.selection)
        if self._recording.exit.reason != "finished":
            tried = tried.replace(reasons=(because("unfinished_without"),))
        elif not self._run_untouched(findings):
            tried = tried.replace(reasons=(trials.notes.pop(),))
        else:
            trial = Trial(self._untouched, fix, [])
            trials.run_each([trial], "patch")
            places, is_none_run = trials.lines_not_run(fix)
            judged = self._judge_patch(trial)
            if judged.verdict in WORKING and is_none_run:
                reason = because("not_run", *places[:1])
                judged = replace(judged, verdict="unproven", reasons=(reason,))
            if judged.verdict in WORKING:
                self._best = self._untouched.joined([fix], trial.observed)
            tried = tried.replace(**trial.outcome(judged), lines_not_run=places)
        result = self._treated()
        treatment = result.treatment.replace(patch=tried, diff=self._diff(fix.edits))
        return replace(result, treatment=treatment)

    def _judge_patch(self, trial: Trial) -> Judgment:
        """Judge a patch by counts, then under the user's backend and by the clock."""
        before, program = trial.programs
        judged = trial.change.judge_patch(self._trials.reference)
        if judged.verdict not in VERIFIED and judged.if_faster is None:
            return judged
        check = self._backend.check(program, drops_output=judged.verdict == LOSSY)
        if not holds(check.verdict, drops_output=judged.verdict == LOSSY):
            return replace(judged, verdict=check.verdict, reasons=(self._under(check.reasons),))
        if not self._options.is_timed:
            return judged
        if (times := self._slower(before, program)) is not None:
            reason = because("call_with_it", times)
            return replace(judged, verdict="makes it worse", reasons=(reason,))
        if judged.if_faster and self._trials.confirmed(before, program, faster) is not None:
            return replace(judged, verdict=judged.if_faster, reasons=())
        return judged

    # Results.

    def _suggested(self, offered: Sequence[Options], cause: UntriedCause) -> SearchResult:
        """Note every fix for the untouched program; the first edit for each finding goes into the
        patch.
        """
        base, edits = self._untouched, list[Candidate]()
        opened = (options for offer in offered for options in self._open([offer], base))
        repeated = [] if self._repeated is None else [self._repeated]
        for options in itertools.chain(opened, repeated):
            for fix in options.fixes:
                self._log.note_untried(options.finding, fix, base, 1, cause)
            edits += [fix for fix in options.fixes if fix.edits][:1]
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
        """Add lines of settings to the edits; returns the file that holds them, None if none
        can.
        """
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
        untouched, best, log, trials = self._untouched, self._best, self._log, self._trials
        settings, calls = (
            tuple(
                dict.fromkeys(fix.snippet for fix in best.fixes if fix.kind == kind and fix.snippet)
            )
            for kind in ("config", "call")
        )
        changes, settings_file = self._with_settings(self._changes(best.program), settings)
        log.settle(best, self._backend.name if self._backend.is_another else None)
        tried = log.tried(best)
        before, after = untouched.observed.measures, best.observed.measures
        compared, check = best.observed.compared, self._backend.checks.get(best.program)
        if check is not None:
            compared = check.compared
            before, after = self._backend.untouched_measures or before, check.measures or after
        left = treated_findings(best.observed, self._options.selection)
        gone: list[str] = []
        if best.applied:
            findings = [
                finding
                for finding in untouched.observed.diagnosis.findings
                if finding.code != REPEATED_BLOCKS and self._options.selection.keeps(finding)
            ]
            change = trials.change(untouched, best.observed, best.program)
            gone += log.gone(change, best, findings)
        if self._repeated is not None:
            finding = self._repeated.finding
            if best.program.change.regional:
                gone.append(finding.fingerprint)
            else:
                left.append(finding)
        cold = (fix.cold_compile for fix in tried if fix.is_applied and fix.cold_compile)
        treatment = Treatment(
            tried=tried,
            before=before,
            after=after if best.applied else None,
            diff=self._diff(changes),
            settings=settings,
            settings_file=None if settings_file is None else str(settings_file),
            calls=calls,
            compared=compared if best.applied else None,
            attacked=best.observed.attacked if best.applied else None,
            backend=self._backend.name if best.applied and compared else None,
            times=trials.times_of(Program(), best.program),
            cold_compile=next(cold, None),
            gone=tuple(gone),
            declined=log.declined,
            left=tuple(log.left(best, left)),
            choices=self._options.choices,
            trial_count=trials.replays.count,
            notes=tuple(dict.fromkeys(trials.notes)),
        )
        return SearchResult(treatment, changes, program=best.program)


def _is_working(trial: Trial) -> bool:
    return any(_works(verdict, trial) for verdict in trial.verdicts)


def _works(verdict: Verdict, trial: Trial) -> bool:
    """Tell if a fix is worth having: only one that says so may lose output."""
    return verdict in WORKING and (verdict != LOSSY or trial.drops_output)


def _moved_only(trial: Trial) -> bool:
    """Tell if a fix that moves operations out of what is compiled does just that."""
    was, now = trial.state.observed.measures, trial.observed.measures
    before, after, moved_out = was.coverage_detail, now.coverage_detail, trial.fix.moved_out
    if before is None or after is None or not moved_out:
        return False
    is_less_broken = now.break_sites < was.break_sites and now.graphs <= was.graphs
    return is_less_broken and after.eager_ops - before.eager_ops <= moved_out


def _is_skipped_at(options: Options, others: Iterable[Options]) -> bool:
    at = options.finding.location.at
    return options.finding.code == SKIPPED_FRAME and any(
        other.finding.location.at == at for other in others
    )


def _trials_of(waiting: Sequence[Options], state: State) -> list[Trial]:
    """Make trials of each finding's first fix; fixes that do the same are one trial for all their
    findings.
    """
    trials: list[Trial] = []
    for options in waiting:
        fix = options.fixes[0]
        same = next((trial for trial in trials if trial.fix.is_same(fix)), None)
        if same is None:
            trials.append(Trial(state, fix, [options.finding]))
        else:
            same.fix = replace(same.fix, targets=(*same.fix.targets, *fix.targets))
            same.findings.append(options.finding)
    return trials
