"""Runs the untouched program and ones with fixes, judges what each fix did, and times them."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import (
    LOSSY,
    VERIFIED,
    WORKING,
    PairedTime,
    Reason,
    ReasonKind,
    Verdict,
    WholeRun,
    because,
)
from graphdoctor.facts.progress import TimedPrograms
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.run import ProbeExit, Setting
from graphdoctor.facts.stack import relative
from graphdoctor.facts.trials import AttackFailure, Comparison, Judged
from graphdoctor.fixes.patch import Candidate, LineMap, changed_in_functions, with_fixes, without
from graphdoctor.fixes.verdicts import Judgment, ProgramChange, Reasons, Score, is_break, score
from graphdoctor.trials.judge import (
    Observed,
    Untouched,
    clause,
    compared_with_eager,
    differences_of,
    failure_of,
)
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import EAGER, EqualSizes, Replays, RoundingNames, Way
from graphdoctor.trials.timing import is_plain, time_pair

AGAIN = "-again"
"""Ends the name of a second replay, after that of the first."""

UNTOUCHED = "untouched"
INDUCTOR = "inductor"
_EAGER_AGAIN = f"{EAGER}{AGAIN}"
_ATTACKED = "-attacked"
"""Ends the name of a replay beside which torch.compile's own changes on other inputs are known."""
_FLOAT64 = "float64"
_ENOUGH = Setting(name="torch._dynamo.config.recompile_limit", value=64)
"""Under ``fullgraph``, torch raises at its limit, too; recompiles have findings of their own."""

_MIN_TIMEOUT_S = 60.0
_TIMEOUT_FACTOR = 6
_MEMORY_FACTOR = 2
_SAME_COVERAGE = 0.01
_MEMORY_EXTRA = 2 * 2**30

_MISSED: dict[Way, ReasonKind] = {
    "reached": "unreached",
    "skipped": "not_skipped",
    "raised": "not_raised",
}
"""What to say where no input does with a line what a fix needs."""

Certain = Callable[[Sequence[PairedTime]], PairedTime | None]
"""Finds the times that are certain of a change, such as ``slower``; None if none are."""


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

    @property
    def fixes(self) -> list[Candidate]:
        """The applied fixes."""
        return [fix for fix, _ in self.applied]

    @property
    def score(self) -> Score:
        """Rank the program."""
        return score(self.observed.measures, mended_count=self.mended_count)

    def beats(self, other: State) -> bool:
        """Tell if it ranks higher.

        Coverage that is almost the same counts as the same, and while torch skips functions, how
        much it compiles around them says little.
        """
        was, now = other.observed.measures, self.observed.measures
        mine, theirs = self.score, other.score
        is_same = abs((now.coverage or 0.0) - (was.coverage or 0.0)) <= _SAME_COVERAGE
        if is_same or (now.skipped_frames == was.skipped_frames and now.skipped_frames):
            mine = (mine[0], theirs[1], *mine[2:])
        return mine < theirs

    @property
    def drops_output(self) -> bool:
        """Check whether one of its fixes makes the program print less on purpose."""
        return any(fix.drops_output for fix in self.fixes)

    def joined(
        self, fixes: Sequence[Candidate], observed: Observed, *, mended_count: int = 0
    ) -> State:
        """Add fixes, and what the replay of that program showed."""
        return State(
            with_fixes(self.program, fixes),
            observed,
            (*self.applied, *((fix, self.program) for fix in fixes)),
            self.mended_count + mended_count,
        )

    def without(self, fix: Candidate) -> State | None:
        """Leave out a fix, without observing the rest; None if the others can't be written so."""
        at = self.fixes.index(fix)
        rest = [other for other in self.fixes if other is not fix]
        applied = list(self.applied[:at])
        for number, (other, program) in enumerate(self.applied[at + 1 :], start=at):
            before: Program | None = program
            if program != self.applied[at][1]:
                before = without(program, fix, rest[:number])
            if before is None:
                return None
            applied.append((other, before))
        left = without(self.program, fix, rest)
        return None if left is None else replace(self, program=left, applied=tuple(applied))

    def first(self, count: int) -> State:
        """Keep only so many of the fixes, without observing them."""
        applied = self.applied[:count]
        base = applied[-1][1] if applied else Program()
        program = with_fixes(base, [fix for fix, before in applied if before == base])
        return replace(self, program=program, applied=applied)


