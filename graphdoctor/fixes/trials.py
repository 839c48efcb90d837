"""Runs the untouched program and ones with fixes, judges whether a fix works, and times it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import WORKING, PairedTime, Reason, SnippetPlace, Verdict, because
from graphdoctor.facts.progress import TimedPrograms, TrialEvent
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.stack import StackEntry, relative
from graphdoctor.facts.trials import Comparison, Judged
from graphdoctor.fixes.patch import Candidate, LineMap, changed_in_functions, with_fixes, without
from graphdoctor.fixes.verdicts import Judgment, Reasons, Score, SiteChange, judge, lost, score
from graphdoctor.trials.judge import (
    Observed,
    Untouched,
    compared_with_eager,
    differences_of,
    failure_of,
)
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import EAGER, EqualSizes, Replays, RoundingNames
from graphdoctor.trials.timing import is_plain, time_pair

AGAIN = "-again"
"""Ends the name of a second replay, after that of the first."""

UNTOUCHED = "untouched"
_EAGER_AGAIN = f"{EAGER}{AGAIN}"
_FLOAT64 = "float64"
INDUCTOR = "inductor"
_MIN_TIMEOUT_S = 60.0
_TIMEOUT_FACTOR = 6
_MEMORY_FACTOR = 2
_MEMORY_EXTRA = 2 * 2**30


class Numbers:
    """Numbers trials and timings; more can always come, because a fix can uncover the next
    break.
    """

    def __init__(
        self, on_phase: Callable[[str], None], on_event: Callable[[TrialEvent], None]
    ) -> None:
        self._on_phase, self.report = on_phase, on_event
        self._lock = threading.Lock()
        self._planned = self._trials = self._timings = 0

    def plan_trials(self, count: int) -> int:
        """Number trials; returns the number of the first."""
        self._planned += count
        return self._planned - count + 1

    def begin_trial(self) -> None:
        """Announce a trial; several run at once, and end in any order."""
        with self._lock:
            self._trials += 1
            self._on_phase(f"trial {self._trials}")

    def begin_timing(self, backend: str) -> int:
        """Announce a timing of two programs; returns its number."""
        self._timings += 1
        self._on_phase(f"timing {self._timings} under {backend}")
        return self._timings


@dataclass(frozen=True)
class State:
    """A program with verified fixes, and what its replay showed.

    ``applied`` has each fix with the program that it was made for: fixes of one round have the
    same.
    """

    program: Program
    observed: Observed
    applied: tuple[tuple[Candidate, Program], ...] = ()
    mended_count: int = 0
    is_outweighed: bool = False

    @property
    def fixes(self) -> list[Candidate]:
        """The applied fixes."""
        return [fix for fix, _ in self.applied]

    @property
    def score(self) -> Score:
        """Rank the program."""
        return score(
            self.observed.measures, mended_count=self.mended_count, is_outweighed=self.is_outweighed
        )

    @property
    def drops_output(self) -> bool:
        """Check whether one of its fixes makes the program print less on purpose."""
        return any(fix.drops_output for fix in self.fixes)

    def joined(
        self,
        fixes: Sequence[Candidate],
        observed: Observed,
        *,
        mended_count: int,
        is_outweighed: bool,
    ) -> State:
        """Add fixes, and what the replay of that program showed."""
        return State(
            with_fixes(self.program, fixes),
            observed,
            (*self.applied, *((fix, self.program) for fix in fixes)),
            self.mended_count + mended_count,
            self.is_outweighed or is_outweighed,
        )

    def without(self, fix: Candidate) -> State | None:
        """Leave out a fix, without observing the rest; None if the others can't be written so."""
        fixes = self.fixes
        at = fixes.index(fix)
        rest = fixes[:at] + fixes[at + 1 :]
        applied = list(self.applied[:at])
        for number in range(at + 1, len(fixes)):
            before: Program | None = self.applied[number][1]
            if before is not None and before != self.applied[at][1]:
                before = without(before, fix, rest[: number - 1])
            if before is None:
                return None
            applied.append((fixes[number], before))
        program = without(self.program, fix, rest)
        if program is None:
            return None
        return replace(self, program=program, applied=tuple(applied))

    def first(self, count: int) -> State:
        """Keep only so many of the fixes, without observing them."""
        applied = self.applied[:count]
        base = applied[-1][1] if applied else Program()
        program = with_fixes(base, [fix for fix, before in applied if before == base])
        return replace(self, program=program, applied=applied)


