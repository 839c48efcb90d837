"""Exports a program once, in a process of its own, and says what came of it.

Comes in: a program and how to export it. Goes out: an ``Attempt``: the exported program judged
beside eager mode, or the finding that blocks it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from graphdoctor.facts.bench import Correctness
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.export import MADE, WayStatus
from graphdoctor.facts.recording import Export, Recording
from graphdoctor.facts.trials import ResultKind
from graphdoctor.trials.judge import Observed, Reference, clause, compared_with_eager
from graphdoctor.trials.program import ExportPlan, Program, RunChange
from graphdoctor.trials.replays import Replays
from graphdoctor.views.reasons import reasons_text

LIKE_FIRST = Program(change=RunChange(alike="sizes"))
"""The calls that a program without dynamic sizes can make."""


@dataclass(frozen=True)
class Attempt:
    """Result of one export.

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
        """Return the export of the target; None if the process ended before."""
        return self.observed.recording.export

    @property
    def is_made(self) -> bool:
        """Torch made a program."""
        return self.status in MADE

    @property
    def blocker(self) -> Finding | None:
        """Return the cause of torch's exception; None if it didn't."""
        raised = (
            found for found in self.observed.diagnosis.findings if "raised" in found.break_effects
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
        """A program in eager mode, with a prefix for the names of its replays."""
        return Reference(self.replays, program, on_phase=self.on_phase, prefix=prefix)

    def reference(self, change: RunChange) -> Reference:
        """The untouched program to compare a changed one with: one for each setup, which can change
        its results.
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
        differing = [one.kind for one in compared.differences] if compared is not None else []
        unwritten = tuple(kind for kind in differing if kind in ("stdout", "logs"))
        return Attempt(
            observed,
            status,
            reasons_text(judged.reasons),
            judged.correctness,
            lost=lost,
            unwritten=unwritten,
        )


def _failed_call(recording: Recording) -> str:
    for call in recording.calls:
        if call.error is not None:
            raised = f"the exported program raises {call.error.type} in call {call.index}"
            return f"{raised}: {_first_line(call.error.message)}"
    return f"the exported program fails: {clause(recording.exit.message)}"


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