@dataclass(eq=False)
class Trial:
    """A state's program with more fixes, all at once, and what its replay showed."""

    state: State
    fixes: Sequence[Candidate]
    number: int
    observed: Observed
    change: ProgramChange

    @property
    def programs(self) -> tuple[Program, Program]:
        """The program without the fixes and with them."""
        return self.state.program, with_fixes(self.state.program, self.fixes)

    @property
    def drops_output(self) -> bool:
        """Check whether the program may print less."""
        return self.state.drops_output or any(fix.drops_output for fix in self.fixes)

    def outcome(self, judged: Judgment) -> dict[str, Any]:
        """The fields of a ``TrialOutcome``."""
        observed = self.observed
        return {
            "verdict": judged.verdict,
            "reasons": judged.reasons,
            "after": observed.measures if observed.is_finished else None,
            "sites_gone": judged.gone,
            "sites_new": judged.new,
            "recording": observed.name,
            "compared": observed.compared,
            "attacked": observed.attacked,
        }


def digest_of(program: Program) -> str:
    """Name a program, in every process alike."""
    texts = sorted((str(path), content) for path, content in program.content.items())
    return hashlib.sha256(repr((texts, program.change)).encode()).hexdigest()[:10]


class Trials:
    """Makes trials of one target.

    ``notes`` limit the verdicts. ``trial_backend`` is the quickest unless findings come from the
    user's. ``rounding`` is None until results differ.
    """

    def __init__(
        self,
        replays: Replays,
        root: Path,
        jobs: int,
        backend: str,
        setup: Setup,
        budget_s: float | None = None,
    ) -> None:
        self.replays, self.root, self.jobs, self.backend = replays, root, jobs, backend
        self._budget_s = math.inf if budget_s is None else budget_s
        self.on_phase, self.report = setup.on_phase, setup.on_trial
        self.originals: dict[Path, bytes] = {}
        self.reference = Untouched()
        self.notes: list[Reason] = []
        self.trial_backend = EAGER
        self.rounding: RoundingNames | None = None
        self._untouched_name = UNTOUCHED
        self._eager_again: Recording | None = None
        self._is_settled, self._settling = False, threading.Lock()
        self._is_torch_known = False
        """Whether it's known what torch.compile makes of the untouched program on other inputs."""
        self._timing_numbers, self._pair_numbers = count(1), count(1)
        self._numbers: dict[Program, int] = {}
        self.has_tried = False
        """Whether a program with fixes has run, and not in an earlier command."""
        self._observed: dict[Program, Observed] = {}
        self._timed: dict[tuple[Program, Program], PairedTime | None] = {}
        self._confirmed: set[tuple[Program, Program]] = set()

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
        if self.trial_backend != self.backend:
            observed = self.observe(untouched)
            findings = {finding.fingerprint for finding in observed.diagnosis.findings}
            is_alike = observed.is_finished and findings.issuperset(expected)
            counts = observed.measures.torch_counts
            if not is_alike or counts != recorded.measures.torch_counts:
                self.trial_backend = self.backend
                self._untouched_name = f"{UNTOUCHED}-{self.backend}"
                [untouched] = self._repeat(self._untouched_name, coverage=True)
        if untouched.exit.reason != "finished":
            self.notes.append(because("not_repeatable", failure_of(untouched)))
            return None
        self._eager_again = again
        self._limit(recorded.recording.exit, again.exit, untouched.exit)
        is_known = eager.exit.reason == again.exit.reason == "finished"
        if not is_known:
            is_first = eager.exit.reason != "finished"
            kind: ReasonKind = "fails_in_eager" if is_first else "fails_in_second_eager"
            self.notes.append(because(kind, failure_of(eager if is_first else again)))
        self.reference = Untouched.seen(again, untouched, is_known=is_known)
        if is_known and (self.reference.unstable or self.reference.compiled_differs):
            self.settle()
        if kinds := self.reference.unprovable:
            self.notes.append(because("unprovable", *sorted(kinds)))
        return State(Program(), self.observe(untouched, self._untouched_name))

    @property
    def equal_sizes(self) -> EqualSizes:
        """Return the sizes equal to numbers that the host needs; empty before the untouched program
        ran.
        """
        return self.replays.equal_sizes(_EAGER_AGAIN)

    def reference_beside(self, untouched: Recording) -> Untouched:
        """Compare results where the untouched program was compiled with another backend."""
        if self._eager_again is None:
            return self.reference
        return Untouched.seen(self._eager_again, untouched, is_known=self.reference.is_known)

    @property
    def _second(self) -> tuple[str, str]:
        return f"{_EAGER_AGAIN}{AGAIN}", f"{self._untouched_name}{AGAIN}"

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
                # Beside the run that compiles.
                attacks=name if name == _EAGER_AGAIN else None,
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
                others = (_EAGER_AGAIN, self._untouched_name, *self._second)
                self.rounding = RoundingNames(_FLOAT64, others)
            else:
                self.notes.append(because("no_float64", failure_of(precise)))
            self.on_phase("running without fixes again")
            again, untouched = self._repeat(*self._second)
            self._eager_again = again
            is_finished = again.exit.reason == untouched.exit.reason == "finished"
            is_known = self.reference.is_known and is_finished
            self.reference = Untouched.seen(again, untouched, is_known=is_known)

    def _learn_torchs(self) -> None:
        """Run the untouched program with torch.compile on the other inputs, too; once, and only if
        an edited one differs there.
        """
        with self._settling:
            if not self._is_torch_known:
                self._is_torch_known = True
                self.on_phase("running without fixes on other inputs")
                self.replays.replay(
                    Program(),
                    f"{self._untouched_name}{_ATTACKED}",
                    backend=self.trial_backend,
                    attacks=_EAGER_AGAIN,
                    keeps_compiled=True,
                )

    def _limit(self, *untouched: ProbeExit) -> None:
        setup = self.replays.setup
        took = [ended.duration_s for ended in untouched if ended.duration_s is not None]
        peaks = [
            ended.peak_memory_bytes for ended in untouched if ended.peak_memory_bytes is not None
        ]
        if setup.timeout_s is None and took:
            longest = max(took)
            patient = max(_MIN_TIMEOUT_S, _TIMEOUT_FACTOR * longest)
            # One trial that never ends would leave no time to find which fix is to blame.
            setup = replace(setup, timeout_s=max(2 * longest, min(patient, self._budget_s)))
        if setup.memory_bytes is None and peaks:
            setup = replace(setup, memory_bytes=_MEMORY_FACTOR * max(peaks) + _MEMORY_EXTRA)
        self.replays.setup = setup

    # Programs with fixes.

    def run_each(self, state: State, sets: Sequence[Sequence[Candidate]]) -> list[Trial]:
        """Run a state's program with each of several sets of fixes, in parallel."""

        def run(fixes: Sequence[Candidate]) -> Trial:
            program = with_fixes(state.program, fixes)
            if program not in self._observed:
                what = f"{len(fixes)} fixes together" if fixes[1:] else fixes[0].title
                self.on_phase(f"trial {numbers[program]}: {what}")
            drops_output = state.drops_output or any(fix.drops_output for fix in fixes)
            redraws = any(fix.redraws for fix in (*state.fixes, *fixes))
            observed = self.run(program, drops_output=drops_output, redraws=redraws)
            change = self.change(state, observed, program)
            return Trial(state, fixes, numbers[program], observed, change)

        numbers = self._numbers
        for fixes in sets:
            numbers.setdefault(with_fixes(state.program, fixes), len(numbers) + 1)
        return self.replays.in_parallel(run, sets, jobs=self.jobs)

    def run(self, program: Program, *, drops_output: bool, redraws: bool) -> Observed:
        """Run a program with fixes, once; if its results differ, again beside the untouched one."""
        if program in self._observed:
            return self._observed[program]

        def failure_in(recording: Recording) -> AttackFailure | None:
            attacked = recording.replay and recording.replay.attacked
            return attacked.failure if attacked else None

        def is_settled(first: Recording) -> bool:
            verdict, _ = self.reference.judge(first)
            is_unprovable = verdict == "unproven" and bool(self.reference.unprovable)
            is_held = holds(verdict, drops_output=drops_output)
            is_known = self.reference.is_known and not is_unprovable
            # Rounding explains nothing on other inputs.
            return is_held or not is_known or failure_in(first) is not None

        def replay(name: str, *, earlier: str | None = None) -> Recording:
            return self.replays.replay(
                program,
                name,
                references={EAGER: EAGER, UNTOUCHED: self._untouched_name},
                rounding=self.rounding,
                earlier=earlier,
                coverage=True,
                backend=self.trial_backend,
                attacks=_EAGER_AGAIN,
                redraws=redraws,
            )

        name, count = f"trial-{digest_of(program)}", self.replays.count
        is_torch_known = self._is_torch_known
        recording = twice(replay, name, is_settled, self.settle)
        failure = failure_in(recording)
        if failure is not None and failure.is_compiled and not is_torch_known:
            self._learn_torchs()
            beside = twice(replay, f"{name}{_ATTACKED}", is_settled, self.settle)
            recording = beside if beside.exit.reason == "finished" else recording
        observed = self.observe(recording, name)
        self.has_tried |= self.replays.count > count
        return self._observed.setdefault(program, observed)

    def run_state(self, state: State) -> State | None:
        """Run a state that was made of another by leaving fixes out; None if its results don't
        hold.
        """
        redraws = any(fix.redraws for fix in state.fixes)
        observed = self.run(state.program, drops_output=state.drops_output, redraws=redraws)
        verdict, _ = self.reference.judge(observed.recording)
        is_held = observed.is_finished and holds(verdict, drops_output=state.drops_output)
        return replace(state, observed=observed) if is_held else None

    def left(self, state: State) -> Counter[tuple[str, int]]:
        """Count the findings of a state by fingerprint and line in the untouched program."""
        return Counter(
            (finding.fingerprint, self.original_line(state.program, *finding.location.at))
            for finding in state.observed.diagnosis.findings
        )

    def judge(self, finding: Finding, fix: Candidate, trial: Trial) -> Judgment:
        """Judge what a fix of a trial did to a finding of its state's program."""
        judged = trial.change.judge(finding, self.reference, contains=fix.contains, edits=fix.edits)
        if judged.verdict not in WORKING:
            return judged
        attacked = trial.observed.attacked
        if (fix.edits or fix.change.fullgraph) and attacked is None:
            return replace(judged, verdict="unproven", reasons=(because("not_attacked"),))
        if judged.verdict == LOSSY and not fix.drops_output and trial.drops_output:
            # Another one says that it drops some.
            judged = replace(judged, verdict="verified", reasons=())
        for way, path, line in fix.needs:
            original = self.original_line(trial.state.program, str(path), line)
            lines = self.replays.lines(_EAGER_AGAIN, way)
            lines |= set(attacked.reached) if attacked and way == "reached" else set()
            if (str(path), original) not in lines:
                reason = because(_MISSED[way], original)
                return replace(judged, verdict="unproven", reasons=(reason,))
        return judged

    def change(self, before: State, after: Observed, program: Program) -> ProgramChange:
        """Match the break sites of a state's program and of another one that has run."""
        texts = {**self.originals, **before.program.content}
        maps = {
            path: LineMap(texts.get(path, text), text)
            for path, text in {**texts, **program.content}.items()
        }
        return ProgramChange(before.observed, after, maps, self.root)

    def lines_not_run(self, fix: Candidate) -> tuple[tuple[str, ...], bool]:
        """Find where an edit of the untouched program changes functions in lines that nothing ran,
        and whether nothing ran any that it changes.
        """
        run = self.replays.lines(_EAGER_AGAIN, "reached")
        parts = [(edit.path, *part) for edit in fix.edits for part in changed_in_functions(edit)]
        missed = [
            f"{relative(str(path), self.root)}:{first}"
            for path, first, last in parts
            if run and not any((str(path), line) in run for line in range(first, last + 1))
        ]
        return tuple(missed), bool(missed) and len(missed) == len(parts)

    def original_line(self, program: Program, file: str, line: int) -> int:
        """Map a line of an edited program to that of the untouched one."""
        path = self.root / file
        if path not in program.content:
            return line
        return LineMap(self.originals[path], program.content[path]).to_before(line)

    # Times.

    def time(
        self, before: Program, after: Program, *, is_again: bool = False
    ) -> tuple[PairedTime, ...]:
        """Time steady calls of two programs under the backend that decides, the user's unless that
        is ``eager``, or Inductor; under the other one if they can't be timed there.
        """
        if is_again or (before, after) not in self._timed:
            name = f"time-{next(self._pair_numbers)}"
            backends = sorted(dict.fromkeys((self.backend, INDUCTOR)), key=EAGER.__eq__)
            times = (self._time(before, after, name, backend) for backend in backends)
            self._timed[before, after] = next(filter(None, times), None)
        return self.times_of(before, after)

    def _time(self, before: Program, after: Program, name: str, backend: str) -> PairedTime | None:
        number = next(self._timing_numbers)
        self.on_phase(f"timing {number} under {backend}")
        timed = time_pair(self.replays, before, after, name, backend=backend)
        if isinstance(timed, Reason):
            self.notes.append(because("not_timed", backend, timed))
            self.report(TimedPrograms(number, backend, None, timed))
            return None
        self.report(TimedPrograms(number, backend, timed))
        return timed

    def times_of(self, before: Program, after: Program) -> tuple[PairedTime, ...]:
        """Find the times of two programs that were taken last; empty if there are none."""
        times = self._timed.get((before, after))
        return () if times is None else (times,)

    def confirmed(self, before: Program, after: Program, certain: Certain) -> PairedTime | None:
        """Find the times that are certain of a change; two pairs of processes must agree if it
        isn't plain.
        """
        times = self.time(before, after)
        is_doubtful = certain(times) is not None and not is_plain(times)
        if is_doubtful and (before, after) not in self._confirmed:
            self._confirmed.add((before, after))
            times = self.time(before, after, is_again=True)
        return certain(times)