@dataclass
class _TimedPair:
    """Two programs that were timed in turns; ``times`` by backend, the user's first."""

    before: Program
    after: Program
    name: str
    times: dict[str, PairedTime | None]
    failed: set[str] = field(default_factory=set)

    @property
    def found(self) -> tuple[PairedTime, ...]:
        return tuple(times for times in self.times.values() if times is not None)


@dataclass
class Trials:
    """Makes trials of one target.

    ``notes`` limit the verdicts. ``trial_backend`` is the quickest unless findings come from the
    user's. ``rounding`` is None until results differ.
    """

    replays: Replays
    root: Path
    jobs: int
    backend: str
    on_phase: Callable[[str], None]
    numbers: Numbers
    originals: dict[Path, bytes] = field(default_factory=dict)
    reference: Untouched = field(default_factory=Untouched)
    notes: list[Reason] = field(default_factory=list)
    trial_backend: str = EAGER
    rounding: RoundingNames | None = None
    _untouched_name: str = UNTOUCHED
    _eager_again: Recording | None = None
    _timed: list[_TimedPair] = field(default_factory=list)
    _confirmed: list[tuple[Program, Program]] = field(default_factory=list)
    _is_settled: bool = False
    _settling: threading.Lock = field(default_factory=threading.Lock)

    def observe(self, recording: Recording, name: str | None = None) -> Observed:
        """Diagnose a recording."""
        is_users = name is None or self.trial_backend == self.backend
        return Observed.of(recording, self.root, name=name, is_compile_counted=is_users)

    # The untouched program.

    def run_untouched(self, recorded: Observed, expected: Collection[str]) -> State | None:
        """Run the untouched program twice without torch.compile and once with it; None if the run
        can't be repeated.

        It compiles with ``eager``, as all trials do, if torch then does to it what it did in the
        recorded run. Otherwise findings come from the user's backend, and that is what trials
        compile with. Where results differ, the program runs in float64 too, and then once more each
        way.
        """
        self.on_phase("running without torch.compile")
        eager = self.replays.replay(Program(), EAGER, is_eager=True)
        self.on_phase("running without fixes")
        again, untouched = self._repeat(_EAGER_AGAIN, UNTOUCHED, coverage=True)
        if self.trial_backend != self.backend and not self._is_alike(recorded, untouched, expected):
            self.trial_backend = self.backend
            self._untouched_name = f"{UNTOUCHED}-{self.backend}"
            [untouched] = self._repeat(self._untouched_name, coverage=True)
        if untouched.exit.reason != "finished":
            self.notes.append(because("not_repeatable", failure_of(untouched)))
            return None
        self._eager_again = again
        self._limit(recorded.recording.exit, untouched.exit)
        if eager.exit.reason != "finished":
            self.notes.append(because("fails_in_eager", failure_of(eager)))
        elif again.exit.reason != "finished":
            self.notes.append(because("fails_in_second_eager", failure_of(again)))
        is_known = eager.exit.reason == again.exit.reason == "finished"
        self.reference = Untouched.seen(again, untouched, is_known=is_known)
        if is_known and (self.reference.unstable or self.reference.compiled_differs):
            self.settle()
        if kinds := self.reference.unprovable:
            self.notes.append(because("unprovable", *sorted(kinds)))
        return State(Program(), self.observe(untouched, self._untouched_name))

    def _is_alike(
        self, recorded: Observed, untouched: Recording, expected: Collection[str]
    ) -> bool:
        if untouched.exit.reason != "finished":
            return False
        observed = self.observe(untouched)
        fingerprints = {finding.fingerprint for finding in observed.diagnosis.findings}
        return (
            fingerprints.issuperset(expected)
            and observed.measures.torch_counts == recorded.measures.torch_counts
        )

    @property
    def _second(self) -> tuple[str, str]:
        return f"{_EAGER_AGAIN}{AGAIN}", f"{self._untouched_name}{AGAIN}"

    @property
    def equal_sizes(self) -> EqualSizes:
        """Return the sizes equal to numbers that the host needs; empty before the untouched program
        ran.
        """
        return self.replays.equal_sizes(self._untouched_name)

    def reference_beside(self, untouched: Recording) -> Untouched:
        """Compare results where the untouched program was compiled with another backend."""
        if self._eager_again is None:
            return self.reference
        return Untouched.seen(self._eager_again, untouched, is_known=self.reference.is_known)

    def _repeat(self, *names: str, coverage: bool = False) -> list[Recording]:
        def run(name: str) -> Recording:
            return self.replays.replay(
                Program(),
                name,
                references={EAGER: EAGER},
                is_eager=name.startswith(EAGER),
                rounding=self.rounding and replace(self.rounding, judged="untouched"),
                earlier=name.removesuffix(AGAIN) if name in self._second else None,
                coverage=coverage,
                backend=self.trial_backend,
                attacks=name if name == self._untouched_name else None,
            )

        return self.replays.in_parallel(run, names, jobs=self.jobs)

    def settle(self) -> None:
        """Learn what rounding is and run the untouched program again; once, and only if results
        differ.
        """
        with self._settling:
            if self._is_settled:
                return
            self._is_settled = True
            self.on_phase("running in float64")
            precise = self.replays.replay(Program(), _FLOAT64, is_eager=True, is_float64=True)
            if precise.exit.reason == "finished":
                self.rounding = RoundingNames(
                    _FLOAT64, (_EAGER_AGAIN, self._untouched_name, *self._second)
                )
            else:
                self.notes.append(because("no_float64", failure_of(precise)))
            self.on_phase("running without fixes again")
            again, untouched = self._repeat(*self._second)
            self._eager_again = again
            is_finished = again.exit.reason == untouched.exit.reason == "finished"
            self.reference = Untouched.seen(
                again, untouched, is_known=self.reference.is_known and is_finished
            )

    def _limit(self, *untouched: ProbeExit) -> None:
        setup = self.replays.setup
        took = [ended.duration_s for ended in untouched if ended.duration_s is not None]
        peaks = [
            ended.peak_memory_bytes for ended in untouched if ended.peak_memory_bytes is not None
        ]
        if setup.timeout_s is None and took:
            setup = replace(setup, timeout_s=max(_MIN_TIMEOUT_S, _TIMEOUT_FACTOR * max(took)))
        if setup.memory_bytes is None and peaks:
            setup = replace(setup, memory_bytes=_MEMORY_FACTOR * max(peaks) + _MEMORY_EXTRA)
        self.replays.setup = setup

    # Programs with fixes.

    def run_each(
        self,
        fixes: Sequence[Candidate],
        state: State,
        label: str,
        on_done: Callable[[int, int, Observed], None],
    ) -> list[Observed]:
        """Run the program of a state with each of several fixes alone, in parallel; ``on_done``
        gets the fix's index and its trial's number.
        """
        first = self.numbers.plan_trials(len(fixes))

        def run(index: int) -> Observed:
            fix = fixes[index]
            self.numbers.begin_trial()
            observed = self._run(
                with_fixes(state.program, (fix,)),
                f"{label}-{index + 1}",
                drops_output=fix.drops_output or state.drops_output,
            )
            on_done(index, first + index, observed)
            return observed

        return self.replays.in_parallel(run, range(len(fixes)), jobs=self.jobs)

    def run_together(
        self, fixes: Sequence[Candidate], state: State, name: str, *, is_outweighed: bool
    ) -> Observed | None:
        """Run the program of a state with several fixes; None if they don't work together."""
        self.on_phase(f"trying {len(fixes)} verified fixes together")
        drops_output = state.drops_output or any(fix.drops_output for fix in fixes)
        observed = self._run(with_fixes(state.program, fixes), name, drops_output=drops_output)
        was, now = state.observed.measures, observed.measures
        is_worse = now.frames_over_limit > was.frames_over_limit or (
            lost(was, now) is not None and not is_outweighed
        )
        holds = self._holds(observed, drops_output=drops_output) and not is_worse
        return observed if holds else None

    def run_without(self, fix: Candidate, state: State, name: str) -> State | None:
        """Leave out a fix; None unless the rest is as good: nothing comes back, and results are
        the same.
        """
        rest = state.without(fix)
        fewer = None if rest is None else self.run_fewer(rest, name)
        is_as_good = fewer and fewer.score <= state.score and self._left(fewer) <= self._left(state)
        return fewer if is_as_good else None

    def run_fewer(self, state: State, name: str) -> State | None:
        """Run a state that was made of another by leaving fixes out; None if its results don't
        hold.
        """
        observed = self._run(state.program, name, drops_output=state.drops_output)
        holds = self._holds(observed, drops_output=state.drops_output)
        return replace(state, observed=observed) if holds else None

    def _holds(self, observed: Observed, *, drops_output: bool) -> bool:
        if not observed.is_finished:
            return False
        return self._results(observed.recording, drops_output=drops_output) == "verified"

    def _results(self, recording: Recording, *, drops_output: bool) -> Verdict:
        return self.reference.judge(recording, drops_output=drops_output)[0]

    def _left(self, state: State) -> Counter[tuple[str, int]]:
        return Counter(
            (finding.fingerprint, self.original_line(state.program, finding.location))
            for finding in state.observed.diagnosis.findings
        )

    def _run(self, program: Program, name: str, *, drops_output: bool) -> Observed:
        """Run a program with fixes; if its results differ, once more, beside the untouched one."""

        def is_settled(first: Recording) -> bool:
            verdict = self._results(first, drops_output=drops_output)
            is_unprovable = verdict == "unproven" and bool(self.reference.unprovable)
            return not self.reference.is_known or verdict == "verified" or is_unprovable

        def replay(name: str, *, earlier: str | None = None) -> Recording:
            return self.replays.replay(
                program,
                name,
                references={EAGER: EAGER, UNTOUCHED: self._untouched_name},
                rounding=self.rounding,
                earlier=earlier,
                coverage=True,
                backend=self.trial_backend,
                attacks=self._untouched_name,
            )

        return self.observe(self.twice(replay, name, is_settled, self.settle), name)

    @staticmethod
    def twice(
        replay: Callable[..., Recording],
        name: str,
        is_settled: Callable[[Recording], bool],
        settle: Callable[[], None],
    ) -> Recording:
        """Replay, and once more beside the untouched program if that doesn't settle it."""
        first = replay(name)
        if first.exit.reason != "finished" or is_settled(first):
            return first
        settle()
        second = replay(f"{name}{AGAIN}", earlier=name)
        return second if second.exit.reason == "finished" else first

    def judge(self, finding: Finding, fix: Candidate, state: State, after: Observed) -> Judgment:
        """Judge what a fix did to a finding of a state's program."""
        judged = judge(
            finding,
            state.observed,
            after,
            self.reference,
            sites=SiteChange.between(
                state.observed.diagnosis,
                after.diagnosis,
                maps={edit.path: LineMap(edit.before, edit.after) for edit in fix.edits},
                texts={**self.originals, **with_fixes(state.program, (fix,)).content},
                root=self.root,
            ),
            contains=fix.contains,
            drops_output=fix.drops_output or state.drops_output,
        )
        if judged.verdict not in WORKING or not fix.edits:
            return judged
        edit = fix.edits[0]
        lines = LineMap(self.originals.get(edit.path, edit.before), edit.before)
        needed: list[tuple[int, Literal["reached", "raised"]]] = [
            (line, "reached") for line in fix.reached
        ]
        needed += [] if fix.raised is None else [(fix.raised, "raised")]
        for line, what in needed:
            original = lines.to_before(line)
            if (str(edit.path), original) not in self.replays.lines(self._untouched_name, what):
                kind: Literal["unreached", "not_raised"] = (
                    "unreached" if what == "reached" else "not_raised"
                )
                reason = because(kind, original)
                return replace(judged, verdict="unproven", reasons=(reason,))
        return judged

    def sites(self, untouched: State, state: State) -> SiteChange:
        """Match the break sites of the untouched program and of a state's."""
        content = state.program.content
        return SiteChange.between(
            untouched.observed.diagnosis,
            state.observed.diagnosis,
            maps={path: LineMap(self.originals[path], after) for path, after in content.items()},
            texts={**self.originals, **content},
            root=self.root,
        )

    def lines_not_run(self, fix: Candidate) -> tuple[tuple[str, ...], bool]:
        """Find where an edit of the untouched program changes functions in lines that nothing ran,
        and whether nothing ran any that it changes.
        """
        run = self.replays.lines(self._untouched_name, "reached")
        parts = [(edit.path, *part) for edit in fix.edits for part in changed_in_functions(edit)]
        missed = [
            f"{relative(str(path), self.root)}:{first}"
            for path, first, last in parts
            if run and not any((str(path), line) in run for line in range(first, last + 1))
        ]
        return tuple(missed), bool(missed) and len(missed) == len(parts)

    def original_line(self, program: Program, location: StackEntry) -> int:
        """Map a location in an edited program to the line of the untouched one."""
        return self._original(program, location.file, location.line)

    def original_place(self, program: Program, place: SnippetPlace) -> SnippetPlace:
        """Map a place in an edited program to one in the untouched one."""
        if place.file is None or place.line is None or place.end_line is None:
            return place
        return place.replace(
            line=self._original(program, place.file, place.line),
            end_line=self._original(program, place.file, place.end_line),
        )

    def _original(self, program: Program, file: str, line: int) -> int:
        path = self.root / file
        if path not in program.content:
            return line
        return LineMap(self.originals[path], program.content[path]).to_before(line)

    # Times.

    def time(self, before: Program, after: Program) -> None:
        """Time steady calls of two programs under the user's backend and under inductor."""
        pair = self._pair(before, after)
        for backend in self._timing_backends:
            self._time(pair, backend)

    def decided(
        self, before: Program, after: Program, *, is_again: bool = False
    ) -> tuple[PairedTime, ...]:
        """As ``time``, under the one backend that decides; the other if it can't be timed there."""
        pair = self._pair(before, after, is_again=is_again)
        for backend in sorted(self._timing_backends, key=EAGER.__eq__):
            if self._time(pair, backend) is not None:
                break
        return pair.found

    def confirmed(
        self,
        before: Program,
        after: Program,
        certain: Callable[[Sequence[PairedTime]], PairedTime | None],
    ) -> PairedTime | None:
        """Find the times that are ``certain`` of a change, such as ``slower``; two pairs of
        processes must agree if it isn't plain.
        """
        times = self.decided(before, after)
        if certain(times) is None or is_plain(times):
            return certain(times)
        if (before, after) not in self._confirmed:
            self._confirmed.append((before, after))
            times = self.decided(before, after, is_again=True)
        return certain(times)

    def times_of(self, before: Program, after: Program) -> tuple[PairedTime, ...]:
        """Find the times of two programs that were taken last."""
        pair = self._known_pair(before, after)
        return pair.found if pair else ()

    @property
    def _timing_backends(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.backend, INDUCTOR)))

    def _known_pair(self, before: Program, after: Program) -> _TimedPair | None:
        pairs = (pair for pair in self._timed if (pair.before, pair.after) == (before, after))
        return next(pairs, None)

    def _pair(self, before: Program, after: Program, *, is_again: bool = False) -> _TimedPair:
        kept = None if is_again else self._known_pair(before, after)
        if kept is not None:
            return kept
        name, times = f"time-{len(self._timed) + 1}", dict.fromkeys(self._timing_backends)
        self._timed.insert(0, _TimedPair(before, after, name, times))
        return self._timed[0]

    def _time(self, pair: _TimedPair, backend: str) -> PairedTime | None:
        if pair.times[backend] is None and backend not in pair.failed:
            number = self.numbers.begin_timing(backend)
            times = time_pair(self.replays, pair.before, pair.after, pair.name, backend=backend)
            if isinstance(times, Reason):
                pair.failed.add(backend)
                self.notes.append(because("not_timed", backend, times))
                self.numbers.report(TimedPrograms(number, backend, None, times))
            else:
                pair.times[backend] = times
                self.numbers.report(TimedPrograms(number, backend, times))
        return pair.times[backend]


