"""Tries fixes until no more can be verified, then reports what all verified ones do together.

A fix can uncover the next break, so each round starts from the program with the verified fixes of
earlier rounds. If the rounds end with a program that is worse than an earlier one, the fix that led
there is taken back.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import WORKING, Treatment, TriedPatch, UntriedCause, Verdict
from graphdoctor.facts.progress import DecidedTrial
from graphdoctor.facts.proposals import FailedProposal
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import Recording
from graphdoctor.fixes.by_time import Regional, Slowness, regional_options
from graphdoctor.fixes.diffs import DiffError
from graphdoctor.fixes.entry_file import with_settings
from graphdoctor.fixes.kept import SearchOptions
from graphdoctor.fixes.log import TrialLog, gone
from graphdoctor.fixes.options import Sources, options_for, treated_findings
from graphdoctor.fixes.patch import (
    Candidate,
    FileChange,
    Options,
    compatible,
    diff_text,
    with_fixes,
)
from graphdoctor.fixes.proposals import Proposer, edit_request
from graphdoctor.fixes.trials import INDUCTOR, Check, Numbers, State, Trials, UserBackend
from graphdoctor.fixes.verdicts import (
    BREAK,
    REPEATED_BLOCKS,
    SKIPPED_FRAME,
    Judgment,
    Score,
    is_less_compiled,
    judge_patch,
    made_worse,
    score,
)
from graphdoctor.probe.wire import FIXES_FILE
from graphdoctor.trials.judge import Observed, attacked_in, compared_with_eager
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.recorded import fitting
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import EAGER, Replays
from graphdoctor.trials.timing import faster, plainly_slower
from graphdoctor.wording import counted

FOLDER = "fixes"
_MAX_JOBS = 4
_MAX_ROUNDS = 12
_MAX_REPLAYS = 100
_UNTIMED = ", and the call wasn't timed"


@dataclass
class _Trial:
    """One fix in a wave of trials, for all findings that it is the fix for."""

    fix: Candidate
    findings: list[Finding]
    number: int = 0
    verdicts: list[Verdict] = field(default_factory=list)
    announced: list[Verdict] | None = None

    @property
    def is_working(self) -> bool:
        return any(verdict in WORKING for verdict in self.verdicts)


_Tried = tuple[_Trial, Observed]


@dataclass(frozen=True)
class Patch:
    """Edits that somebody wrote, and what they were read from."""

    name: str
    changes: tuple[FileChange, ...]


@dataclass(frozen=True)
class SearchResult:
    """The results."""

    treatment: Treatment
    changes: tuple[FileChange, ...] = ()
    suggested: tuple[FileChange, ...] = ()
    program: Program = field(default_factory=Program)


def search(
    request: Request,
    folder: Path,
    recording: Recording,
    *,
    root: Path,
    options: SearchOptions,
    setup: Setup,
    check: Callable[[Sequence[FileChange]], None] | None = None,
    patch: Patch | None = None,
) -> SearchResult:
    """Try fixes for the findings of a recorded run, or a patch; the trials' recordings go below its
    folder.

    ``check`` is called before any trial with the edits that can be tried; an exception from it ends
    the treatment.
    """
    setup = replace(setup, timeout_s=options.timeout_s, memory_bytes=options.memory_bytes)
    replays = Replays(request, folder / FOLDER, setup)
    jobs = options.jobs or _default_jobs(request, recording)
    trials = Trials(
        replays,
        root,
        jobs,
        request.spec.backend,
        setup.on_phase,
        Numbers(setup.on_phase, setup.on_trial),
    )
    rounds = _Rounds(trials, options)
    try:
        treated = rounds.so_far = (
            rounds.run(recording, check) if patch is None else rounds.run_patch(recording, patch)
        )
        return treated
    except KeyboardInterrupt:
        replays.cancel()
        raise
    finally:
        replays.close()
        if rounds.so_far is not None:
            write_fact(rounds.so_far.treatment, folder / FIXES_FILE)


def _default_jobs(request: Request, recorded: Recording) -> int:
    """As many as there are cores and as fit into half the free memory; trials on one accelerator
    share its memory.
    """
    if request.spec.device is not None:
        return 1
    return fitting(recorded.exit.peak_memory_bytes, most=min(_MAX_JOBS, os.cpu_count() or 1))


class _Rounds:
    def __init__(self, trials: Trials, options: SearchOptions) -> None:
        self._trials = trials
        self._options = options
        self._log = TrialLog(trials, options.selection)
        self._backend = UserBackend(trials)
        self._slowness = Slowness(trials, self._log, is_each=options.timing == "each")
        self._regional = Regional(trials, self._log, self._backend, is_timed=options.is_timed)
        self._repeated: Options | None = None
        self._number = 0
        self._last: State | None = None
        self._outweighed: set[Candidate] = set()
        self._leaving_out = itertools.count(1)
        self._together = itertools.count(1)
        self._is_containing = False
        self._known: list[State] = []
        self.so_far: SearchResult | None = None

    def run(
        self, recording: Recording, check: Callable[[Sequence[FileChange]], None] | None
    ) -> SearchResult:
        """Run the rounds; if an interrupt ends them, ``so_far`` holds the results until then."""
        base = State(Program(), self._trials.observe(recording))
        self._repeated = regional_options(base.observed, self._options.selection)
        options_of_base = self._options_for(base)
        if not options_of_base and self._repeated is None:
            return self._treated(base, base)
        if recording.exit.reason != "finished":
            self._trials.notes.append("the recorded run didn't finish, so nothing was tried")
            return self._suggested(base, "unfinished_run")
        if not self._options.is_tried:
            return self._suggested(base, "not_requested")
        found = self._open(base)
        is_asked = self._options.proposer is not None and treated_findings(
            base.observed, self._options.selection
        )
        if not found and self._repeated is None and not is_asked:
            return self._treated(base, base)
        if check is not None:
            check(self._writable([fix for options in found for fix in options.fixes], recording))
        wanted = {
            options.finding.fingerprint for options in (options_of_base if is_asked else found)
        }
        has_inductor = self._options.is_timed or self._trials.backend == INDUCTOR
        self._trials.replays.prepare(INDUCTOR if has_inductor else EAGER)
        untouched = self._trials.run_untouched(base.observed, wanted)
        if untouched is None:
            return self._suggested(base, "not_repeatable")
        start: State | None = untouched
        best = self._last = untouched
        try:
            while start is not None:
                best, is_open = self._from(start)
                while is_open:
                    self._last = best
                    best, is_open = self._from(best)
                self._last = best = self._pruned(best)
                check_ = self._checked_elsewhere(best)
                if check_ is not None and check_.verdict == "unproven":
                    self._unproven(best, check_.reason or "")
                    best = self._last = untouched
                    break
                start = self._without_failing(untouched, best) or self._without_moved(
                    untouched, best
                )
            best = self._contained(best)
            best = self._last = self._without_slow(untouched, best)
            best = self._last = self._proposed(best)
            if self._repeated is not None:
                best = self._regional.tried(self._repeated, best, self._number + 1) or best
            if self._options.is_timed and best.applied:
                self._slowness.time_set(best)
            return self._treated(untouched, best)
        except KeyboardInterrupt:
            self._trials.notes.append("interrupted, so some fixes weren't tried")
            so_far = self._treated(untouched, self._checked(self._last or untouched, untouched))
            self.so_far = replace(so_far, treatment=so_far.treatment.replace(is_interrupted=True))
            raise

    def _writable(self, fixes: Sequence[Candidate], recording: Recording) -> list[FileChange]:
        """What would be written of fixes: their edits, and for settings the file that the program
        starts with.
        """
        edits = [edit for fix in fixes for edit in fix.edits]
        entry = self._entry_file(recording) if any(fix.kind == "config" for fix in fixes) else None
        if entry is not None:
            content = entry.read_bytes()
            edits.append(FileChange(entry, content, content))
        return edits

    def _from(self, start: State) -> tuple[State, bool]:
        """Run rounds from a state until no more fixes work; the best state on the way, and whether
        any fix worked.

        If one did, a fix that was tried beside one that is taken back may help by itself.
        """
        states = [start]
        while found := self._open(states[-1]):
            if self._is_bounded:
                count = self._trials.replays.count
                self._trials.notes.append(
                    f"stopped after {counted(self._number, 'round')} and {counted(count, 'replay')}"
                )
                break
            self._number += 1
            following = self._round(states[-1], found)
            if following is not None:
                states.append(following)
                self._known.append(following)
                self._last = following
            elif not self._is_bounded:
                break
        settled = [
            index for index, state in enumerate(states) if not self._log.has_moved_break(state)
        ]
        at = min(settled or [0], key=lambda index: (states[index].score, index))
        best = states[at]
        if at + 1 < len(states):
            self._take_back(best, states[at + 1], states[-1])
        return best, len(states) > 1

    def _pruned(self, best: State) -> State:
        """The best program without fixes that others make needless, settings before edits of
        source.

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
            pruned = self._trials.run_without(
                fix, best, f"{self._number}-without-{next(self._leaving_out)}"
            )
            if pruned is not None:
                self._log.take_back([fix], "no effect", "the others do the same without it")
                best = pruned
        return best

    def _take_back(self, best: State, worse: State, last: State) -> None:
        first = [fix for fix, _ in worse.applied[len(best.applied) :]]
        blamed = max(first, key=lambda fix: self._score_alone(fix, best))
        rest = [fix for fix, _ in last.applied[len(best.applied) :] if fix is not blamed]
        reason = (
            f"with it, {made_worse(best.observed, last.observed)}, and no fix that was tried helps"
        )
        is_worse = is_less_compiled(last.score, best.score)
        self._log.take_back([blamed], "makes it worse" if is_worse else "moved", reason)
        self._log.take_back(rest)

    def _options_for(self, state: State) -> list[Options]:
        sources = Sources(
            state.program, self._trials.root, self._trials.originals, self._trials.equal_sizes
        )
        return options_for(state.observed, sources, self._options.selection)

    def _open(self, state: State) -> list[Options]:
        is_unsafe_tried = self._options.is_unsafe_tried
        return [
            replace(options, fixes=tuple(sorted(fixes, key=self._is_new)))
            for options in self._options_for(state)
            if (
                fixes := self._log.open(
                    options, state, self._number + 1, is_unsafe_tried=is_unsafe_tried
                )
            )
        ]

    def _is_new(self, fix: Candidate) -> bool:
        """Whether a fix isn't known to have worked before an interrupt."""
        earlier = self._options.earlier
        return not earlier or (self._diff(fix.edits) or fix.snippet) not in earlier

    @property
    def _is_bounded(self) -> bool:
        return self._number >= _MAX_ROUNDS or self._is_exhausted

    @property
    def _is_exhausted(self) -> bool:
        is_late = self._options.deadline is not None and time.monotonic() > self._options.deadline
        return is_late or self._trials.replays.count >= _MAX_REPLAYS

    def _score_alone(self, fix: Candidate, state: State) -> Score:
        measures = self._log.measures_with(fix) or state.observed.measures
        is_outweighed = state.is_outweighed or fix in self._outweighed
        return score(measures, mended_count=state.mended_count, is_outweighed=is_outweighed)

    def _round(self, state: State, found: Sequence[Options]) -> State | None:
        # Breaks first: a break makes resume functions, and these recompile.
        breaks = [options for options in found if options.finding.code.startswith(BREAK)]
        rest = [options for options in found if options not in breaks]
        steps: list[_Tried] = []
        for number, waiting in enumerate((breaks, rest), start=1):
            tried = self._waves(waiting, state, f"{self._number}.{number}")
            if chosen := [one for one in tried if one[0].is_working]:
                return self._join(state, chosen)
            steps += tried
        return self._join(state, steps[:1]) if steps else None

    def _waves(self, waiting: list[Options], state: State, label: str) -> list[_Tried]:
        found: list[_Tried] = []
        wave = 0
        while waiting and not self._is_exhausted:
            wave += 1
            breaks = [options for options in waiting if options.finding.code != SKIPPED_FRAME]
            now = [options for options in waiting if not _is_skipped_at(options, breaks)]
            trials = _shared(now)
            observed = self._try(trials, state, f"{label}.{wave}")
            still = [options for options in waiting if options not in now]
            for options in now:
                at = next(
                    at for at, trial in enumerate(trials) if options.finding in trial.findings
                )
                trial, after = trials[at], observed[at]
                judged = self._judged(options.finding, trial, state, after)
                trial.verdicts.append(judged.verdict)
                self._log.note(
                    options.finding, trial.fix, state, self._number, judged=judged, after=after
                )
                if (judged.verdict in WORKING or judged.instead) and all(
                    trial is not one for one, _ in found
                ):
                    found.append((trial, after))
                if judged.verdict not in WORKING and options.fixes[1:]:
                    still.append(replace(options, fixes=options.fixes[1:]))
            for trial in trials:
                # Some wait for timing, and a later trial can show what is noise.
                if trial.verdicts != trial.announced:
                    self._announce(trial, state, trial.verdicts)
            resolved = {
                target for trial, _ in found if trial.is_working for target in trial.fix.targets
            }
            mended = [options for options in now if options.finding.fingerprint in resolved]
            waiting = [options for options in still if not _is_skipped_at(options, mended)]
        return found

    def _try(self, trials: Sequence[_Trial], state: State, label: str) -> list[Observed]:
        """Make trials, and announce each when it ends, unless timing has to decide first."""

        def announce(index: int, number: int, observed: Observed) -> None:
            trial = trials[index]
            trial.number = number
            judged = [self._counted(finding, trial, state, observed) for finding in trial.findings]
            if all(one.if_faster is None for one in judged):
                self._announce(trial, state, [one.verdict for one in judged])

        return self._trials.run_each([trial.fix for trial in trials], state, label, announce)

    def _announce(self, trial: _Trial, state: State, verdicts: list[Verdict]) -> None:
        trial.announced = verdicts
        places = [self._log.shown_place(finding, state.program) for finding in trial.findings]
        backend = self._trials.trial_backend if self._backend.is_another else None
        pairs = tuple(zip(places, verdicts, strict=True))
        self._trials.numbers.report(DecidedTrial(trial.number, trial.fix.title, pairs, backend))

    def _counted(
        self, finding: Finding, trial: _Trial, state: State, observed: Observed
    ) -> Judgment:
        """What counts tell of a trial; to contain a break is for the end, unless the fix removes
        another one.
        """
        judged = self._trials.judge(finding, trial.fix, state, observed)
        if judged.verdict != "contained" or self._is_containing:
            return judged
        others = (
            self._trials.judge(other, trial.fix, state, observed).verdict
            for other in trial.findings
        )
        if "verified" in others:
            return judged
        left, _, _ = (judged.reason or "").partition(", but ")
        return replace(judged, verdict="unproven", reason=f"{left}{_UNTIMED}")

    def _judged(
        self, finding: Finding, trial: _Trial, state: State, observed: Observed
    ) -> Judgment:
        fix, judged = trial.fix, self._counted(finding, trial, state, observed)
        if judged.if_faster is not None and _moved_only(
            fix, state.observed.measures, observed.measures
        ):
            self._outweighed.add(fix)
            return replace(
                judged, verdict=judged.if_faster, reason=f"{judged.reason}, by what moved out"
            )
        if judged.if_faster is None or not self._options.is_timed:
            return judged
        gain = self._trials.confirmed(state.program, with_fixes(state.program, (fix,)), faster)
        if gain is None:
            return judged
        self._outweighed.add(fix)
        return replace(
            judged,
            verdict=judged.if_faster,
            reason=f"{judged.reason}; the call is {gain} all the same",
        )

    def _join(self, state: State, chosen: Sequence[_Tried]) -> State:
        fixes = [trial.fix for trial, _ in chosen]
        together, observed = self._bisected(compatible(fixes), state)
        if observed is None:
            observed = next(after for trial, after in chosen if trial.fix is together[0])
        self._log.apply(together, self._number)
        return state.joined(
            together,
            observed,
            mended_count=sum(
                trial.verdicts.count("verified") for trial, _ in chosen if trial.fix in together
            ),
            is_outweighed=not self._outweighed.isdisjoint(together),
        )

    def _bisected(
        self, fixes: list[Candidate], state: State
    ) -> tuple[list[Candidate], Observed | None]:
        """As many fixes as hold together, and what their trial showed; None if that is one, which
        was tried alone.

        Those that are left out are tried again beside them.
        """
        kept, observed = fixes[:0], None
        waiting = [fixes]
        while waiting:
            group = waiting.pop(0)
            both = [*kept, *group]
            found = None
            if len(both) > 1 and not (kept and self._is_exhausted):
                name = f"{self._number}-together-{next(self._together)}"
                is_outweighed = not self._outweighed.isdisjoint(both)
                found = self._trials.run_together(both, state, name, is_outweighed=is_outweighed)
            if found is not None or len(both) == 1:
                kept, observed = both, found
            elif len(group) > 1:
                middle = len(group) // 2
                waiting[:0] = [group[:middle], group[middle:]]
        return kept, observed

    def _checked_elsewhere(self, best: State) -> Check | None:
        """What a program with fixes does under the user's backend; None if trials compile with
        it.
        """
        if not best.applied or not self._backend.is_another:
            return None
        return self._backend.check(best.program, drops_output=best.drops_output)

    def _checked(self, best: State, untouched: State) -> State:
        if not best.applied or not self._backend.is_another or self._backend.known(best.program):
            return best
        self._unproven(best, "it wasn't run there")
        return untouched

    def _unproven(self, best: State, reason: str) -> None:
        name = self._backend.name
        self._log.take_back(
            [fix for fix, _ in best.applied], "unproven", f"under {name}: {reason}", backend=name
        )

    def _without_failing(self, untouched: State, best: State) -> State | None:
        check = self._checked_elsewhere(best)
        if check is None or check.verdict == "verified":
            return None
        blamed, together = best.applied[-1][0], "with the others, " if len(best.applied) > 1 else ""
        for fix, before in best.applied if together else ():
            # Each is run beside the fixes of earlier rounds, so the first that fails is the one.
            alone = self._backend.check(with_fixes(before, (fix,)), drops_output=best.drops_output)
            if alone.verdict != "verified":
                blamed, check, together = fix, alone, ""
                break
        name = self._backend.name
        return self._back(
            untouched, best, blamed, check.verdict, f"{together}under {name}: {check.reason}", name
        )

    def _back(
        self,
        untouched: State,
        best: State,
        blamed: Candidate,
        verdict: Verdict,
        reason: str,
        backend: str | None = None,
    ) -> State:
        at = next(index for index, (fix, _) in enumerate(best.applied) if fix is blamed)
        start = max(
            (state for state in [untouched, *self._known] if _is_before(state, best, at)),
            key=lambda state: len(state.applied),
        )
        self._log.take_back([blamed], verdict, reason, backend=backend)
        self._log.take_back(
            [fix for fix, _ in best.applied[len(start.applied) :] if fix is not blamed]
        )
        return start

    def _without_slow(self, untouched: State, best: State) -> State:
        """The best program; if its call is plainly longer, with another fix in place of the one to
        blame.
        """
        found = self._slowness.blamed(best) if self._options.is_timed and best.applied else None
        if found is None:
            return best
        blamed, alone, together = found
        at = next(at for at, (fix, _) in enumerate(best.applied) if fix is blamed)
        fewer = (self._as_fast(state) for state in (best.without(blamed), best.first(at)))
        kept = next(filter(None, fewer), untouched)
        rest = [fix for fix, _ in kept.applied]
        self._log.take_back([blamed], "makes it worse", alone)
        self._log.take_back(
            [fix for fix, _ in best.applied if fix not in rest], "makes it worse", together
        )

        def objection(program: Program) -> str | None:
            change = self._trials.confirmed(Program(), program, plainly_slower)
            return change and f"with it, the steady call is {change}"

        return self._with_more(kept, objection, "makes it worse")

    def _as_fast(self, state: State | None) -> State | None:
        """A state with fewer fixes, if it holds what they are for, and the call isn't plainly
        longer.
        """
        if state is None or not state.applied:
            return None
        found = self._trials.run_fewer(state, f"{self._number}-without-{next(self._leaving_out)}")
        if found is None or self._log.has_moved_break(found):
            return None
        check = self._checked_elsewhere(found)
        is_slow = self._trials.confirmed(Program(), found.program, plainly_slower) is not None
        return None if is_slow or (check is not None and check.verdict != "verified") else found

    def _without_moved(self, untouched: State, best: State) -> State | None:
        """Take back a fix whose break came back beside the others."""
        sites = self._trials.sites(untouched, best)
        for fix, _ in best.applied:
            if again := self._log.broken_again(fix, sites):
                places = ", ".join(found.site for found in again)
                return self._back(
                    untouched, best, fix, "moved", f"with the others, it breaks at {places} instead"
                )
        return None

    def _contained(self, best: State) -> State:
        """The best program with fixes that contain a break, and with what shows beside them, if it
        is faster so.
        """
        if not self._options.is_timed or not self._log.reopen(_UNTIMED):
            return best
        self._is_containing = True

        def objection(program: Program) -> str | None:
            is_faster = self._trials.confirmed(best.program, program, faster) is not None
            return None if is_faster else "a break stays, and the call isn't faster"

        found = self._with_more(best, objection, "no effect")
        self._is_containing = False
        return found

    def _with_more(
        self, start: State, objection: Callable[[Program], str | None], verdict: Verdict
    ) -> State:
        """What further rounds make of a program, if nothing is to be said against it."""
        found, _ = self._from(start)
        fixes = [fix for fix, _ in found.applied[len(start.applied) :]]
        if not fixes:
            return start
        check = self._checked_elsewhere(found)
        reason = (
            objection(found.program)
            if check is None or check.verdict == "verified"
            else check.reason
        )
        if reason is None:
            return found
        self._log.take_back(fixes, verdict, reason)
        return start

    # Edits that others wrote.

    def _proposed(self, best: State) -> State:
        """The best program with edits that the proposer wrote for what is left, and what more
        rounds make of it.
        """
        proposer, asked = self._options.proposer, set[str]()
        while proposer is not None:
            left = treated_findings(best.observed, self._options.selection)
            finding = next((one for one in left if one.fingerprint not in asked), None)
            if finding is None or self._is_exhausted:
                break
            asked.add(finding.fingerprint)
            found = self._proposed_for(finding, best, proposer)
            if found is not None:
                best = self._last = self._pruned(self._from(found)[0])
        return best

    def _proposed_for(self, finding: Finding, state: State, proposer: Proposer) -> State | None:
        place, texts = (
            self._log.shown_place(finding, state.program),
            self._trials.texts_of(state.program),
        )
        request = edit_request(
            state.observed.diagnosis,
            finding,
            self._trials.root,
            texts.__getitem__,
            self._log.why_left(finding, state),
        )
        sent = {self._trials.root / one.file for one in request.functions}
        if not sent:
            self._trials.notes.append(
                f"nothing was proposed for {place}: none of your own functions leads to it"
            )
            return None
        failed = list[FailedProposal]()
        for number in range(1, proposer.rounds + 1):
            self._trials.on_phase(
                f"asking {proposer.command} about {place}, round {number} of {proposer.rounds}"
            )
            asked = request.replace(round=number, rounds=proposer.rounds, earlier=tuple(failed))
            try:
                changes = proposer.ask(
                    asked, self._trials.root, {path: texts[path] for path in sent}
                )
            except DiffError as error:
                failed.append(FailedProposal(diff=None, verdict="failed", reason=error.reason))
                continue
            title = f"Proposed by {proposer.command}{f', try {number}' if number > 1 else ''}"
            fix = Candidate(
                title, "code", is_safe=False, targets=(finding.fingerprint,), edits=changes
            )
            for change in changes:
                self._trials.originals.setdefault(change.path, change.before)
            self._number += 1
            trial = _Trial(fix, [finding])
            [observed] = self._try([trial], state, f"{self._number}.proposed")
            judged = self._held(self._judged(finding, trial, state, observed), fix, state)
            self._log.note(finding, fix, state, self._number, judged=judged, after=observed)
            if judged.verdict in WORKING:
                self._log.apply([fix], self._number)
                return state.joined(
                    [fix],
                    observed,
                    mended_count=1,
                    is_outweighed=not self._outweighed.isdisjoint([fix]),
                )
            attacked = attacked_in(observed.recording)
            worst = attacked and attacked.worst
            failed.append(
                FailedProposal(
                    diff=self._diff(changes),
                    verdict=judged.verdict,
                    reason=judged.reason or judged.verdict,
                    repeat=worst.code if worst else None,
                )
            )
        self._trials.notes.append(
            f"{proposer.command} proposed nothing for {place} that holds: {failed[-1].reason}"
        )
        return None

    def _held(self, judged: Judgment, fix: Candidate, state: State) -> Judgment:
        """What a trial means once the user's backend and the clock were asked, too."""
        if judged.verdict not in WORKING:
            return judged
        program = with_fixes(state.program, (fix,))
        if self._backend.is_another:
            check = self._backend.check(program, drops_output=state.drops_output)
            if check.verdict != "verified":
                return replace(
                    judged,
                    verdict=check.verdict,
                    reason=f"under {self._backend.name}: {check.reason}",
                )
        if self._options.is_timed and (
            change := self._trials.confirmed(state.program, program, plainly_slower)
        ):
            return replace(
                judged, verdict="makes it worse", reason=f"with it, the steady call is {change}"
            )
        return judged

    def run_patch(self, recording: Recording, patch: Patch) -> SearchResult:
        """Try a patch in place of fixes."""
        base = State(Program(), self._trials.observe(recording))
        self._trials.originals.update((change.path, change.before) for change in patch.changes)
        fix = Candidate(f"Apply {patch.name}", "code", is_safe=False, edits=patch.changes)
        told = TriedPatch(name=patch.name, verdict="unproven")
        if recording.exit.reason != "finished":
            return self._of_patch(
                base, base, told.replace(reason="the run without it didn't finish"), fix
            )
        self._trials.replays.prepare(INDUCTOR if self._trials.backend == INDUCTOR else EAGER)
        wanted = {
            found.fingerprint for found in treated_findings(base.observed, self._options.selection)
        }
        untouched = self._last = self._trials.run_untouched(base.observed, wanted)
        if untouched is None:
            return self._of_patch(base, base, told.replace(reason=self._trials.notes.pop()), fix)
        [observed] = self._trials.run_each([fix], untouched, "patch")
        after = untouched.joined([fix], observed, mended_count=0, is_outweighed=False)
        judged = judge_patch(
            untouched.observed,
            observed,
            self._trials.reference,
            sites=self._trials.sites(untouched, after),
        )
        is_held = judged.verdict == "verified" or judged.if_faster
        held = (
            self._held(replace(judged, verdict="verified"), fix, untouched) if is_held else judged
        )
        if held.verdict != "verified":
            judged = held
        elif judged.if_faster and self._options.is_timed:
            gain = self._trials.confirmed(Program(), after.program, faster)
            judged = (
                judged if gain is None else replace(judged, verdict=judged.if_faster, reason=None)
            )
        not_run = self._trials.lines_not_run(fix)
        if judged.verdict in WORKING and not_run.is_all:
            judged = replace(
                judged,
                verdict="unproven",
                reason=f"no input that was tried runs {not_run.places[0]}",
            )
        told = told.replace(
            verdict=judged.verdict,
            reason=judged.reason,
            after=observed.measures if observed.recording.exit.reason == "finished" else None,
            sites_gone=judged.gone,
            sites_new=judged.new,
            lines_not_run=not_run.places,
            compared=compared_with_eager(observed.recording),
            attacked=attacked_in(observed.recording),
            recording=observed.name,
        )
        return self._of_patch(
            untouched, after if judged.verdict in WORKING else untouched, told, fix
        )

    def _of_patch(
        self, untouched: State, best: State, told: TriedPatch, fix: Candidate
    ) -> SearchResult:
        result = self._treated(untouched, best)
        return replace(
            result, treatment=result.treatment.replace(patch=told, diff=self._diff(fix.edits))
        )

    # Results.

    def _suggested(self, base: State, cause: UntriedCause) -> SearchResult:
        """Note every fix for the untouched program; the first edit for each finding goes into the
        patch.
        """
        edits: list[Candidate] = []
        for options in self._options_for(base):
            fixes = self._log.open(options, base, 1, is_unsafe_tried=self._options.is_unsafe_tried)
            for fix in fixes:
                self._log.note_untried(options.finding, fix, base, 1, cause)
            edits += [fix for fix in fixes if fix.edits][:1]
        if self._repeated is not None:
            for fix in self._repeated.fixes:
                self._log.note_untried(self._repeated.finding, fix, base, 1, cause)
        suggested = self._changes(with_fixes(base.program, edits))
        treatment = self._treated(base, base).treatment.replace(diff=self._diff(suggested))
        return SearchResult(treatment, suggested=suggested)

    def _changes(self, program: Program) -> tuple[FileChange, ...]:
        originals = self._trials.originals
        return tuple(
            FileChange(path, originals[path], content) for path, content in program.content.items()
        )

    def _with_settings(
        self, changes: tuple[FileChange, ...], settings: Sequence[str], recording: Recording
    ) -> tuple[tuple[FileChange, ...], Path | None]:
        """The edits with lines of settings in the file that the program starts with, and that file
        if it can be.
        """
        path = self._entry_file(recording) if settings else None
        if path is None:
            return changes, None
        known = next((change for change in changes if change.path == path), None)
        before = known.before if known else path.read_bytes()
        lines = [line for snippet in settings for line in snippet.splitlines()]
        after = with_settings(known.after if known else before, lines)
        if after is None:
            return changes, None
        return (
            *(change for change in changes if change is not known),
            FileChange(path, before, after),
        ), path

    @staticmethod
    def _entry_file(recording: Recording) -> Path | None:
        """The file of the program's own that is imported first."""
        file, environment = recording.target.file, recording.environment
        roots = () if environment is None else environment.site_roots
        if (
            file is None
            or not file.endswith(".py")
            or any(Path(file).is_relative_to(root) for root in roots)
        ):
            return None
        return Path(file) if Path(file).is_file() else None

    def _diff(self, changes: Sequence[FileChange]) -> str:
        return "".join(diff_text(change, self._trials.root) for change in changes)

    def _treated(self, untouched: State, best: State) -> SearchResult:
        applied = [fix for fix, _ in best.applied]
        settings = list(
            dict.fromkeys(fix.snippet for fix in applied if fix.kind == "config" and fix.snippet)
        )
        recording = untouched.observed.recording
        changes, settings_file = self._with_settings(
            self._changes(best.program), settings, recording
        )
        findings = [
            found
            for found in untouched.observed.diagnosis.findings
            if found.code != REPEATED_BLOCKS
        ]
        kept = list(filter(self._options.selection.keeps, findings))
        times = self._trials.times_of(Program(), best.program)
        self._log.settle_moved(best)
        cold = [
            fix.cold_compile
            for fix in self._log.tried
            if fix.is_applied and fix.cold_compile is not None
        ]
        compared = compared_with_eager(best.observed.recording) if applied else None
        before, after = untouched.observed.measures, best.observed.measures
        check = self._backend.known(best.program) if applied else None
        if check is not None:
            compared = check.compared
            before, after = self._backend.untouched_measures or before, check.measures or after
        if self._backend.is_another:
            self._log.doubt_unapplied(self._backend.name)
        left = list(self._log.left(best))
        # The modules that repeat, if each of them is compiled by itself at last.
        shared = (
            (self._repeated.finding.fingerprint,)
            if self._repeated and best.program.change.regional
            else ()
        )
        if self._repeated is not None and not shared:
            left.append(self._log.left_finding(self._repeated.finding, best.program))
        calls = [fix.snippet for fix in applied if fix.kind == "call" and fix.snippet]
        treatment = Treatment(
            tried=self._log.tried,
            before=before,
            after=after if applied else None,
            diff=self._diff(changes),
            settings=tuple(settings),
            settings_file=None if settings_file is None else str(settings_file),
            calls=tuple(dict.fromkeys(calls)),
            compared=compared,
            attacked=attacked_in(best.observed.recording) if applied else None,
            backend=self._backend.name if compared else None,
            times=times,
            cold_compile=next(iter(cold), None),
            gone=(*gone(self._trials, self._log, untouched, best, kept), *shared)
            if applied
            else (),
            declined=self._log.declined,
            left=tuple(left),
            choices=self._options.choices,
            trial_count=self._trials.replays.count,
            notes=tuple(dict.fromkeys(self._trials.notes)),
        )
        return SearchResult(treatment, changes, program=best.program)