def holds(verdict: Verdict, *, drops_output: bool) -> bool:
    """Tell if a verdict on results is what a program, which may print less on purpose, needs."""
    return verdict in VERIFIED and (drops_output or verdict != LOSSY)


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


@dataclass(frozen=True)
class Check:
    """A program's counts and results under the user's backend."""

    verdict: Verdict
    reasons: Reasons = ()
    compared: Comparison | None = None
    measures: Counts | None = None


class UserBackend:
    """Runs programs with fixes under the user's backend, where trials compile with another one;
    ``checks`` has what ran there.
    """

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self.name = trials.backend
        self.checks: dict[Program, Check] = {}
        self._untouched_name = f"{UNTOUCHED}-{self.name}"
        self._untouched: Recording | None = None
        self._others: tuple[str, ...] = ()

    @property
    def is_another(self) -> bool:
        """Check whether trials compile with another backend."""
        return self._trials.trial_backend != self.name

    @property
    def untouched_measures(self) -> Counts | None:
        """The counts of the untouched program; None if it wasn't run there."""
        return None if self._untouched is None else self._measures(self._untouched)

    def check(self, program: Program, *, drops_output: bool) -> Check:
        """Run a program there, and the untouched one if it hasn't been; if results differ, both
        once more. Nothing is to be checked if trials compile with it.
        """
        if not self.is_another:
            return Check("verified")
        if program in self.checks:
            return self.checks[program]
        self._trials.on_phase(f"comparing under {self.name}")
        if self._untouched is None:
            self._untouched = self._replay(Program(), self._untouched_name)

        def is_settled(first: Recording) -> bool:
            verdict = self._judged(first).verdict
            # Where the untouched program's results differ there, nobody may know yet whether by
            # rounding alone.
            untouched = self._untouched if self._trials.rounding is None else None
            may_round = untouched is not None and bool(differences_of(untouched))
            is_held = verdict == "failed" or holds(verdict, drops_output=drops_output)
            return is_held and not may_round

        name = f"{self.name}-{digest_of(program)}"
        recording = twice(partial(self._replay, program), name, is_settled, self._settle)
        self.checks[program] = self._judged(recording)
        return self.checks[program]

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

    def _judged(self, recording: Recording) -> Check:
        untouched = self._untouched
        if untouched is None or untouched.exit.reason != "finished":
            parts = () if untouched is None else (failure_of(untouched),)
            return Check("unproven", (because("fails_there", *parts),))
        if recording.exit.reason != "finished":
            return Check("failed", (failure_of(recording),))
        reference = self._trials.reference_beside(untouched)
        verdict, reasons = reference.judge(recording)
        return Check(verdict, reasons, compared_with_eager(recording), self._measures(recording))

    def _measures(self, recording: Recording) -> Counts:
        # Inductor may have found what it compiled before.
        return self._trials.observe(recording).measures.replace(compile_time_s=None)


