"""Finds why a variant isn't faster: of the findings of its run, those about its speed, the most
costly first.

Comes in: a diagnosis of the variant's run, and its kernels. Goes out: findings. What a finding
costs is known from gaps between graphs, from the profiler or from guard checks, or it isn't; then
code that runs eagerly comes first.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from graphdoctor.facts.base import values_of
from graphdoctor.facts.bench import Variant
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.kernels import KernelShare
from graphdoctor.facts.recording import Recording
from graphdoctor.rules.diagnosed import Needs, diagnose_recording, diagnosis_of
from graphdoctor.rules.graphs import CacheBypassed, GuardOverhead, RepeatedBlocksInOneGraph
from graphdoctor.rules.kernels import LibraryCalls, SlowerKernels
from graphdoctor.studies.bench.side_by_side import Way
from graphdoctor.trials.judge import Reference, Verdict, failure_of
from graphdoctor.trials.launch.request import Measured
from graphdoctor.views.reasons import reasons_text

MOST: Final = 5
"""Findings of one variant."""

_MIN_SHARE = 0.01
"""Of a call; nobody can see less."""

_ABOUT_STARTS: Final = frozenset({RepeatedBlocksInOneGraph.code, CacheBypassed.code})
"""Of these, no call takes longer."""

_RUN = "GD9"
"""The beginning of codes about the recording itself."""


def reasons(diagnosis: Diagnosis, kernels: KernelShare | None) -> tuple[Finding, ...]:
    """Choose the findings that make a variant slower than it could be, at most five: what takes
    time of each call first, by how much; then what is known to, then what only takes compile time.

    ``kernels``: of its steady call; None if they weren't measured.
    """
    ranked: list[tuple[tuple[int, float], Finding]] = []
    guards = diagnosis.recording.guards
    for finding in diagnosis.findings:
        cost, has_eager = finding.cost, bool(finding.effects.eager_frames)
        share = None if cost is None else cost.share
        is_small = share is not None and share < _MIN_SHARE and not has_eager
        if finding.code.startswith(_RUN) or finding.code in _ABOUT_STARTS or is_small:
            continue
        # Microseconds of a steady call that the finding is about; None if unknown.
        call_us = None if cost is None else cost.call_us
        if call_us is not None:
            pass
        elif finding.code == GuardOverhead.code and guards is not None and guards.call_us:
            call_us = (guards.known_share or 0.0) * guards.call_us
        elif finding.code == LibraryCalls.code and kernels is not None:
            call_us = kernels.library_us
        if call_us:
            rank = (0, -call_us)
        elif has_eager or finding.severity == "error":
            rank = (1, -float(finding.count))
        elif cost is None or cost.compile_s is None:
            rank = (2, -float(finding.count))
        else:
            rank = (3, -cost.compile_s)
        ranked.append((rank, finding))
    ranked.sort(key=lambda pair: pair[0])
    return tuple(finding for _, finding in ranked[:MOST])


@dataclass(frozen=True)
class Look:
    """A recorded run of one variant: what its calls compute, and what slows them down."""

    recording: Recording
    diagnosis: Diagnosis
    verdict: Verdict
    findings: tuple[Finding, ...]

    @classmethod
    def at(
        cls,
        way: Way,
        reference: Reference,
        name: str,
        folder: Path,
        *,
        beside: KernelShare | None,
        has_causes: bool = True,
    ) -> Look:
        """Run a variant once more and record it, below a folder, and judge its results.

        ``beside``: the kernels of eager mode that its own are compared with; None for none.
        ``has_causes``: what takes the time of its calls is measured, too.
        """
        measured = Measured(coverage=has_causes, guard_cost=has_causes, kernels=has_causes)
        run: dict[str, object] = {
            "spec": way.spec.changes,
            "measured": measured,
            "is_counted": False,
        }
        recording = reference.replay(way.program, name, **run)
        diagnosis = diagnose_recording(
            folder / name, None, Needs(guards=True), eager_kernels=beside
        ).diagnosis
        verdict = Verdict(None, None, failure_of(recording))
        if recording.exit.reason == "finished":
            verdict = reference.judge(recording, way.program, name, **run)
        if any(finding.code == SlowerKernels.code for finding in diagnosis.findings):
            # Which lines its kernels compute is known only where their code was generated under
            # our eyes.
            with tempfile.TemporaryDirectory(
                prefix="graphdoctor-", ignore_cleanup_errors=True
            ) as caches:
                run["measured"] = replace(measured, profile=caches)
                profiled = reference.replay(way.program, f"{name}-profiled", **run).profiled
            diagnosis = diagnosis_of(
                diagnosis.recording.replace(profiled=profiled), root=Path.cwd()
            )
        return cls(recording, diagnosis, verdict, reasons(diagnosis, recording.kernels))

    def shown(self, variant: Variant) -> Variant:
        """Return the variant with what this run says of it."""
        recording, judged = self.recording, self.verdict
        status, reason = variant.status, variant.reason
        if recording.exit.reason != "finished":
            # It ran as its user runs it, and not under our eyes: what it computes is unknown.
            reason = (
                f"its results weren't compared: {reasons_text(judged.reasons)}"
                if status == "ok"
                else reason
            )
        elif judged.correct is None:
            reason = reasons_text(judged.reasons) or reason
        elif judged.correct is False and status == "ok":
            status, reason = "wrong", reasons_text(judged.reasons)
        cache = variant.cache
        if cache is not None and recording.caches is not None:
            cache = cache.replace(bypass_reasons=recording.caches.bypass_reasons)
        return with_counts(variant, self.diagnosis).replace(
            status=status,
            reason=reason,
            cuda_graphs=recording.cuda_graphs,
            cache=cache,
            findings=self.findings,
            correct=judged.correct,
            correctness=judged.correctness,
            **launched(recording.kernels),
        )


def with_counts(variant: Variant, diagnosis: Diagnosis) -> Variant:
    """Return the variant with the counts of its recorded run."""
    return variant.replace(
        regions=diagnosis.recording.target.regions,
        **values_of(diagnosis.summary, "graphs", "break_sites", "recompiles"),
    )


def launched(kernels: KernelShare | None) -> dict[str, Any]:
    """Return a variant's fields about kernels."""
    return {"kernels": kernels, "launches": None if kernels is None else kernels.launches}
