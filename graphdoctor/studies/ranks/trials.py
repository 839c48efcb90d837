"""Tries what the findings of a job suggest: the same script runs again as it is, with one thing
changed.

The untouched script runs once more after each, so that each trial stands between two runs that it
can be compared with.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.local import executor_for
from graphdoctor.facts.base import values_of
from graphdoctor.facts.job import Job, JobRemedyKind, JobTrial, JobVerdict
from graphdoctor.facts.run import Setting
from graphdoctor.probe.wire import RunChange
from graphdoctor.studies.ranks.job import job_report
from graphdoctor.trace.folder import open_folder
from graphdoctor.trials.launch.child import interpreter
from graphdoctor.trials.launch.script import Script, run_script

UNTOUCHED = RunChange(settings=[], compile_inside_ddp=False)
"""The script as it is, whose steps are timed."""

_FOLDER = "trials"
_MAX_TRIALS = 6
_TOLERANCE = 1e-3
"""Largest relative difference of a loss: other kernels round otherwise, and steps add that up."""
_SERIOUS = ("error", "warning")


@dataclass(frozen=True)
class Remedy:
    """Something to try, for findings of these codes."""

    kind: JobRemedyKind
    title: str
    codes: tuple[str, ...]
    setting: Setting | None = None

    @property
    def change(self) -> RunChange:
        """The change of the script's run."""
        setting = self.setting
        settings = (
            [] if setting is None or setting.value is None else [(setting.name, setting.value)]
        )
        return RunChange(settings=settings, compile_inside_ddp=self.kind == "compile_inside_ddp")


@dataclass(frozen=True)
class Rerun:
    """One more run of the script; ``job`` is None if there is no report, ``reason`` if it didn't
    fail.
    """

    status: int
    job: Job | None
    reason: str | None = None


def remedies_of(job: Job) -> tuple[Remedy, ...]:
    """Return what the findings of a job suggest that can be tried, the worst finding's first."""
    suggested: dict[tuple[JobRemedyKind, Setting | None], list[tuple[str, str]]] = {}
    for finding in job.findings:
        for fix in finding.fixes:
            setting, named = fix.setting, (fix.title, finding.code)
            if fix.compiles_inside_ddp:
                suggested.setdefault(("compile_inside_ddp", None), []).append(named)
            if setting is not None and setting.value is not None and not setting.drops_output:
                suggested.setdefault(("setting", setting), []).append(named)
    remedies = (
        Remedy(kind, named[0][0], tuple(dict.fromkeys(code for _, code in named)), setting)
        for (kind, setting), named in suggested.items()
    )
    return tuple(islice(remedies, _MAX_TRIALS))


def try_remedies(
    remedies: Sequence[Remedy],
    job: Job,
    run_again: Callable[[RunChange, str], Rerun],
    on_trial: Callable[[str], None],
) -> tuple[JobTrial, ...]:
    """Try each remedy by itself."""
    trials = []
    before = job
    for number, remedy in enumerate(remedies, start=1):
        name = f"trial {number} of {len(remedies)}"
        on_trial(f"{name}: {remedy.title}")
        rerun = run_again(remedy.change, f"{number}-changed")
        on_trial(f"{name}: the untouched script, to compare with")
        after = run_again(UNTOUCHED, f"{number}-untouched").job or before
        trials.append(judged(remedy, rerun, before, after))
        before = after
    return tuple(trials)


def judged(remedy: Remedy, rerun: Rerun, before: Job, after: Job) -> JobTrial:
    """Judge one trial, between two runs of the untouched script."""
    job, old_codes = rerun.job, {finding.code for finding in before.findings}
    values = values_of(remedy, "kind", "title", "setting", "codes") | {"status": rerun.status}
    if job is None or rerun.status != (before.exit.status or 0):
        # What a rank of it reports that none did before; else what its end says.
        errors = (
            f"{finding.code} {finding.message}"
            for finding in (() if job is None else job.findings)
            if finding.severity == "error" and finding.code not in old_codes
        )
        return JobTrial(verdict="failed", reason=next(errors, rerun.reason), **values)
    codes = {finding.code for finding in job.findings}
    serious = {finding.code for finding in job.findings if finding.severity in _SERIOUS}
    new = tuple(sorted(serious - old_codes))
    loss_count, difference = _losses(before, job, after)
    verdict: JobVerdict = "verified" if loss_count else "unproven"
    # Others needn't go if the worst one does.
    if remedy.codes[0] in codes:
        verdict = "no effect"
    elif new:
        verdict = "makes it worse"
    elif difference is not None and difference > _TOLERANCE:
        verdict = "changes results"
    for field in ("graphs", "break_sites", "compiles"):
        numbers = [getattr(rank.summary, field) for rank in job.ranks]
        values[field] = min(numbers), max(numbers)
    first_us, last_us = step_us(before), step_us(after)
    return JobTrial(
        verdict=verdict,
        agree=job.first_divergence is None,
        gone=tuple(sorted(old_codes - codes)),
        new=new,
        step_us=step_us(job),
        step_us_around=None if first_us is None or last_us is None else (first_us, last_us),
        loss_count=loss_count,
        loss_difference=difference,
        **values,
    )


def step_us(job: Job) -> float | None:
    """Return the time of a step on the slowest rank; None if a rank made too few."""
    times = [None if rank.steps is None else rank.steps.step_us for rank in job.ranks]
    timed = [time for time in times if time is not None]
    return max(timed) if timed and len(timed) == len(times) else None


def _losses(before: Job, job: Job, after: Job) -> tuple[int, float | None]:
    """Return how many losses were compared, and their largest relative difference."""
    untouched, difference = _difference(before, after), _difference(before, job)
    if untouched is None or untouched > _TOLERANCE or difference is None:
        return 0, None
    return sum(rank.steps is not None and len(rank.steps.losses) for rank in job.ranks), difference


def _difference(job: Job, other: Job) -> float | None:
    """Return the largest relative difference of two losses; None if the jobs don't have the same
    number of them.
    """
    losses, other_losses = (
        [
            (rank.rank, at, loss)
            for rank in job.ranks
            if rank.steps
            for at, loss in enumerate(rank.steps.losses)
        ]
        for job in (job, other)
    )
    if [key[:2] for key in losses] != [key[:2] for key in other_losses]:
        return None
    pairs = [(a, b) for (*_, a), (*_, b) in zip(losses, other_losses, strict=True)]
    return max((abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in pairs), default=None)


def run_again(
    change: RunChange,
    name: str,
    *,
    script: Script,
    recording: Path,
    python: str | None,
    timeout_s: float,
) -> Rerun:
    """Run the script again, in the folder of the first recording.

    ``python``: the interpreter asked for, or None for ours.
    """
    folder = recording / _FOLDER / name
    folder.mkdir(parents=True)
    apart = Path(os.getcwd())  # noqa: PTH109 - where the script runs anyway
    ended = run_script(
        script, folder, python=interpreter(python), timeout_s=timeout_s, apart=apart, change=change
    )
    job = None
    with contextlib.suppress(GraphDoctorError):
        ranks = open_folder(folder).ranks
        job = job_report(folder, ranks, executor_for()) if len(ranks) > 1 else None
    return Rerun(ended.status, job, ended.reason)