class WholeRuns:
    """Runs programs under ``fullgraph=True``, each once."""

    def __init__(self, trials: Trials) -> None:
        self._trials = trials
        self._observed: dict[Program, Observed] = {}

    def is_captured(self, state: State) -> bool:
        """Tell if a program runs so: torch then captures the numbers and sizes that it breaks at by
        default.
        """
        return self._run(state.program).is_finished

    def of(self, state: State, shown_place: Callable[[Finding, Program], str]) -> WholeRun:
        """Say if a program with fixes is one graph, or what stops that."""
        program = state.program
        if program.change.fullgraph:
            return WholeRun(is_one_graph=True)
        observed = self._run(program)
        breaking = state.observed if observed.is_finished else observed
        if first := next(filter(is_break, breaking.diagnosis.findings), None):
            place = shown_place(first, program)
            return WholeRun(is_one_graph=False, code=first.code, place=place, message=first.message)
        if observed.is_finished:
            is_contained = any(fix.grade == "contained" for fix in state.fixes)
            return WholeRun(is_one_graph=observed.measures.graphs > 0 and not is_contained)
        return WholeRun(is_one_graph=False, message=clause(observed.recording.exit.message))

    def _run(self, program: Program) -> Observed:
        if program not in self._observed:
            self._trials.on_phase("asking torch for one graph")
            name = f"whole-{digest_of(program)}"
            recording = self._trials.replays.replay(
                program.changed(RunChange(settings=(_ENOUGH,))),
                name,
                backend=EAGER,
                spec={"fullgraph": True, "regional": False},
            )
            self._observed[program] = self._trials.observe(recording, name)
        return self._observed[program]