def _is_before(state: State, best: State, at: int) -> bool:
    earlier = best.applied[:at]
    return len(state.applied) <= at and all(
        one[0] is other[0] for one, other in zip(state.applied, earlier, strict=False)
    )


def _moved_only(fix: Candidate, was: Counts, now: Counts) -> bool:
    """Whether a call runs no more outside its graphs than what the fix moved there on purpose."""
    before, after = was.coverage_detail, now.coverage_detail
    if before is None or after is None or not fix.moved_out:
        return False
    is_less_broken = now.break_sites < was.break_sites and now.graphs <= was.graphs
    return is_less_broken and after.eager_ops - before.eager_ops <= fix.moved_out


def _place(options: Options) -> tuple[str, int]:
    return options.finding.location.file, options.finding.location.line


def _is_skipped_at(options: Options, others: Iterable[Options]) -> bool:
    """Whether it's about a frame that torch skips because of a break that others are about."""
    return options.finding.code == SKIPPED_FRAME and _place(options) in map(_place, others)


def _shared(found: Sequence[Options]) -> list[_Trial]:
    """The trials of each finding's first fix; fixes that do the same are one trial for all their
    findings.
    """
    trials: list[_Trial] = []
    for options in found:
        fix = options.fixes[0]
        same = next((trial for trial in trials if trial.fix.is_same(fix)), None)
        if same is None:
            trials.append(_Trial(fix, [options.finding]))
        else:
            same.fix = replace(same.fix, targets=(*same.fix.targets, *fix.targets))
            same.findings.append(options.finding)
    return trials
