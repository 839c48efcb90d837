"""Tries fixes until nothing more can be verified, then all verified ones together.

A fix can uncover the next break: each round tries what the program with the verified fixes of the rounds before still
suffers from. Within a round every finding's first suggestion is tried, side by side with those of the others; where it
does not hold, the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graphdoctor import __version__
from graphdoctor.capture.request import Request
from graphdoctor.fixes.patch import LineMap, merged, unified
from graphdoctor.fixes.proposals import Options, Proposal, Sources, options_for
from graphdoctor.fixes.replays import EAGER, Limits, Program, Replays
from graphdoctor.fixes.timing import time_pair
from graphdoctor.fixes.verdicts import Judgement, Reference, Seen, differing_kinds, judge, judge_results, loses_coverage
from graphdoctor.fixes.writing import FileChange
from graphdoctor.model.diagnosis import Finding
from graphdoctor.model.fixes import LeftFinding, PairedTime, Treatment, TriedFix, Verdict
from graphdoctor.model.recording import Recording
from graphdoctor.model.trials import Comparison
from graphdoctor.rules.diagnose import Selection, diagnose, relative

FOLDER = "fixes"
FILE = "fixes.json"
_UNTOUCHED = "untouched"
_REFERENCES = {EAGER: EAGER, _UNTOUCHED: _UNTOUCHED}
_MAX_ROUNDS = 8
_MAX_TRIALS = 80
_INDUCTOR = "inductor"
_MIN_TIMEOUT_S = 60.0
_TIMEOUT_FACTOR = 6
_MEMORY_FACTOR = 2
_MEMORY_EXTRA = 2 * 2**30


@dataclass(frozen=True)
class Wanted:
    """What to try and how.

    Args:
        selection: Findings to treat.
        is_unsafe_tried: Try fixes that may change results for other inputs, too.
        is_tried: Make trials at all; else everything is only suggested.
        is_timed: Time steady calls.
        jobs: How many trials run side by side.
        timeout_s: Seconds until a trial is stopped; None for a multiple of what the untouched program takes.
        memory_bytes: Memory beyond which a trial is stopped; None for a multiple of what the untouched program takes.
    """

    selection: Selection
    is_unsafe_tried: bool = True
    is_tried: bool = True
    is_timed: bool = True
    jobs: int = 1
    timeout_s: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Treated:
    """What came of it.

    Args:
        treatment: For the recording and for people.
        changes: Edits of the verified set, ready to be written.
    """

    treatment: Treatment
    changes: tuple[FileChange, ...]


@dataclass
class _State:
    """The program with the fixes verified so far."""

    program: Program
    seen: Seen
    applied: list[Proposal] = field(default_factory=list)


def treat(
    request: Request, folder: Path, recording: Recording, *, python: str, root: Path, wanted: Wanted,
    on_phase: Callable[[str], None],
) -> Treated:  # fmt: skip
    """Try fixes for the findings of a recorded run.

    Args:
        request: What the run was asked to do.
        folder: Its recording's folder; the trials' recordings go below it.
        recording: Its recording.
        python: The interpreter to run trials with.
        root: Paths below it are shown relative to it.
        wanted: What to try and how.
        on_phase: Told what is being tried.
    """
    limits = Limits(wanted.timeout_s, wanted.memory_bytes)
    replays = Replays(request, folder / FOLDER, python=python, limits=limits)
    doctor = _Doctor(replays, root, wanted, on_phase, request.backend)
    try:
        treated = doctor.run(recording)
    except KeyboardInterrupt:
        replays.cancel()
        raise
    (folder / FILE).write_text(treated.treatment.model_dump_json(), encoding="utf-8")
    return treated


class _Doctor:
    """Runs the rounds.

    Args:
        replays: Makes trials.
        root: What paths are relative to.
        wanted: What to try and how.
        on_phase: Told what is being tried.
        backend: The backend asked for.
    """

    def __init__(
        self, replays: Replays, root: Path, wanted: Wanted, on_phase: Callable[[str], None], backend: str
    ) -> None:
        self._replays = replays
        self._root = root
        self._wanted = wanted
        self._on_phase = on_phase
        self._backend = backend
        self._reference = Reference()
        self._originals: dict[Path, bytes] = {}
        self._tried: list[TriedFix] = []
        self._settled: set[tuple[str, str]] = set()
        self._repeated: set[tuple[str, str]] = set()
        self._reasons: dict[str, str] = {}
        self._notes: list[str] = []

    def run(self, recording: Recording) -> Treated:
        base = self._seen(recording)
        state = _State(Program(), base)
        if not self._wanted.is_tried or not self._can_replay(recording):
            self._suggest(base)
            return self._treated(base, state, compared=None, times=())
        if not options_for(base, Sources(Program(), self._root, {})):
            return self._treated(base, state, compared=None, times=())
        untouched = self._replay_untouched()
        if untouched is None:
            self._suggest(base)
            return self._treated(base, state, compared=None, times=())
        state.seen = untouched
        for number in range(1, _MAX_ROUNDS + 1):
            if not self._round(state, number):
                break
        else:
            self._notes.append(f"stopped after {_MAX_ROUNDS} rounds")
        final = state.seen.recording.replay
        compared = final.compared.get("eager") if final and state.applied else None
        return self._treated(untouched, state, compared=compared, times=self._times(Program(), state.program, "all"))

    def _can_replay(self, recording: Recording) -> bool:
        if recording.exit.reason == "finished":
            return True
        self._notes.append("the recorded run did not finish, so nothing was tried")
        return False

    def _seen(self, recording: Recording) -> Seen:
        selection = self._wanted.selection
        return Seen(recording, diagnose(recording, root=self._root, version=__version__, selection=selection))

    def _replay_untouched(self) -> Seen | None:
        """Run the program as it is: twice without torch.compile, once with; None when it cannot be repeated."""
        self._on_phase("running without torch.compile")
        eager = self._replays.replay(Program(), EAGER)
        names = (f"{EAGER}-again", _UNTOUCHED)

        def run(name: str) -> Recording:
            return self._replays.replay(Program(), name, references={EAGER: EAGER}, coverage=True)

        self._on_phase("running as it is")
        again, untouched = self._replays.side_by_side(run, names, jobs=self._wanted.jobs)
        if untouched.exit.reason != "finished":
            self._notes.append(f"the run could not be repeated: {untouched.exit.message}")
            return None
        compared = [found.replay.compared.get("eager") if found.replay else None for found in (again, untouched)]
        self._reference = Reference(
            unstable=differing_kinds(compared[:1]),
            compiled_differs=differing_kinds(compared[1:]),
            is_known=eager.exit.reason == "finished",
        )
        if not self._reference.is_known:
            self._notes.append(f"the program fails without torch.compile: {eager.exit.message}")
        if self._reference.unstable:
            kinds = ", ".join(sorted(self._reference.unstable))
            self._notes.append(f"two runs without torch.compile differ in {kinds}: no fix can be proven")
        self._limit(untouched)
        return self._seen(untouched)

    def _limit(self, untouched: Recording) -> None:
        """Stop trials that take a multiple of what the untouched program takes."""
        limits = self._replays.limits
        took, peak = untouched.exit.duration_s, untouched.exit.peak_memory_bytes
        if limits.timeout_s is None and took is not None:
            limits = replace(limits, timeout_s=max(_MIN_TIMEOUT_S, _TIMEOUT_FACTOR * took))
        if limits.memory_bytes is None and peak is not None:
            limits = replace(limits, memory_bytes=_MEMORY_FACTOR * peak + _MEMORY_EXTRA)
        self._replays.limits = limits

    # One round: every finding's suggestions, then the verified ones together.

    def _round(self, state: _State, number: int) -> bool:
        """Try what can be tried on the program as it is now; whether something was verified."""
        waiting = self._options(state, number)
        chosen: list[tuple[Proposal, Seen]] = []
        wave = 0
        while waiting and self._replays.count < _MAX_TRIALS:
            wave += 1
            trials = _shared([options.proposals[0] for options in waiting])
            seen = self._try_all(trials, state, f"{number}.{wave}")
            still: list[Options] = []
            for options in waiting:
                proposal = next(trial for trial in trials if options.finding.fingerprint in trial.targets)
                after = seen[trials.index(proposal)]
                verdict = self._record(options.finding, proposal, state, after, number)
                if verdict == "verified":
                    if not any(proposal is other for other, _ in chosen):
                        chosen.append((proposal, after))
                elif options.proposals[1:]:
                    still.append(replace(options, proposals=options.proposals[1:]))
            waiting = still
        if waiting:
            self._notes.append(f"stopped after {self._replays.count} replays")
        return self._join(state, chosen, number)

    def _options(self, state: _State, number: int) -> list[Options]:
        """What is still to be tried; unsafe fixes are told, where they are not wanted."""
        found = []
        for options in options_for(state.seen, Sources(state.program, self._root, self._originals)):
            finding = options.finding
            for reason in options.declined:
                self._reasons.setdefault(finding.fingerprint, reason)
            proposals = []
            for proposal in options.proposals:
                if (finding.fingerprint, proposal.title) in self._settled:
                    continue
                if proposal.is_safe or self._wanted.is_unsafe_tried:
                    proposals.append(proposal)
                else:
                    self._settled.add((finding.fingerprint, proposal.title))
                    self._note(finding, proposal, state, number, reason="it is unsafe: --unsafe-fixes tries it")
            if proposals:
                found.append(replace(options, proposals=tuple(proposals)))
        return found

    def _try_all(self, trials: Sequence[Proposal], state: _State, label: str) -> list[Seen]:
        def run(number: int) -> Seen:
            proposal = trials[number]
            self._on_phase(f"round {label}, trial {number + 1} of {len(trials)}: {proposal.title}")
            program = _with(state.program, (proposal,))
            return self._seen(
                self._replays.replay(program, f"{label}-{number + 1}", references=_REFERENCES, coverage=True)
            )

        return self._replays.side_by_side(run, range(len(trials)), jobs=self._wanted.jobs)

    def _record(self, finding: Finding, proposal: Proposal, state: _State, after: Seen, number: int) -> Verdict:
        judged = self._judge(finding, proposal, state, after)
        self._settled.add((finding.fingerprint, proposal.title))
        self._reasons[finding.fingerprint] = f"`{proposal.title}`: {judged.verdict}" + (
            f", {judged.reason}" if judged.reason else ""
        )
        self._note(finding, proposal, state, number, judged=judged, after=after)
        return judged.verdict

    def _judge(self, finding: Finding, proposal: Proposal, state: _State, after: Seen) -> Judgement:
        return judge(
            finding,
            state.seen,
            after,
            self._reference,
            maps=self._maps(state.program, _with(state.program, (proposal,))),
            root=self._root,
            contains=proposal.contains,
            drops_output=proposal.drops_output or any(other.drops_output for other in state.applied),
        )

    def _maps(self, before: Program, after: Program) -> dict[Path, LineMap]:
        return {
            path: LineMap(before.content.get(path, self._originals.get(path, content)), content)
            for path, content in after.content.items()
        }

    def _join(self, state: _State, chosen: Sequence[tuple[Proposal, Seen]], number: int) -> bool:
        """Put the verified fixes of a round together; those that do not go together wait for the next round."""
        if not chosen:
            return False
        proposals = [proposal for proposal, _ in chosen]
        if len(chosen) == 1:
            self._apply(state, proposals, chosen[0][1], number)
            return True
        together = self._merged(state.program, proposals)
        seen = self._try_together(state, together, f"{number}-together")
        if seen is not None:
            self._apply(state, together, seen, number)
            return True
        # One by one: each beside those that hold already.
        self._apply(state, proposals[:1], chosen[0][1], number)
        for position, proposal in enumerate(proposals[1:], start=2):
            kept = self._merged(state.program, [proposal]) if not proposal.content else []
            if kept and (seen := self._try_together(state, kept, f"{number}-{position}-added")) is not None:
                self._apply(state, kept, seen, number)
        return True

    def _try_together(self, state: _State, proposals: Sequence[Proposal], name: str) -> Seen | None:
        """The program with several fixes; None when they do not hold together."""
        self._on_phase(f"trying {len(proposals)} verified fixes together")
        program = _with(state.program, proposals)
        seen = self._seen(self._replays.replay(program, name, references=_REFERENCES, coverage=True))
        if seen.recording.exit.reason != "finished":
            return None
        drops = any(proposal.drops_output for proposal in (*proposals, *state.applied))
        verdict, _ = judge_results(seen.recording, self._reference, drops_output=drops)
        was, now = state.seen.measures, seen.measures
        is_worse = now.frames_over_limit > was.frames_over_limit or loses_coverage(was, now)
        return None if verdict != "verified" or is_worse else seen

    def _merged(self, program: Program, proposals: Sequence[Proposal]) -> list[Proposal]:
        """The proposals whose edits of one file do not meet, first come first; ``_with`` puts them together."""
        kept = list(proposals)
        for path in {path for proposal in proposals for path in proposal.content}:
            editing = [proposal for proposal in kept if path in proposal.content]
            base = program.content.get(path, self._originals[path])
            _, chosen = merged(base, [proposal.content[path] for proposal in editing])
            left_out = [proposal for at, proposal in enumerate(editing) if at not in chosen]
            kept = [proposal for proposal in kept if not any(proposal is other for other in left_out)]
        return kept

    def _apply(self, state: _State, proposals: Sequence[Proposal], seen: Seen, number: int) -> None:
        """Take fixes into the set; those of the round that are not in it may be tried again beside it."""
        before = state.program
        for position, proposal in enumerate(proposals, start=1):
            self._mark(
                proposal,
                number,
                times=self._times(before, _with(before, (proposal,)), f"{number}-time{len(state.applied) + position}"),
            )
        state.program = _with(before, proposals)
        state.seen = seen
        state.applied += proposals
        for tried in self._tried:
            is_again = tried.round == number and tried.verdict in ("verified", "no effect") and not tried.is_applied
            if is_again and (again := {(mark, tried.title) for mark in tried.fingerprints}) - self._repeated:
                self._settled -= again
                self._repeated |= again

    def _mark(self, proposal: Proposal, number: int, *, times: tuple[PairedTime, ...]) -> None:
        """Note that a fix is in the set."""
        for position, tried in enumerate(self._tried):
            is_it = (tried.round, tried.title, tried.verdict) == (number, proposal.title, "verified")
            if is_it and set(tried.fingerprints) & set(proposal.targets):
                self._tried[position] = tried.model_copy(update={"is_applied": True, "times": times})

    def _times(self, before: Program, after: Program, name: str) -> tuple[PairedTime, ...]:
        """Steady calls under the backend asked for and under inductor, in turns."""
        if not self._wanted.is_timed or before == after:
            return ()
        found: list[PairedTime] = []
        for backend in dict.fromkeys((self._backend, _INDUCTOR)):
            self._on_phase(f"timing steady calls under {backend}")
            times = time_pair(self._replays, before, after, name, backend=backend)
            if isinstance(times, str):
                self._notes.append(f"not timed under {backend}: {times}")
            else:
                found.append(times)
        return tuple(found)

    # What is told.

    def _suggest(self, base: Seen) -> None:
        """Note every proposal for the untouched program without trying it."""
        state = _State(Program(), base)
        for options in options_for(base, Sources(Program(), self._root, self._originals)):
            for reason in options.declined:
                self._reasons.setdefault(options.finding.fingerprint, reason)
            for proposal in options.proposals:
                self._note(options.finding, proposal, state, 1, reason="no trial was asked for")

    def _note(
        self,
        finding: Finding,
        proposal: Proposal,
        state: _State,
        number: int,
        *,
        judged: Judgement | None = None,
        after: Seen | None = None,
        reason: str | None = None,
    ) -> None:
        replay = after.recording.replay if after else None
        is_finished = after is not None and after.recording.exit.reason == "finished"
        self._tried.append(
            TriedFix(
                title=proposal.title,
                kind=proposal.kind,
                snippet=proposal.snippet,
                diff=self._diff(state.program, proposal) or None,
                is_safe=proposal.is_safe,
                code=finding.code,
                fingerprints=(finding.fingerprint,),
                place=f"{finding.location.file}:{finding.location.line}",
                round=number,
                verdict=judged.verdict if judged else "not tried",
                reason=judged.reason if judged else reason,
                before=state.seen.measures if after else None,
                after=after.measures if after and is_finished else None,
                sites_gone=judged.gone if judged else (),
                sites_new=judged.new if judged else (),
                compared=replay.compared.get("eager") if replay else None,
            )
        )

    def _diff(self, before: Program, proposal: Proposal) -> str:
        return "".join(
            _diff(before.content.get(path, self._originals[path]), content, path, self._root)
            for path, content in proposal.content.items()
        )

    def _treated(
        self, base: Seen, state: _State, *, compared: Comparison | None, times: tuple[PairedTime, ...]
    ) -> Treated:
        changes = tuple(
            FileChange(path, self._originals[path], content) for path, content in state.program.content.items()
        )
        treatment = Treatment(
            tried=tuple(self._tried),
            before=base.measures,
            after=state.seen.measures if state.applied else None,
            diff="".join(_diff(change.before, change.after, change.path, self._root) for change in changes),
            settings=tuple(p.snippet for p in state.applied if p.kind == "config" and p.snippet),
            calls=tuple(p.snippet for p in state.applied if p.kind == "call" and p.snippet),
            compared=compared,
            times=times,
            left=tuple(self._left(state)),
            trial_count=self._replays.count,
            notes=tuple(dict.fromkeys(self._notes)),
        )
        return Treated(treatment, changes)

    def _left(self, state: _State) -> Iterator[LeftFinding]:
        for finding in state.seen.diagnosis.findings:
            if finding.code.startswith(("GD1", "GD2")):
                yield LeftFinding(
                    code=finding.code,
                    place=f"{finding.location.file}:{finding.location.line}",
                    message=finding.message,
                    reason=self._reasons.get(finding.fingerprint, "no fix is known for it"),
                )


def _diff(before: bytes, after: bytes, path: Path, root: Path) -> str:
    """An edit for people and JSON, which cannot hold bytes that are no text."""
    return unified(before, after, relative(str(path), root)).encode("utf-8", "replace").decode()


def _with(program: Program, proposals: Sequence[Proposal]) -> Program:
    """A program with fixes; their edits of one file are known to go together."""
    content = dict(program.content)
    for path in dict.fromkeys(path for proposal in proposals for path in proposal.content):
        versions = [proposal.content[path] for proposal in proposals if path in proposal.content]
        content[path] = versions[0] if len(versions) == 1 else merged(_base_of(program, path), versions)[0]
    change = program.change
    for proposal in proposals:
        change = change.joined(proposal.change)
    setup = (*program.setup, *(line for proposal in proposals for line in proposal.setup))
    return Program(content, tuple(dict.fromkeys(setup)), change)


def _base_of(program: Program, path: Path) -> bytes:
    return program.content.get(path) or path.read_bytes()


def _shared(proposals: Sequence[Proposal]) -> list[Proposal]:
    """The trials to make: proposals that do the same, for all their findings at once."""
    found: list[Proposal] = []
    for proposal in proposals:
        at = next((index for index, other in enumerate(found) if other.is_same(proposal)), None)
        if at is None:
            found.append(proposal)
        else:
            found[at] = replace(found[at], targets=(*found[at].targets, *proposal.targets))
    return found
