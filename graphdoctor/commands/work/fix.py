"""Tries fixes for the findings of a recorded target."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor.commands.work.kept import keep
from graphdoctor.facts.fixes import TrialChoices
from graphdoctor.facts.spec import Timing
from graphdoctor.trace.reader import read_recording
from graphdoctor.trials.launch.recorded import fitting

if TYPE_CHECKING:
    from graphdoctor.facts.recording import Recording
    from graphdoctor.fixes.patch import FileChange
    from graphdoctor.fixes.search import SearchResult
    from graphdoctor.rules.diagnosis.selection import Selection
    from graphdoctor.trials.launch.child import Setup
    from graphdoctor.trials.launch.request import Request

_MAX_JOBS = 4


@dataclass(frozen=True)
class Trials:
    """How fixes are tried.

    Args:
        jobs: How many trials run side by side; None for a number that fits the machine.
        timeout_s: Seconds until a trial is stopped; None for a multiple of what the program takes.
        memory_gib: GiB above which a trial is stopped; None for a multiple of what the program takes.
    """

    is_unsafe_tried: bool
    is_tried: bool = True
    timing: Timing = Timing.final
    jobs: int | None = None
    timeout_s: float | None = None
    memory_gib: float | None = None

    def choices(self, selection: Selection) -> TrialChoices:
        """What of it decides which fixes are verified."""
        return TrialChoices(
            select=selection.select,
            ignore=selection.ignore,
            is_own_code_only=selection.is_own_code_only,
            is_unsafe_tried=self.is_unsafe_tried,
            timing=self.timing.value,
        )


def try_fixes(
    request: Request,
    recording: Path,
    trials: Trials,
    selection: Selection,
    setup: Setup,
    check: Callable[[Sequence[FileChange]], None] | None = None,
    *,
    deadline: float | None = None,
) -> SearchResult:
    """Try fixes; the recording holds the answer."""
    # Not earlier: the recipes take longer to import than the recorded run takes to begin.
    from graphdoctor.fixes.search import SearchOptions, search

    recorded = read_recording(recording)
    options = SearchOptions(
        selection,
        is_unsafe_tried=trials.is_unsafe_tried,
        is_tried=trials.is_tried,
        timing=trials.timing,
        jobs=trials.jobs or _default_jobs(request, recorded),
        timeout_s=trials.timeout_s,
        memory_bytes=None if trials.memory_gib is None else int(trials.memory_gib * 2**30),
        choices=trials.choices(selection),
        deadline=deadline,
    )
    treated = search(
        request,
        recording,
        recorded,
        root=Path.cwd(),
        options=options,
        setup=setup,
        check=check,
    )
    keep(request, recording, treated, setup)
    return treated


def _default_jobs(request: Request, recorded: Recording) -> int:
    """As many as there are cores and as fit into half the free memory; trials on one accelerator share its memory."""
    if request.spec.device is not None:
        return 1
    return fitting(recorded.exit.peak_memory_bytes, most=min(_MAX_JOBS, os.cpu_count() or 1))
