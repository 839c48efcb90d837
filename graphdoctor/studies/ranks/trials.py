"""Tries what the findings of a job suggest: the same script runs again as it is, with one thing
changed.

The untouched script runs once more after each, so that each trial stands between two runs that it
can be compared with.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.errors import GraphDoctorError
from graphdoctor.executors.choice import executor_for
from graphdoctor.facts.base import grouped, values_of
from graphdoctor.facts.job import Job, JobFinding, JobRemedyKind, JobTrial, JobVerdict
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
"""How much a loss may differ, relative to itself: other kernels round otherwise, and steps add that
up."""
_DDP = {"GD125", "GD129"}
_DYNAMIC = Setting(name="torch._dynamo.config.assume_static_by_default", value=False)
"""What ``dynamic=True`` does (``torch/_dynamo/eval_frame.py``, 2.13)."""
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
        """What the script is run with."""
        set_to = self.setting
        settings = [] if set_to is None or set_to.value is None else [(set_to.name, set_to.value)]
        return RunChange(settings=settings, compile_inside_ddp=self.kind == "compile_inside_ddp")


@dataclass(frozen=True)
class Ran:
    """One more run of the script; ``job`` is None if there is no report, ``reason`` if it didn't
    fail.
    """

    status: int
    job: Job | None
    reason: str | None = None


def remedies_of(job: Job) -> tuple[Remedy, ...]:
    """What the findings of a job suggest that can be tried, the worst finding's first."""
    suggested = ((finding.code, each) for finding in job.findings for each in _suggested(finding))
    found = grouped(((kind, setting), (title, code)) for code, (kind, title, setting) in suggested)
    remedies = [
        Remedy(kind, own[0][0], tuple(dict.fromkeys(code for _, code in own)), setting)
        for (kind, setting), own in found.items()
    ]
    return tuple(remedies[:_MAX_TRIALS])


def _suggested(finding: JobFinding) -> Iterator[tuple[JobRemedyKind, str, Setting | None]]:
    if finding.code in _DDP and any(
        "DistributedDataParallel(" in fix.title for fix in finding.fixes
    ):
        yield "compile_inside_ddp", next(fix.title for fix in finding.fixes), None
    for fix in finding.fixes:
        if (
            fix.setting is not None
            and fix.setting.value is not None
            and not fix.setting.drops_output
        ):
            yield "setting", fix.title, fix.setting
        elif fix.place is not None and (fix.place.where, fix.snippet) == (
            "compile",
            "dynamic=True",
        ):
            yield "dynamic", fix.title, _DYNAMIC


def try_remedies(
    remedies: Sequence[Remedy],
    job: Job,
    run_again: Callable[[RunChange, str], Ran],
    on_trial: Callable[[str], None],
) -> tuple[JobTrial, ...]:
    """Try each remedy by itself."""
    trials: list[JobTrial] = []
    before = job
    for number, remedy in enumerate(remedies, start=1):
        on_trial(f"trial {number} of {len(remedies)}: {remedy.title}")
        ran = run_again(remedy.change, f"{number}-changed")
        on_trial(f"trial {number} of {len(remedies)}: the untouched script, to compare with")
        after = run_again(UNTOUCHED, f"{number}-untouched").job or before
        trials.append(judged(remedy, ran, before, after))
        before = after
    return tuple(trials)


def judged(remedy: Remedy, ran: Ran, before: Job, after: Job) -> JobTrial:
    """What one trial showed, between two runs of the untouched script."""
    now, had = ran.job, _codes(before)
    tried = values_of(remedy, "kind", "title", "setting", "codes") | {"status": ran.status}
    if now is None or ran.status != (before.exit.status or 0):
        # What a rank of it reports that none did before; else what its end says.
        raised = (
            f"{finding.code} {finding.message}"
            for finding in (() if now is None else now.findings)
            if finding.severity == "error" and finding.code not in had
        )
        reason = next(raised, ran.reason)
        return JobTrial(verdict="failed", reason=reason, **tried)
    has = _codes(now)
    new = tuple(sorted({code for code in has if has[code] in _SERIOUS} - set(had)))
    count, difference = _losses(before, now, after)
    verdict: JobVerdict = "verified" if count else "unproven"
    # Others needn't go if the worst one does.
    if remedy.codes[0] in has:
        verdict = "no effect"
    elif new:
        verdict = "makes it worse"
    elif difference is not None and difference > _TOLERANCE:
        verdict = "changes results"
    steps = step_us(before), step_us(after)
    tried |= {field: _span(now, field) for field in ("graphs", "break_sites", "compiles")}
    return JobTrial(
        verdict=verdict,
        agree=now.first_divergence is None,
        gone=tuple(sorted(set(had) - set(has))),
        new=new,
        step_us=step_us(now),
        step_us_around=None if steps[0] is None or steps[1] is None else (steps[0], steps[1]),
        loss_count=count,
        loss_difference=difference,
        **tried,
    )


def _codes(job: Job) -> dict[str, str]:
    return {finding.code: finding.severity for finding in reversed(job.findings)}


def _span(job: Job, field: str) -> tuple[int, int]:
    numbers = [getattr(rank.summary, field) for rank in job.ranks]
    return min(numbers), max(numbers)


def step_us(job: Job) -> float | None:
    """The time of a step on the slowest rank; None if a rank made too few."""
    times = [None if rank.steps is None else rank.steps.step_us for rank in job.ranks]
    known = [time for time in times if time is not None]
    return max(known) if known and len(known) == len(times) else None


def _losses(before: Job, now: Job, after: Job) -> tuple[int, float | None]:
    steady, difference = _difference(before, after), _difference(before, now)
    if steady is None or steady > _TOLERANCE or difference is None:
        return 0, None
    return sum(len(losses) for _, losses in _losses_of(now)), difference


def _losses_of(job: Job) -> list[tuple[int, Sequence[float]]]:
    return [(rank.rank, rank.steps.losses) for rank in job.ranks if rank.steps is not None]


def _difference(one: Job, other: Job) -> float | None:
    """The largest relative difference of two losses; None if the runs don't have the same number of
    them.
    """
    mine, theirs = _losses_of(one), _losses_of(other)
    if [(rank, len(losses)) for rank, losses in mine] != [
        (rank, len(losses)) for rank, losses in theirs
    ]:
        return None
    each = zip(mine, theirs, strict=True)
    pairs = [pair for (_, left), (_, right) in each for pair in zip(left, right, strict=True)]
    return max((abs(a - b) / max(abs(a), abs(b), 1e-12) for a, b in pairs), default=None)


def run_again(
    change: RunChange,
    name: str,
    *,
    script: Script,
    recording: Path,
    python: str | None,
    timeout_s: float,
) -> Ran:
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
    return Ran(ended.status, job, ended.reason)
