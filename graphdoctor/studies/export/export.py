"""A recorded program in, an ``ExportReport`` out: strict and not.

Each export has a process of its own, as whatever the program changes while it is traced must not
reach the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from graphdoctor.facts.base import values_of
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.export import Best, ExportBlocker, ExportReport, ExportWay, WayStatus
<<<<<<< HEAD
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import ExportFailure, Recording
=======
from graphdoctor.facts.fixes import Reason, Verdict, because
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.recording import Export, Recording
from graphdoctor.facts.trials import ResultKind
from graphdoctor.fixes.options import Sources, options_for
from graphdoctor.fixes.patch import Candidate, FileChange, LineMap, diff_text, with_fixes
>>>>>>> 6f60abb2 (Say in words what to change at a break: fix writes the edits and tries them)
from graphdoctor.probe.wire import EXPORT_FILE
from graphdoctor.studies.export.view import answer
from graphdoctor.trials.judge import Observed, Reference, clause, compared_with_eager
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.launch.request import Request
from graphdoctor.trials.program import ExportPlan, Program, RunChange
from graphdoctor.trials.replays import Replays
from graphdoctor.version import __version__
from graphdoctor.views.reasons import reasons_text

_BREAK = "GD1"
_FOLDER = "export"
"""Below a recording: the recordings of its exports."""

LIKE_FIRST = Program(change=RunChange(alike="sizes"))
"""The calls that a program without dynamic sizes can make."""


def export(request: Request, recording: Path, diagnosis: Diagnosis, setup: Setup) -> ExportReport:
    """Export a target that was recorded already; its recording holds the answer."""
    with Replays(request, recording / _FOLDER, setup.with_limit) as replays:
        reference = Reference(replays, LIKE_FIRST, on_phase=setup.on_phase)
        ways, runs = [], []
        for is_strict in (False, True):
            setup.on_phase(f"exporting with strict={is_strict}")
            way, run = _way(reference, is_strict=is_strict)
            ways.append(way)
            runs.append(run)
    best, strict = best_of(ways), ways[1]
    exports = [run.export for run in runs if run.export is not None]
    calls = next((export.calls for export in exports if export.calls), None)
    # Strict export may stop next where torch.compile breaks.
    lines = {blocker.finding.location.at for blocker in strict.blockers}
    breaks = (
        finding
        for finding in diagnosis.findings
        if finding.code.startswith(_BREAK) and finding.location.at not in lines
    )
    report = ExportReport(
        graphdoctor_version=__version__,
        environment=diagnosis.recording.environment,
        target=diagnosis.recording.target,
        text=answer(ways, best),
        best=best,
        is_wrapped=any(export.is_wrapped for export in exports),
        ways=tuple(ways),
        calls_made=0 if calls is None else calls.made,
        calls_other=() if calls is None else calls.other,
        breaks=tuple(breaks) if strict.op_count is None else (),
        gaps=diagnosis.recording.gaps,
    )
    write_fact(report, recording / EXPORT_FILE)
    return report


def best_of(ways: Sequence[ExportWay]) -> Best | None:
    """Return the first way that is right, else one whose results are unknown; None if there is
    none.

    ``ways``: non-strict, torch's default, first.
    """
    rank: dict[WayStatus, int] = {"exported": 0, "unknown": 1}
    usable = (way for way in ways if way.status in rank)
    best = min(usable, key=lambda way: rank[way.status], default=None)
    return None if best is None else "strict" if best.is_strict else "non-strict"


def _way(reference: Reference, *, is_strict: bool) -> tuple[ExportWay, Recording]:
    """Export the program, and make its calls with the result."""
    name = f"strict-{str(is_strict).lower()}"
    exporting = LIKE_FIRST.changed(RunChange(export=ExportPlan(is_strict)))
    recording = reference.replay(exporting, name)
    export = recording.export
    if export is None:
        reason = clause(recording.exit.message)
        return ExportWay(is_strict=is_strict, status="failed", reason=reason), recording
    way = ExportWay(
        is_strict=is_strict,
        status="blocked",
        **values_of(export, "line", "seconds", "op_count", "inputs", "constraints"),
    )
    if (failure := export.failure) is not None:
        reason = _first_line(failure.message) or failure.type
        finding = next(_raised(Observed.of(recording, Path.cwd(), name=name).diagnosis), None)
        blockers = () if finding is None else (_blocker(finding, failure),)
        return way.replace(reason=reason, blockers=blockers), recording
    if recording.exit.reason != "finished" and reference.own.reason is None:
        # Eager mode makes the same calls.
        return way.replace(status="different", reason=_failed_call(recording)), recording
    judged = reference.judge(recording, exporting, name)
    status: WayStatus = "exported" if judged.correct else "different"
    compared = compared_with_eager(recording)
    differing = () if compared is None else compared.differences
    return way.replace(
        status="unknown" if judged.correct is None else status,
        reason=reasons_text(judged.reasons),
        correctness=judged.correctness,
        lost=() if recording.replay is None else recording.replay.lost,
        unwritten=tuple(item.kind for item in differing if item.kind in ("stdout", "logs")),
    ), recording


def _raised(diagnosis: Diagnosis) -> Iterator[Finding]:
    """Yield the findings that made torch raise."""
    return (finding for finding in diagnosis.findings if "raised" in finding.break_effects)


<<<<<<< HEAD
def _blocker(finding: Finding, failure: ExportFailure) -> ExportBlocker:
    # That it raised is what this is about, and settings are torch.compile's.
    fixes = tuple(fix for fix in finding.fixes if fix.setting is None)
    shown = finding.replace(fixes=fixes, break_effects=(), compile_ids=())
    return ExportBlocker(finding=shown, type=failure.type, message=failure.message)
=======
@dataclass
class _Trial:
    proposal: Candidate
    attempt: Attempt
    verdict: Verdict
    reasons: tuple[Reason, ...]


@dataclass
class ExportTrials:
    """Tries fixes for one way to export."""

    _exporter: Exporter
    _plan: ExportPlan
    _originals: dict[Path, bytes] = field(default_factory=dict)
    _count: int = 0

    def run(
        self, way: ExportWay, untouched: Attempt, program: Program
    ) -> tuple[ExportWay, Export | None]:
        """Try fixes until the export succeeds, or no fix helps: the way with what came of them, and
        the export with fixes, or the untouched one.
        """
        attempt, blockers = untouched, list[ExportBlocker]()
        kept = []
        while (finding := attempt.blocker) is not None and len(blockers) < _MAX_BLOCKERS:
            number = len(blockers) + 1
            trials = self._try_all(finding, attempt, program, number)
            blockers.append(self.blocker(finding, attempt, program, trials, number=number))
            useful = [trial for trial in trials if trial.verdict in ("verified", "moved")]
            if not useful:
                break
            best = max(useful, key=lambda trial: trial.verdict == "verified")
            kept.append(best.proposal)
            program, attempt = with_fixes(program, (best.proposal,)), best.attempt
        if attempt.status != "exported" or not kept:
            return way.replace(blockers=tuple(blockers)), untouched.export
        # What was kept on the way is verified, once the export succeeds.
        for number, (blocker, fix) in enumerate(zip(blockers, kept, strict=True)):
            tried = tuple(
                trial.replace(verdict="verified", reasons=())
                if trial.verdict == "moved" and trial.title == fix.title
                else trial
                for trial in blocker.tried
            )
            finding = blocker.finding.replace(fixes=fixes_with(blocker.finding, tried, None))
            blockers[number] = blocker.replace(tried=tried, finding=finding)
        diffs = (
            diff_text(FileChange(path, self._originals[path], text), self._exporter.root)
            for path, text in program.content.items()
        )
        setup = dict.fromkeys(fix.snippet for fix in kept if not fix.edits and fix.snippet)
        cured = way.replace(
            blockers=tuple(blockers),
            is_cured=attempt.export is not None,
            diff="".join(diffs),
            settings=tuple(setup),
        )
        return cured, attempt.export or untouched.export

    def _try_all(
        self, finding: Finding, attempt: Attempt, program: Program, number: int
    ) -> list[_Trial]:
        exporter = self._exporter
        proposals = self._proposals(finding, attempt, program)
        proposals = proposals[: max(_MAX_TRIALS - self._count, 0)]
        prefix = f"{'strict' if self._plan.is_strict else 'non-strict'}-{number}-fix"
        self._count += len(proposals)

        def run(at: int) -> _Trial:
            edited = with_fixes(program, (proposals[at],))
            reference = exporter.reference(edited.change)
            trial = exporter.attempt(edited, self._plan, f"{prefix}-{at + 1}", reference)
            return _Trial(proposals[at], trial, *self._judged(finding, trial, edited))

        trials = []
        for first in range(0, len(proposals), exporter.jobs):
            wave = range(first, min(first + exporter.jobs, len(proposals)))
            exporter.on_phase(
                f"trying fixes for {finding.location.shown}, trial {wave[-1] + 1} of "
                f"{len(proposals)}"
            )
            for at in wave:
                exporter.reference(with_fixes(program, (proposals[at],)).change)
            trials += exporter.replays.in_parallel(run, list(wave), jobs=exporter.jobs)
            if any(trial.verdict == "verified" for trial in trials):
                break
        return trials

    def _proposals(self, finding: Finding, attempt: Attempt, program: Program) -> list[Candidate]:
        """Return what removes a blocker, but nothing that only contains a break."""
        sources = Sources(program, self._exporter.root, self._originals)
        edits = [
            fix
            for option in options_for(attempt.observed, sources, Selection())
            if option.finding.fingerprint == finding.fingerprint
            for fix in option.fixes
        ]
        targets = (finding.fingerprint,)
        calls = [
            Candidate(
                **values_of(fix, "title", "kind", "is_safe", "snippet", "place"),
                targets=targets,
                change=RunChange(setup=(fix.snippet,)),
            )
            for fix in finding.fixes
            if fix.snippet is not None
            and fix.place is not None
            and fix.place.function == "torch.export.export"
        ]
        # Settings are of torch.compile: export has its own. And it takes the function as a whole.
        return [fix for fix in (*edits, *calls) if not fix.contains and fix.kind != "config"]

    def blocker(
        self,
        finding: Finding,
        attempt: Attempt,
        program: Program,
        trials: Sequence[_Trial] = (),
        *,
        number: int = 1,
    ) -> ExportBlocker:
        """Return what blocks an attempt, with its trials."""
        failure = None if attempt.export is None else attempt.export.failure
        tried = tuple(
            trial.proposal.tried(
                finding,
                self._exporter.root,
                finding_place=self._original(finding, program).location.shown,
                round=number,
                is_on_untouched=number == 1,
                verdict=trial.verdict,
                reasons=trial.reasons,
                recording=trial.attempt.observed.name,
            )
            for trial in trials
        )
        # That it raised is what this is about, and settings are torch.compile's.
        fixes = (fix for fix in fixes_with(finding, tried, None) if fix.setting is None)
        shown = finding.replace(fixes=tuple(fixes), break_effects=(), compile_ids=())
        return ExportBlocker(
            finding=self._original(shown, program),
            type="" if failure is None else failure.type,
            message="" if failure is None else failure.message,
            tried=tried,
            is_behind=number > 1,
        )

    def _original(self, finding: Finding, program: Program) -> Finding:
        """Return a finding of an edited program at its line in the file on disk."""
        path, location = self._exporter.root / finding.location.file, finding.location
        if path not in program.content:
            return finding
        lines = LineMap(self._originals[path], program.content[path])
        return finding.replace(location=location.replace(line=lines.to_before(location.line)))

    def _judged(
        self, finding: Finding, attempt: Attempt, program: Program
    ) -> tuple[Verdict, tuple[Reason, ...]]:
        left, reason = attempt.blocker, attempt.reason
        if left is None:
            reasons = () if reason is None else (because("message", reason),)
            return _VERDICTS[attempt.status], reasons
        if left.fingerprint == finding.fingerprint:
            return "no effect", (because("stops_there"),)
        place = self._original(left, program).location.shown
        return "moved", (because("stops_at", place),)


# One export.


LIKE_FIRST = Program(change=RunChange(alike="sizes"))
"""The calls that a program without dynamic sizes can make."""


@dataclass(frozen=True)
class Attempt:
    """The result of one export.

    Args:
        reason: Why, as a clause; None if the status says it all.
        correctness: How results compare with eager mode's; None if they weren't compared.
    """

    observed: Observed
    status: WayStatus
    reason: str | None = None
    correctness: Correctness | None = None
    lost: tuple[str, ...] = ()
    unwritten: tuple[ResultKind, ...] = ()

    @property
    def export(self) -> Export | None:
        """The export that torch made; None if the process ended before."""
        return self.observed.recording.export

    @property
    def blocker(self) -> Finding | None:
        """The finding that made torch raise; None if it didn't."""
        raised = (
            finding
            for finding in self.observed.diagnosis.findings
            if "raised" in finding.break_effects
        )
        return next(raised, None) if self.status == "blocked" else None


