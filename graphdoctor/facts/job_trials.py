"""What a job did when it was run again with one thing changed."""

from __future__ import annotations

from typing import Literal

from graphdoctor.facts.base import Fact
from graphdoctor.facts.run import Setting

_LEAST = 1.05
"""A job is timed twice beside each trial, not in turns."""

JobRemedyKind = Literal["setting", "dynamic", "compile_inside_ddp"]
"""What is changed. ``setting``: a torch setting; ``dynamic``: the setting that ``dynamic=True`` stands for, in all
calls of torch.compile that don't say otherwise; ``compile_inside_ddp``: torch.compile of a DistributedDataParallel
compiles the module inside."""

JobVerdict = Literal["verified", "unproven", "no effect", "makes it worse", "changes results", "failed"]
"""``verified``: what it is for is gone on all ranks, nothing came in its place, and the first losses are the same;
``unproven``: the same, but the losses couldn't be compared; ``no effect``: it isn't gone; ``makes it worse``: other
errors or warnings came; ``changes results``: the losses differ; ``failed``: the job ended otherwise."""


class JobTrial(Fact):
    """One suggestion, tried on the whole job."""

    kind: JobRemedyKind
    """What was changed."""
    title: str
    """The suggestion."""
    setting: Setting | None = None
    """The torch setting; None for another kind."""
    codes: tuple[str, ...]
    """Codes of the findings that it is for."""
    verdict: JobVerdict
    """What it showed."""
    status: int
    """The job's exit status."""
    reason: str | None = None
    """Why it failed; None if it didn't."""
    agree: bool | None = None
    """Whether all ranks compiled the same; None if the job failed."""
    gone: tuple[str, ...] = ()
    """Codes of findings, of any kind, that no rank has any more."""
    new: tuple[str, ...] = ()
    """Codes of errors and warnings that the job didn't have."""
    graphs: tuple[int, int] | None = None
    """Graphs of a rank, the least and the most; None if the job failed."""
    break_sites: tuple[int, int] | None = None
    """Break sites of a rank, the least and the most; None if the job failed."""
    compiles: tuple[int, int] | None = None
    """Compiles of a rank, the least and the most; None if the job failed."""
    step_us: float | None = None
    """Microseconds of a step on the slowest rank; None if it made too few."""
    step_us_around: tuple[float, float] | None = None
    """The same of the untouched job, right before and right after; None if it made too few."""
    loss_count: int = 0
    """Losses that were compared: those of the first backward passes of each rank. 0 if two runs of the untouched job
    don't agree, as without a seed."""
    loss_difference: float | None = None
    """The largest difference of two of them, relative to the larger; None if none were compared."""

    @property
    def notable(self) -> float:
        """How many times faster or slower a step must be to say so: more than two runs of the untouched job differ."""
        around = self.step_us_around
        return _LEAST if around is None else max(_LEAST, max(around) / min(around))

    @property
    def speedup(self) -> tuple[float, float] | None:
        """How many times faster a step is, compared with either run of the untouched job, the smaller factor first."""
        if self.step_us is None or self.step_us_around is None:
            return None
        low, high = sorted(around / self.step_us for around in self.step_us_around)
        return low, high