@dataclass(frozen=True)
class Check:
    """A program's counts and results under the user's backend."""

    verdict: Verdict
    reasons: Reasons = ()
    compared: Comparison | None = None
    measures: Counts | None = None


class UserBackend:
    """The user's backend in one treatment."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._untouched_name = f"{UNTOUCHED}-{trials.backend}"
        self._untouched: Recording | None = None
        self._others: tuple[str, ...] = ()
        self._checks: list[tuple[Program, Check]] = []

    @property
    def name(self) -> str:
        """The backend's name."""
        return self._trials.backend

    @property
    def is_another(self) -> bool:
        """Check whether trials compile with another backend."""
        return self._trials.trial_backend != self.name

    @property
    def untouched_measures(self) -> Counts | None:
        """The counts of the untouched program; None if it wasn't run there."""
        return None if self._untouched is None else self._measures(self._untouched)

    def known(self, program: Program) -> Check | None:
        """Find an earlier check of a program."""
        return next((check for other, check in self._checks if other == program), None)

    def check(self, program: Program, *, drops_output: bool) -> Check:
        """Run a program there, and the untouched one if it hasn't been; if results differ, both
        once more.
        """
        if (outcome := self.known(program)) is not None:
            return outcome
        self._trials.on_phase(f"comparing under {self.name}")
        if self._untouched is None:
            self._untouched = self._replay(Program(), self._untouched_name)
        judged = partial(self._judged, drops_output=drops_output)
        recording = self._trials.twice(
            partial(self._replay, program),
            f"{self.name}-{len(self._checks) + 1}",
            lambda first: (
                judged(first).verdict not in ("changes results", "unproven") and not self._may_round
            ),
            self._settle,
        )
        self._checks.append((program, judged(recording)))
        return self._checks[-1][1]

    @property
    def _may_round(self) -> bool:
        """Check whether the untouched program's results differ there, and nobody knows yet whether
        by rounding alone.
        """
        untouched, rounding = self._untouched, self._trials.rounding
        return untouched is not None and rounding is None and bool(differences_of(untouched))

    def _settle(self) -> None:
        """Learn what rounding is, and run the untouched program there once more; once."""
        self._trials.settle()
        if not self._others:
            again = f"{self._untouched_name}{AGAIN}"
            self._others = (self._untouched_name, again)
            self._untouched = self._replay(Program(), again, earlier=self._untouched_name)

    def _replay(self, program: Program, name: str, *, earlier: str | None = None) -> Recording:
        rounding = self._trials.rounding
        if rounding is not None:
            judged: Judged = "untouched" if program == Program() else "changed"
            rounding = replace(rounding, others=(*rounding.others, *self._others), judged=judged)
        return self._trials.replays.replay(
            program,
            name,
            references={EAGER: EAGER, UNTOUCHED: self._untouched_name},
            rounding=rounding,
            earlier=earlier,
            coverage=True,
            backend=self.name,
            is_counted=False,
        )

    def _judged(self, recording: Recording, *, drops_output: bool) -> Check:
        untouched = self._untouched
        if untouched is None or untouched.exit.reason != "finished":
            parts = () if untouched is None else (failure_of(untouched),)
            return Check("unproven", (because("fails_there", *parts),))
        if recording.exit.reason != "finished":
            return Check("failed", (failure_of(recording),))
        verdict, reasons = self._trials.reference_beside(untouched).judge(
            recording, drops_output=drops_output
        )
        return Check(verdict, reasons, compared_with_eager(recording), self._measures(recording))

    def _measures(self, recording: Recording) -> Counts:
        # Inductor may have found what it compiled before.
        return self._trials.observe(recording).measures.replace(compile_time_s=None)