@dataclass(frozen=True)
class Exporter:
    """Exports programs, and runs the untouched one in eager mode to compare with, in processes that
    the replays start.

    ``root``: paths below it are shown relative to it.
    """

    replays: Replays
    on_phase: Callable[[str], None]
    root: Path
    jobs: int
    _eager: dict[tuple[str, ...], Reference] = field(default_factory=dict)

    def eager(self, program: Program, prefix: str) -> Reference:
        """Run a program in eager mode, with a prefix for the names of its replays."""
        return Reference(self.replays, program, on_phase=self.on_phase, prefix=prefix)

    def reference(self, change: RunChange) -> Reference:
        """Run the untouched program to compare a changed one with: one for each setup, which can
        change its results.
        """
        if change.setup not in self._eager:
            prefix = f"setup-{len(self._eager)}-" if self._eager else ""
            self._eager[change.setup] = self.eager(
                LIKE_FIRST.changed(RunChange(setup=change.setup)), prefix
            )
        return self._eager[change.setup]

    def attempt(
        self, program: Program, plan: ExportPlan, name: str, reference: Reference
    ) -> Attempt:
        """Export a program, whose change says which calls to make, and make its calls with the
        result.
        """
        exporting = program.changed(RunChange(export=plan))
        recording = reference.replay(exporting, name)
        observed = Observed.of(recording, self.root, name=name)
        export = recording.export
        if export is None:
            return Attempt(observed, "failed", clause(recording.exit.message))
        if export.failure is not None:
            return Attempt(
                observed, "blocked", _first_line(export.failure.message) or export.failure.type
            )
        if recording.exit.reason != "finished" and reference.own.reason is None:
            # Eager mode makes the same calls.
            return Attempt(observed, "different", _failed_call(recording))
        judged = reference.judge(recording, exporting, name)
        status: WayStatus = (
            "unknown" if judged.correct is None else "exported" if judged.correct else "different"
        )
        lost = () if recording.replay is None else recording.replay.lost
        compared = compared_with_eager(recording)
        differing = (
            [difference.kind for difference in compared.differences] if compared is not None else []
        )
        unwritten = tuple(kind for kind in differing if kind in ("stdout", "logs"))
        return Attempt(
            observed,
            status,
            reasons_text(judged.reasons),
            judged.correctness,
            lost=lost,
            unwritten=unwritten,
        )
>>>>>>> 6f60abb2 (Say in words what to change at a break: fix writes the edits and tries them)


def _failed_call(recording: Recording) -> str:
    for call in recording.calls:
        if call.error is not None:
            raised = f"the exported program raises {call.error.type} in call {call.index}"
            return f"{raised}: {_first_line(call.error.message)}"
    return f"the exported program fails: {clause(recording.exit.message)}"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
