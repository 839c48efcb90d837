"""Searches for the fixes that hold together: try all at once, split what fails, go on.

A fix can uncover the next break, so each round starts from the program with the fixes that worked
in earlier rounds, and tries the first fix for each finding in one program. Only where that fails
are parts of it tried, by halves. What the user's backend, the clock or a moved break say against
the best program takes one fix back, and the search goes on without it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path
from time import monotonic
from typing import NamedTuple, TypeVar

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import (
    GRADES,
    LOSSY,
    VERIFIED,
    WORKING,
    Grade,
    Reason,
    TriedPatch,
    UntriedCause,
    Verdict,
    WholeRun,
    because,
)
from graphdoctor.facts.progress import DecidedTrial, OpenFinding
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import Recording
from graphdoctor.fixes.log import TrialLog
from graphdoctor.fixes.options import Sources, options_for, treated_findings
from graphdoctor.fixes.patch import (
    FIXES_FOLDER,
    Candidate,
    FileChange,
    Options,
    Patch,
    SearchOptions,
    SearchResult,
    compatible,
    with_fixes,
)
from graphdoctor.fixes.results import OwnFiles, result_of
from graphdoctor.fixes.run_changes import CAPTURING, fullgraph_fix
from graphdoctor.fixes.trials import (
    INDUCTOR,
    Check,
    State,
    Trial,
    Trials,
    UserBackend,
    WholeRuns,
    holds,
)
from graphdoctor.fixes.verdicts import (
    BREAK,
    SKIPPED_FRAME,
    Judgment,
    Reasons,
    breaks_more,
    made_worse,
)
from graphdoctor.probe.wire import FIXES_FILE
from graphdoctor.trials.judge import Observed
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.recorded import fitting
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import EAGER, Replays
from graphdoctor.trials.timing import faster, plainly_slower

_MAX_JOBS = 4
_MAX_REPLAYS = 100

CheckEdits = Callable[[Sequence[FileChange]], None]
_Why = TypeVar("_Why")
_Turn = dict[Candidate, list[Options]]
"""Fixes to try at once, each with what is open for the findings that it is for."""


class _Fault(NamedTuple):
    """What is to be said against a program, and the backend that shows it."""

    verdict: Verdict
    reason: Reason
    backend: str | None = None


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
    the treatment. An interrupt ends the trials; what was found until then is the result.
    """
    setup = replace(setup, timeout_s=options.timeout_s, memory_bytes=options.memory_bytes)
    replays = Replays(request, folder / FIXES_FOLDER, setup, kept=options.kept)
    jobs = options.jobs or default_jobs(request, recording)
    trials = Trials(replays, root, jobs, request.spec.backend, setup, options.budget_s)
    searching = _Search(trials, options, recording)
    try:
        result = searching.run(check) if patch is None else searching.run_patch(patch)
    except KeyboardInterrupt:
        replays.cancel()
        if (partial_result := searching.interrupted()) is None:
            raise
        result = partial_result
    finally:
        replays.close()
    write_fact(result.treatment, folder / FIXES_FILE)
    return result


def default_jobs(request: Request, recording: Recording) -> int:
    """Count the trials to run side by side: those on one accelerator share its memory."""
    if request.spec.device is not None:
        return 1
    return fitting(recording.exit.peak_memory_bytes, most=min(_MAX_JOBS, os.cpu_count() or 1))


