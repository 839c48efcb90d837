"""Looks for the fastest correct way to run a recorded target."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from graphdoctor import __version__
from graphdoctor.commands.work.bench import diagnosed
from graphdoctor.commands.work.fix import Trials, try_fixes
from graphdoctor.facts.reading import json_of
from graphdoctor.facts.spec import Timing
from graphdoctor.probe.wire import CURE_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from graphdoctor.facts.cure import CureReport
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.fixes.patch import FileChange
    from graphdoctor.fixes.search import SearchResult
    from graphdoctor.rules.diagnosis.selection import Selection
    from graphdoctor.studies.cure.cure import Candidate, Way
    from graphdoctor.trials.launch.child import Setup
    from graphdoctor.trials.launch.request import Request

CURE_FOLDER = "cure"
_SHARE_OF_FIXES = 0.5
"""Of the budget, what trials of fixes may take."""


@dataclass(frozen=True)
class Cure:
    """What the search found, and the edits that it needs."""

    report: CureReport
    changes: tuple[FileChange, ...]


@dataclass(frozen=True)
class Curing:
    """How to search.

    Args:
        budget_s: Seconds after which nothing more is tried.
    """

    budget_s: float
    is_unsafe_tried: bool
    selection: Selection
    check: Callable[[Sequence[FileChange]], None] | None = None


def cure_target(request: Request, recording: Path, diagnosis: Diagnosis, asked: Curing, setup: Setup) -> Cure:
    """Search; the recording holds the answer."""
    # Not earlier: the recorded run begins sooner.
    from graphdoctor.facts.bench import EAGER
    from graphdoctor.facts.cure import CURED, CureReport
    from graphdoctor.studies.bench.variants import VariantSpec
    from graphdoctor.studies.cure.cure import Search
    from graphdoctor.studies.cure.lines import compile_lines
    from graphdoctor.studies.cure.verdict import best_of, sentence
    from graphdoctor.trials.replays import Replays

    began = time.monotonic()
    treated = _treated(request, recording, asked, setup, began) if diagnosis.findings else None
    replays = Replays(request, recording / CURE_FOLDER, setup.with_limit)
    search = Search(
        replays,
        request.spec,
        recording / CURE_FOLDER,
        deadline=began + asked.budget_s,
        on_phase=setup.watching.on_phase,
        on_step=setup.on_trial,
        diagnose=diagnosed,
    )
    try:
        found = search.run([*_candidates(request, diagnosis, treated)])
    finally:
        replays.close()
    best = best_of(found.eager, found.as_it_was, found.cured, found.noise)
    changes = found.best.changes if best == CURED else {}
    needed = treated if best == CURED and treated and _has_fixes(treated, found.best) else None
    report = CureReport(
        graphdoctor_version=__version__,
        environment=diagnosis.recording.environment,
        target=diagnosis.recording.target.model_copy(update={"compile_arguments": request.spec.compile_arguments()}),
        text=sentence(found.eager, found.as_it_was, found.cured, best, found.steps, found.call_count),
        best=best,
        eager=found.eager,
        as_it_was=found.as_it_was,
        cured=found.cured,
        steps=found.steps,
        diff=needed.treatment.diff if needed else "",
        arguments={} if best in (None, EAGER) else VariantSpec(best, changes).arguments(request.spec),
        compile_lines=compile_lines(changes, request.spec, diagnosis.recording.target.blocks or ()),
        settings=needed.treatment.settings if needed else (),
        calls=needed.treatment.calls if needed else (),
        treatment=treated.treatment if treated else None,
        noise=found.noise,
        verified_calls=found.call_count,
        budget_s=asked.budget_s,
        spent_s=time.monotonic() - began,
        gaps=diagnosis.recording.gaps,
    )
    (recording / CURE_FILE).write_text(json_of(report), encoding="utf-8")
    return Cure(report, needed.changes if needed else ())


def _treated(request: Request, recording: Path, asked: Curing, setup: Setup, began: float) -> SearchResult:
    """Fixes that were verified; what they do to the call's time is measured beside everything else.

    Compiling each block by itself is a candidate of its own.
    """
    from graphdoctor.fixes.verdicts import REPEATED_BLOCKS

    selection = replace(asked.selection, ignore=(*asked.selection.ignore, REPEATED_BLOCKS))
    trials = Trials(is_unsafe_tried=asked.is_unsafe_tried, timing=Timing.none)
    deadline = began + _SHARE_OF_FIXES * asked.budget_s
    return try_fixes(request, recording, trials, selection, setup, asked.check, deadline=deadline)


def _has_fixes(treated: SearchResult, way: Way | None = None) -> bool:
    """Whether fixes were verified, and a way has them."""
    return treated.treatment.after is not None and (way is None or way.program == treated.program)


def _candidates(request: Request, diagnosis: Diagnosis, treated: SearchResult | None) -> Iterator[Candidate]:
    """What to try, in order: the program's own trouble first, because every mode suffers from it."""
    from graphdoctor.studies.bench.variants import variants_of
    from graphdoctor.studies.cure.cure import Candidate

    base = request.spec
    if treated is not None and _has_fixes(treated):
        yield Candidate("fixes", {}, treated.program)
    if base.backend != "inductor":
        return
    # But for eager mode and the user's own.
    for variant in variants_of((), base, is_all=True, has_blocks=bool(diagnosis.recording.target.blocks))[2:]:
        yield Candidate(variant.name, variant.changes, needs_cuda=variant.needs_cuda(base))
