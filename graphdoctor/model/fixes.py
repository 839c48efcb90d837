"""Fixes that were tried: what each did to the same calls, which are verified, and what these do together."""

from __future__ import annotations

from typing import Literal

from graphdoctor.model.base import Fact
from graphdoctor.model.trials import Comparison

FixKind = Literal["code", "config", "call"]
"""An edit of source, of a torch config value, or of how the target is compiled and called."""

Verdict = Literal["verified", "no effect", "changes results", "failed", "unproven", "not tried"]
"""``verified``: the finding is gone (or better contained, where ``reason`` says so) and all results are those of the
untouched program; ``unproven``: gone, but the program's results differ from run to run or between eager and compiled
mode before any fix, so nothing can be said about them."""

UntriedCause = Literal["unsafe", "unfinished_run", "not_requested", "not_repeatable"]
"""Why a fix wasn't tried: it may change results for other inputs and nobody asked for such fixes; the recorded run
didn't finish; trials are off; the run couldn't be repeated."""


class Measures(Fact):
    """The counts of one run; each as in ``Summary``."""

    break_sites: int
    """Distinct lines that graph-break records point to."""
    skipped_frames: int
    """Distinct frames that torch gave up."""
    graphs: int
    """Graphs handed to the backend."""
    compiles: int
    """Compiles that got guarded code."""
    recompiles: int
    """Compiles of code that had a cache entry already."""
    frames_over_limit: int
    """Distinct frames that hit the recompile limit."""
    coverage: float | None = None
    """Share, 0 to 1, of the tensor operations of a steady call that ran in a compiled graph."""
    compile_time_s: float | None = None
    """Seconds spent compiling."""


class PairedTime(Fact):
    """The steady call of two programs, timed in turns by two processes side by side."""

    backend: str
    """The backend of both."""
    before_us: float
    """Median of the program without the fix, microseconds."""
    after_us: float
    """Median of the program with it, microseconds."""
    ratio: float
    """Median of after over before, each turn by itself; below 1 is quicker."""
    ratio_low: float
    """Lower quartile of the turns' ratios."""
    ratio_high: float
    """Upper quartile."""
    turns: int
    """How many turns were taken."""


class TriedFix(Fact):
    """One fix and what its trial showed."""

    title: str
    """One imperative sentence."""
    kind: FixKind
    """What it changes."""
    snippet: str | None = None
    """Lines to write, for a config value or a call."""
    diff: str | None = None
    """Unified diff, for an edit of source."""
    is_safe: bool
    """Keeps results as they are for every input."""
    code: str
    """Rule code of the finding that it is meant for."""
    fingerprint: str
    """That finding, in the program that the fix was tried on."""
    place: str
    """``file:line`` of it, in the lines of that program."""
    round: int
    """From 1: each round builds on the verified fixes of those before."""
    is_on_untouched: bool
    """It was tried on the untouched program, no other fix applied."""
    verdict: Verdict
    """What the trial showed."""
    reason: str | None = None
    """Why, as a clause: what differs, what failed, what still breaks."""
    untried_cause: UntriedCause | None = None
    """Why it wasn't tried; None if it was."""
    before: Measures | None = None
    """The program that it was tried on; None when not tried."""
    after: Measures | None = None
    """The same with the fix; None when not tried or failed."""
    sites_gone: tuple[str, ...] = ()
    """Break sites that it took away, ``file:line (GB0059)`` in lines of the program before."""
    sites_new: tuple[str, ...] = ()
    """Break sites that showed with it, in lines of the program after: those behind a break are seen once it is gone."""
    compared: Comparison | None = None
    """Its results against those of the untouched program without torch.compile."""
    times: tuple[PairedTime, ...] = ()
    """Steady calls with and without it; empty when not timed."""
    is_applied: bool = False
    """One of the set that was tried together at last."""
    recording: str | None = None
    """The trial's recording, a folder below ``fixes/`` in the first one's."""


class LeftFinding(Fact):
    """What is still there with all verified fixes."""

    code: str
    """Rule code."""
    place: str
    """``file:line``."""
    message: str
    """The finding's sentence."""
    reason: str
    """Why no fix took it away."""


class Treatment(Fact):
    """All that was tried on one target, and what the verified fixes do together."""

    tried: tuple[TriedFix, ...]
    """In order."""
    before: Measures
    """The untouched program."""
    after: Measures | None = None
    """With all verified fixes; None when there is none."""
    diff: str = ""
    """All edits of source together, a unified diff."""
    settings: tuple[str, ...] = ()
    """Config lines of the set."""
    calls: tuple[str, ...] = ()
    """Changes of the call of the set."""
    compared: Comparison | None = None
    """Results with all of them against the untouched program without torch.compile."""
    times: tuple[PairedTime, ...] = ()
    """Steady calls with all of them and with none."""
    gone: tuple[str, ...] = ()
    """Fingerprints of findings of the untouched program that are gone with all verified fixes."""
    left: tuple[LeftFinding, ...] = ()
    """Findings that are still there."""
    trial_count: int = 0
    """Replays that were made, those of the untouched program included."""
    notes: tuple[str, ...] = ()
    """What limits the verdicts: results that differ from run to run, trials left out, times that are missing."""