class _Search:
    """The state of one search: what it began with, and the best program so far."""

    def __init__(self, trials: Trials, options: SearchOptions, recording: Recording) -> None:
        self._trials, self._options = trials, options
        self._recording = recording
        self._files = OwnFiles(trials, recording)
        self._log, self._backend = TrialLog(trials), UserBackend(trials)
        self._whole_runs = WholeRuns(trials)
        self._untouched = self._best = State(Program(), trials.observe(recording))
        self._round = 0
        self._grade: Grade = "contained"
        """The last grade of fixes to try."""
        self._contained: set[tuple[str, str]] = set()
        """Files and functions that a fix contains a break of."""
        self._reported = set[OpenFinding]()
        self._offers: tuple[Observed, list[Options]] | None = None
        """What was last offered, and for which run."""
        self._deadline, self._end = math.inf, math.inf
        """When no further trial begins, and when nothing is timed any more."""
        self._is_interruptible = False
        self._whole: WholeRun | None = None

    def run(self, check: CheckEdits | None) -> SearchResult:
        """Search."""
        offered = self._offered(self._untouched)
        if offered and self._recording.exit.reason != "finished":
            self._trials.notes.append(because("unfinished"))
            return self._suggested(offered, "unfinished_run")
        if not self._options.is_tried:
            return self._suggested(offered, "not_requested")
        opened = self._open(offered, self._untouched)
        if not opened:
            return self._treated()
        if check is not None:
            check(self._files.writable([fix for options in opened for fix in options.fixes]))
        self._is_interruptible = True
        self._report_open(opened, self._untouched)
        began = monotonic()
        if not self._run_untouched([options.finding for options in opened]):
            return self._suggested(offered, "not_repeatable")
        if (budget_s := self._options.budget_s) is not None:
            # What comes last runs the program again, under the user's backend and by the clock.
            last_count = self._options.is_timed + (self._trials.backend != EAGER)
            last_s = (self._recording.exit.duration_s or 0.0) * last_count
            self._deadline = began + budget_s - min(last_s, budget_s / 4)
            # Where running it without fixes takes most of the budget, trials get as much again.
            self._deadline = max(self._deadline, 2 * monotonic() - began)
            self._end = max(self._deadline, began + budget_s)
        self._keep_what_holds()
        self._contain()
        if self._best.applied:
            if self._is_timed:
                self._trials.time(Program(), self._best.program)
            self._whole = self._whole_runs.of(self._best, self._log.shown_place)
        self._note_untried()
        return self._treated()

    def interrupted(self) -> SearchResult | None:
        """Return the fixes verified until an interrupt; None if nothing was tried."""
        if not self._is_interruptible:
            return None
        self._trials.notes.append(because("interrupted"))
        is_checked = self._best.program in self._backend.checks
        if self._best.applied and self._backend.is_another and not is_checked:
            self._doubt((because("not_run_there"),))
        result = self._treated()
        return replace(result, treatment=result.treatment.replace(is_interrupted=True))

    def _run_untouched(self, findings: Iterable[Finding]) -> bool:
        has_inductor = self._options.is_timed or self._trials.backend == INDUCTOR
        self._trials.replays.prepare(INDUCTOR if has_inductor else EAGER)
        fingerprints = {finding.fingerprint for finding in findings}
        untouched = self._trials.run_untouched(self._untouched.observed, fingerprints)
        self._untouched = self._best = untouched or self._untouched
        return untouched is not None

    def _keep_what_holds(self) -> None:
        """Search grade by grade until nothing is to be said against the best program."""
        while True:
            for self._grade in GRADES[:-1]:
                while self._run_rounds():
                    pass
                self._capture()
            self._prune()
            check = self._check_elsewhere(self._best)
            if check.verdict == "unproven":
                return self._doubt(check.reasons)
            if not any(map(self._take_back, (self._failing, self._moved, self._slow))):
                return None

    # Rounds: try what is open for a program, all at once, and keep what works.

    def _run_rounds(self) -> bool:
        """Run rounds until no more fixes work, and keep the best program on the way; False if no
        fix worked.
        """
        states = [self._best]
        while not self._is_exhausted:
            opened = self._open(self._offered(states[-1]), states[-1])
            self._round += bool(opened)
            self._report_open(opened, states[-1])
            # Breaks first: a break makes resume functions, and these recompile.
            breaks = [options for options in opened if options.finding.code.startswith(BREAK)]
            rest = [options for options in opened if options not in breaks]
            following = self._run_round(breaks, states[-1]) or self._run_round(rest, states[-1])
            if following is None:
                break
            states.append(following)
        at = 0
        for number, state in enumerate(states[1:], start=1):
            if self._is_settled(state) and state.beats(states[at]):
                at = number
        self._best = states[at]
        if at + 1 < len(states):
            self._take_back_worse(states[at + 1], states[-1])
        return len(states) > 1

    def _is_settled(self, state: State) -> bool:
        """Tell if a program could be the last: no break was only moved, and none was added."""
        was, now = self._untouched.observed.measures, state.observed.measures
        return not self._log.moving(state.fixes, state) and not breaks_more(was, now)

    def _run_round(self, waiting: list[Options], state: State) -> State | None:
        """Try the first fix for each finding, then the next ones for those that it doesn't help,
        beside those that work; if none does, keep those that moved a break.
        """
        kept: _Turn = {}
        steps: _Turn = {}
        while waiting and not self._is_exhausted:
            turn, waiting = _turn_of(waiting, kept)
            if not turn:
                break
            trial = self._hold_together(state, kept, turn)
            for fix, opened in turn.items():
                is_held = trial is not None and fix in trial.fixes
                judged = self._judge_all(fix, opened, trial) if trial and is_held else []
                for options, judgment in zip_longest(opened, judged):
                    if judgment is not None and _works(judgment.verdict, fix):
                        kept.setdefault(fix, []).append(options)
                        continue
                    if judgment is not None and judgment.instead:
                        steps.setdefault(fix, []).append(options)
                    if options.fixes[1:]:
                        waiting.append(replace(options, fixes=options.fixes[1:]))
            mended = list(chain.from_iterable(kept.values()))
            waiting = [options for options in waiting if not _is_skipped_at(options, mended)]
        chosen = {fix: (kept or steps)[fix] for fix in compatible(list(kept or steps))}
        # Without those that did nothing; no new run if there were none.
        trial = self._hold_together(state, {}, chosen) if chosen else None
        if trial is None:
            return None
        if kept:
            self._log.reopen()
        self._contained |= _contained_in({fix: chosen[fix] for fix in trial.fixes})
        mended_count = sum(len(kept.get(fix, ())) for fix in trial.fixes)
        return state.joined(trial.fixes, trial.observed, mended_count=mended_count)

    def _hold_together(
        self, state: State, kept: Iterable[Candidate], turn: Mapping[Candidate, list[Options]]
    ) -> Trial | None:
        """Run fixes beside those that are kept. While the program fails, take out the first with
        which it does, beside those before it; None if none is left, or time is up.
        """
        fixes = list(turn)

        def examine(counts: Sequence[int]) -> list[tuple[Trial, Judgment] | None]:
            trials = self._trials.run_each(state, [[*kept, *fixes[:count]] for count in counts])
            return [(trial, why) if (why := self._objection(trial)) else None for trial in trials]

        while fixes:
            [whole] = self._trials.run_each(state, [[*kept, *fixes]])
            if (objection := self._objection(whole)) is None:
                return whole
            if fixes[1:] and self._is_exhausted:
                return None
            at, (trial, objection) = first_failing(
                len(fixes), (whole, objection), examine, width=self._trials.jobs
            )
            blamed = fixes.pop(at)
            if trial.fixes[1:] and objection.reasons:
                reasons = (because("beside_others", *objection.reasons),)
                objection = replace(objection, reasons=reasons)
            self._note(blamed, turn[blamed], [objection] * len(turn[blamed]), trial)
        return None

    def _objection(self, trial: Trial) -> Judgment | None:
        """Find what is to be said against a program, whatever its findings; None for nothing, and
        if nothing can be proved of any.
        """
        reference = self._trials.reference
        judged = trial.change.judge_program(reference)
        is_known = reference.is_known and not reference.unprovable
        is_held = holds(judged.verdict, drops_output=trial.drops_output)
        return None if is_held or (judged.verdict == "unproven" and not is_known) else judged

    def _judge_all(self, fix: Candidate, opened: Sequence[Options], trial: Trial) -> list[Judgment]:
        """Judge what a fix did to its findings; the log keeps it."""
        judged = [self._trials.judge(options.finding, fix, trial) for options in opened]
        if VERIFIED.isdisjoint(judgment.verdict for judgment in judged):
            judged = [self._untimed(judgment) for judgment in judged]
        self._note(fix, opened, judged, trial)
        return judged

    def _untimed(self, judgment: Judgment) -> Judgment:
        """Put off what only contains a break: that is for the end, and for the clock."""
        if judgment.verdict != "contained" or self._grade == GRADES[-1]:
            return judgment
        untimed = because("and", judgment.reasons[0].parts[0], because("call_untimed"))
        return replace(judgment, verdict="unproven", reasons=(untimed,))

    def _note(
        self, fix: Candidate, opened: Sequence[Options], judged: Sequence[Judgment], trial: Trial
    ) -> None:
        pairs = []
        for options, judgment in zip(opened, judged, strict=True):
            self._log.note(options.finding, fix, trial, self._round, judgment)
            place = self._log.shown_place(options.finding, trial.state.program)
            pairs.append((place, judgment.verdict))
        backend = self._trials.trial_backend if self._backend.is_another else None
        decided = DecidedTrial(trial.number, fix.title, tuple(pairs), backend, fix.grade, fix.kind)
        self._trials.report(decided)

    # What is open, and how long.

    def _offered(self, state: State) -> list[Options]:
        # Writing every edit of a program takes seconds, and grade after grade asks for them.
        if self._offers is None or self._offers[0] is not state.observed:
            trials = self._trials
            sources = Sources(state.program, trials.root, trials.originals, trials.equal_sizes)
            offered = options_for(state.observed, sources, self._options.selection)
            self._offers = state.observed, offered
        return self._offers[1]

    def _open(self, offered: Sequence[Options], state: State) -> list[Options]:
        """List what is still to be tried for a program: up to a grade, what loses output after all
        that doesn't.
        """
        opened = []
        for options in offered:
            is_contained = _function_of(options.finding) in self._contained
            fixes = tuple(
                fix
                for fix in options.fixes
                if GRADES.index(fix.grade) <= GRADES.index(self._grade)
                and not (fix.grade == GRADES[-1] and is_contained)
                and not (fix.drops_output and self._grade == GRADES[0])
            )
            still_open = self._log.open(
                replace(options, fixes=fixes),
                state,
                self._round + 1,
                is_unsafe_tried=self._options.is_unsafe_tried,
            )
            if still_open:
                opened.append(replace(options, fixes=tuple(still_open)))
        return opened

    def _report_open(self, opened: Iterable[Options], state: State) -> None:
        """Report each finding once, before its first trial."""
        for finding in [options.finding for options in opened]:
            place = self._log.shown_place(finding, state.program)
            event = OpenFinding(finding.code, finding.message, place)
            if event not in self._reported:
                self._reported.add(event)
                self._trials.report(event)

    @property
    def _is_timed(self) -> bool:
        return self._options.is_timed and monotonic() < self._end

    @property
    def _is_exhausted(self) -> bool:
        is_late = monotonic() > self._deadline
        # All at once are tried once, however long the program takes.
        return (is_late and self._trials.has_tried) or self._trials.replays.count >= _MAX_REPLAYS

    def _note_untried(self) -> None:
        """Name what there was no time for."""
        best = self._best
        opened = self._open(self._offered(best), best) if self._is_exhausted else []
        is_late = self._options.is_timed and not self._is_timed
        is_untimed = is_late and not self._trials.times_of(Program(), best.program)
        if opened or (is_untimed and best.applied):
            self._trials.notes.append(because("bounded"))
        for options in opened:
            for fix in options.fixes:
                self._log.note_untried(options.finding, fix, best, self._round, "budget")

    # One graph.

    def _capture(self) -> None:
        """Compile the best program with ``fullgraph=True``, which captures what torch breaks at by
        default, also in place of settings that capture it.
        """
        settings = [fix for fix in self._best.fixes if fix.name in CAPTURING]
        best: State | None = self._best
        for setting in settings:
            best = None if best is None else best.without(setting)
        if settings and best is not None:
            is_captured = not self._is_exhausted and self._whole_runs.is_captured(best)
            best = self._trials.run_state(best) if is_captured else None
        if best is None or best.program.change.fullgraph:
            return
        fix = fullgraph_fix(self._files.with_fullgraph(best.program))
        offered = [
            replace(options, fixes=(replace(fix, targets=(options.finding.fingerprint,)),))
            for options in self._offered(best)
            if options.finding.code.startswith(BREAK)
        ]
        opened = self._open(offered, best)
        if not opened or self._is_exhausted or not self._whole_runs.is_captured(best):
            return
        self._round += 1
        fix = opened[0].fixes[0]
        [trial] = self._trials.run_each(best, [[fix]])
        judged = self._judge_all(fix, opened, trial)
        if all(judgment.verdict in VERIFIED for judgment in judged):
            self._log.take_back(settings, "no effect", (because("needless"),))
            self._best = best.joined([fix], trial.observed, mended_count=len(judged))

    # Objections to the best program: each takes fixes back.

    def _prune(self) -> None:
        """Leave out settings that other fixes make needless.

        What the last round brought alone was tried beside all others.
        """
        best = self._best
        rounds = [before for _, before in best.applied]
        for fix, before in reversed(best.applied):
            is_last = before == rounds[-1] and rounds.count(before) == 1
            if fix.edits or is_last or self._is_exhausted:
                continue
            fewer = self._best.without(fix)
            fewer = None if fewer is None else self._trials.run_state(fewer)
            if fewer is None or self._best.beats(fewer):
                continue
            # Nothing may come back.
            if self._trials.left(fewer) <= self._trials.left(self._best):
                self._log.take_back([fix], "no effect", (because("needless"),))
                self._best = fewer

    def _take_back_worse(self, worse: State, last: State) -> None:
        """Blame what led from the best program to one that no more fixes made better."""
        best, count = self._best, len(self._best.applied)
        fixes = worse.fixes[count:]
        blamed = self._log.moving(last.fixes[count:], last)

        def examine(counts: Sequence[int]) -> list[State | None]:
            trials = self._trials.run_each(best, [fixes[:count] for count in counts])
            states = [
                best.joined(trial.fixes, trial.observed, mended_count=len(trial.fixes))
                for trial in trials
            ]
            return [None if s.beats(best) and self._is_settled(s) else s for s in states]

        if not blamed and fixes[1:] and self._is_exhausted:
            self._log.take_back(last.fixes[count:])
            return
        if not blamed:
            at, _ = first_failing(len(fixes), worse, examine, width=self._trials.jobs)
            blamed = [fixes[at]]
        # Less is compiled, whatever that counts of breaks.
        is_worse = last.score[:3] > best.score[:3]
        how = because("no_helping_fix", made_worse(best.observed, last.observed))
        self._log.take_back(blamed, "makes it worse" if is_worse else "moved", (how,))
        self._log.take_back([fix for fix in last.fixes[count:] if fix not in blamed])

    def _check_elsewhere(self, best: State) -> Check:
        """Run a program with fixes under the user's backend."""
        if not best.applied or not self._options.is_checked:
            return Check("verified")
        return self._backend.check(best.program, drops_output=best.drops_output)

    def _doubt(self, reasons: Reasons) -> None:
        """Take all fixes back, which prove nothing under the user's backend."""
        reasons = (self._under(reasons),)
        self._log.take_back(self._best.fixes, "unproven", reasons, backend=self._backend.name)
        self._best = self._untouched

    def _under(self, reasons: Reasons) -> Reason:
        return because("under", self._backend.name, *reasons)

    def _failing(self, state: State) -> _Fault | None:
        """Say how a program fails under the user's backend."""
        check = self._check_elsewhere(state)
        if holds(check.verdict, drops_output=state.drops_output):
            return None
        return _Fault(check.verdict, self._under(check.reasons), self._backend.name)

    def _moved(self, state: State) -> _Fault | None:
        """Say if a break came back beside other fixes."""
        best = self._best
        change = self._trials.change(self._untouched, best.observed, best.program)
        for fix in state.fixes:
            if findings := self._log.broken_again(fix, change):
                sites = (finding.site for finding in findings)
                return _Fault("moved", because("breaks_instead", *sites))
        return None

    def _slow(self, state: State) -> _Fault | None:
        """Say if the call is plainly longer."""
        if not self._is_timed:
            return None
        times = self._trials.confirmed(Program(), state.program, plainly_slower)
        return None if times is None else _Fault("makes it worse", because("call_with_it", times))

    def _take_back(self, objection: Callable[[State], _Fault | None]) -> bool:
        """Take back the first fix with which a program gives rise to an objection, beside those
        before it; of the others, those that came later stay if the rest holds.
        """
        best = self._best
        if not best.applied or (whole := objection(best)) is None:
            return False

        def examine(counts: Sequence[int]) -> list[_Fault | None]:
            whole_counts = (self._log.complete(best.fixes, count) for count in counts)
            return [objection(best.first(count)) for count in whole_counts]

        at, (verdict, reason, backend) = first_failing(len(best.applied), whole, examine)
        blamed = best.fixes[at]
        states = [best.without(blamed), best.first(at)]
        fewer = (self._trials.run_state(state) for state in states if state and state.applied)
        held = (state for state in fewer if state and not self._log.moving(state.fixes, state))
        self._best = next(held, self._untouched)
        reason = because("beside_others", reason) if at and verdict != "makes it worse" else reason
        self._log.take_back([blamed], verdict, (reason,), backend=backend)
        left = [blamed, *self._best.fixes]
        self._log.take_back([fix for fix in best.fixes if fix not in left])
        return True

    def _contain(self) -> None:
        """Add fixes that contain a break, and what shows beside them, if more is compiled and the
        call is faster so.
        """
        if not self._is_timed:
            return
        self._grade, start = GRADES[-1], self._best
        self._log.reopen_untimed()
        self._run_rounds()
        more, self._best = self._best, start
        was, now = start.observed.measures, more.observed.measures
        is_more = (now.coverage or 0.0) > (was.coverage or 0.0) or now.break_sites < was.break_sites
        check = self._check_elsewhere(more)
        if not holds(check.verdict, drops_output=more.drops_output):
            reasons = check.reasons
        elif not is_more:
            reasons = (because("nothing_improves"),)
        elif self._trials.confirmed(start.program, more.program, faster) is None:
            reasons = (because("call_not_faster"),)
        else:
            self._best = more
            return
        self._log.take_back(more.fixes[len(start.applied) :], "no effect", reasons)

    # Results.

    def _suggested(self, offered: Sequence[Options], cause: UntriedCause) -> SearchResult:
        """Note every fix for the untouched program; the first edit for each finding goes into the
        patch.
        """
        base, edits = self._untouched, list[Candidate]()
        for options in self._open(offered, base):
            for fix in options.fixes:
                self._log.note_untried(options.finding, fix, base, 1, cause)
            edits += [fix for fix in options.fixes if fix.edits][:1]
        suggested = self._files.changes(with_fixes(base.program, edits))
        treatment = self._treated().treatment.replace(diff=self._files.diff(suggested))
        return SearchResult(treatment, suggested=suggested)

    def _treated(self) -> SearchResult:
        return result_of(
            self._files,
            self._options,
            self._log,
            self._backend,
            self._untouched,
            self._best,
            whole=self._whole,
        )

    # A patch in place of fixes.

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
            [trial] = trials.run_each(self._untouched, [[fix]])
            places, is_none_run = trials.lines_not_run(fix)
            judged = self._judge_patch(trial)
            if judged.verdict in WORKING and is_none_run:
                reason = because("not_run", *places[:1])
                judged = replace(judged, verdict="unproven", reasons=(reason,))
            if judged.verdict in WORKING:
                self._best = self._untouched.joined([fix], trial.observed)
                self._whole = self._whole_runs.of(self._best, self._log.shown_place)
            is_one_graph = self._whole is not None and self._whole.is_one_graph
            before = self._untouched.observed.recording.config
            now = trial.observed.recording.config
            config = None
            if before is not None and now is not None:
                config = dict(now.items() - before.items())
            tried = tried.replace(
                **trial.outcome(judged),
                is_one_graph=is_one_graph,
                grade=fix.grade,
                config=config,
                lines_not_run=places,
            )
        result = self._treated()
        diff = self._files.diff(fix.edits)
        treatment = result.treatment.replace(patch=tried, sites=None, diff=diff)
        return replace(result, treatment=treatment)

    def _judge_patch(self, trial: Trial) -> Judgment:
        """Judge a patch by counts, then under the user's backend and by the clock."""
        without_it, program = trial.programs
        judged = trial.change.judge_patch(self._trials.reference)
        if judged.verdict not in VERIFIED and judged.if_faster is None:
            return judged
        is_lossy = judged.verdict == LOSSY
        check = self._backend.check(program, drops_output=is_lossy)
        if not holds(check.verdict, drops_output=is_lossy):
            return replace(judged, verdict=check.verdict, reasons=(self._under(check.reasons),))
        if not self._options.is_timed:
            return judged
        times = self._trials.confirmed(without_it, program, plainly_slower)
        if times is not None:
            reason = because("call_with_it", times)
            return replace(judged, verdict="makes it worse", reasons=(reason,))
        if judged.if_faster and self._trials.confirmed(without_it, program, faster):
            return replace(judged, verdict=judged.if_faster, reasons=())
        return judged


def first_failing(
    count: int,
    whole: _Why,
    examine: Callable[[Sequence[int]], Sequence[_Why | None]],
    *,
    width: int = 1,
) -> tuple[int, _Why]:
    """Find the first of so many changes with which a program fails, beside all of those before it,
    and how it does.

    Args:
        count: How many there are; without any, the program holds.
        whole: How it fails with all of them.
        examine: Says how it fails with the first so many changes, for each of a few numbers; None
            if it holds.
        width: How many numbers to ask for at once.
    """
    held, failing, fault = 0, count, whole
    while failing - held > 1:
        parts = width + 1
        middle = {held + (failing - held) * part // parts for part in range(1, parts)}
        asked = sorted(middle - {held}) or [held + 1]
        for number, objection in zip(asked, examine(asked), strict=True):
            if objection is not None:
                failing, fault = number, objection
                break
            held = number
    return failing - 1, fault


def _works(verdict: Verdict, fix: Candidate) -> bool:
    """Tell if a fix is worth having: only one that says so may lose output."""
    return verdict in WORKING and (verdict != LOSSY or fix.drops_output)


def _function_of(finding: Finding) -> tuple[str, str]:
    return finding.location.file, finding.location.function


def _is_skipped_at(options: Options, others: Iterable[Options]) -> bool:
    at = options.finding.location.at
    return options.finding.code == SKIPPED_FRAME and any(
        other.finding.location.at == at for other in others
    )


def _turn_of(waiting: Sequence[Options], kept: _Turn) -> tuple[_Turn, list[Options]]:
    """Choose what to try at once beside what is kept: the first fix for each finding, equal ones
    once, and one that contains a break for each function; and what waits.
    """
    breaks = [options for options in waiting if options.finding.code != SKIPPED_FRAME]
    ready = [options for options in waiting if not _is_skipped_at(options, breaks)]
    # Beside one that loses output, nobody knows what others lose.
    ready = [options for options in ready if not options.fixes[0].drops_output] or ready[:1]
    turn: _Turn = {}
    contained = _contained_in(kept)
    for options in ready:
        fix, function = options.fixes[0], _function_of(options.finding)
        fix = next((other for other in turn if other.is_same(fix)), fix)
        if fix.grade != GRADES[-1] or fix in turn or function not in contained:
            turn.setdefault(fix, []).append(options)
            contained |= _contained_in({fix: [options]})
    fitting = compatible([*kept, *turn])
    turn = {fix: opened for fix, opened in turn.items() if fix in fitting}
    taken = [id(options) for opened in turn.values() for options in opened]
    return turn, [options for options in waiting if id(options) not in taken]


def _contained_in(turn: _Turn) -> set[tuple[str, str]]:
    """Collect files and functions that fixes contain a break of."""
    return {
        _function_of(options.finding)
        for fix, opened in turn.items()
        if fix.grade == GRADES[-1]
        for options in opened
    }
