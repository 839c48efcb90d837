"""The facts of a survey: many targets, each compiled in several ways, one row for each pair.

A **piece** is one target with one variant; what came of it is a ``SurveyRow``. ``SurveyReport`` is
the JSON document of ``graphdoctor survey``; the same rows are a Parquet file
(``studies/survey/table.py``).
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal, get_args

from .base import Document, Fact
from .diagnosis import Severity
from .fixes import Verdict

SurveyStatus = Literal[
    "ok",
    "wrong",
    "not_compiled",
    "compile_failed",
    "eager_failed",
    "no_inputs",
    "load_failed",
    "crashed",
    "timeout",
    "out_of_memory",
    "lost",
    "skipped",
]
"""Outcome of a piece. ``ok``: it compiled and ran; ``wrong``: its results differ from eager mode's
by more than rounding; ``not_compiled``: it ran, but torch compiled nothing of it;
``compile_failed``: it works in eager mode, but not with torch.compile; ``eager_failed``: it doesn't
work in eager mode either; ``no_inputs``: no arguments were found for it; ``load_failed``: it can't
be imported or made; ``crashed``: its process was ended by a signal, or ended itself; ``timeout``
and ``out_of_memory``: it was stopped at its limit, or ran out; ``lost``: nothing came back, because
graphdoctor's own process or the cluster's node ended; ``skipped``: it can't be run here, such as on
CUDA where there is none."""

SURVEY_STATUSES: tuple[SurveyStatus, ...] = get_args(SurveyStatus)
"""In the order in which tables show them."""

SurveyStage = Literal[
    "prepare",
    "load",
    "eager",
    "dynamo",
    "aot",
    "inductor",
    "backend",
    "call",
    "bench",
    "export",
    "fix",
]
"""Activity when a piece failed. ``prepare``: a catalog wrote its program; ``load``: the target was
imported and made; ``eager``: a call without torch.compile; ``dynamo``, ``aot``, ``inductor``,
``backend``: that part of the compiler, ``backend`` being one that isn't Inductor; ``call``: a
compiled call, or what is measured after it; ``bench``, ``export``, ``fix``: what was asked for
beyond it."""

RAN: tuple[SurveyStatus, ...] = ("ok", "wrong", "not_compiled")
"""Statuses of pieces that made all of their calls. What is counted of others is what came until the
end that came too early, not what the program would have."""

_BEFORE_TORCH: tuple[SurveyStage, ...] = ("prepare", "load", "eager")
_NEVER_JUDGED: tuple[SurveyStatus, ...] = (
    "eager_failed",
    "no_inputs",
    "load_failed",
    "lost",
    "skipped",
)


class SurveyCause(Fact):
    """One finding of a row, short enough for a table of hundreds of rows."""

    code: str
    """Rule code."""
    rule: str
    """The rule's name."""
    severity: Severity
    """``error``, ``warning`` or ``info``."""
    message: str
    """One sentence."""
    file: str
    """Path: in the survey's folder relative to it, of an installed package from the package on."""
    line: int
    """1-based line."""
    function: str
    """Qualified name of the function."""
    text: str | None = None
    """The line's text, without indentation."""
    package: str | None = None
    """Owning package; None for the user's own code."""
    count: int = 1
    """Number of times it happened."""
    call_us: float | None = None
    """Microseconds that it costs each steady call; None if unknown."""
    compile_s: float | None = None
    """Seconds of compiling that it costs; None if unknown."""
    eager_frames: int = 0
    """Functions that run eagerly because of it, in whole or for the rest."""
    fix: str | None = None
    """Title of its first fix, of a verified one if there is one; None if there is none."""
    fix_verdict: Verdict | None = None
    """Verdict of a trial of that fix; None if there is no fix."""
    diff: str | None = None
    """The verified fix as a diff; None if there is none, or it is no edit."""
    fingerprint: str
    """Stable identity of the finding."""

    @property
    def location(self) -> str:
        """File and line, as ``model.py:12``."""
        return f"{self.file}:{self.line}"


class SurveyRow(Fact):
    """One target with one variant."""

    name: str
    """Name of the target; no two targets of a survey share one."""
    target: str
    """The target's text, such as ``models/net.py:Net``."""
    family: str | None = None
    """The group that it belongs to; None for none."""
    variant: str
    """The variant's name; no two variants of a survey share one."""
    status: SurveyStatus
    """Outcome: ``ok``, or what went wrong."""
    stage: SurveyStage | None = None
    """Activity when it failed; None where nothing did."""
    error: str | None = None
    """Reason of the failure, a sentence or the exception's own words; None where nothing did."""
    error_type: str | None = None
    """Qualified type of the exception; None if it was none."""
    traceback: str | None = None
    """The exception's traceback, cut in the middle if it is long."""
    torch: str | None = None
    """torch's version with its build tag; None if it was never imported."""
    library: str | None = None
    """Name and version of the library of a catalog's target, such as ``transformers 5.23.0``."""
    python: str | None = None
    """Version of Python."""
    device: str | None = None
    """Device it ran on: ``cpu``, or the name of the CUDA device."""
    host: str | None = None
    """Name of the machine."""
    dtype: str | None = None
    """The dtype that was asked for; None for the target's own."""
    batch: int | None = None
    """The batch size that was asked for; None for that of the target's own calls."""
    calls: int | None = None
    """Calls that were made, compiled, but for those that measure."""
    break_sites: int | None = None
    """Distinct lines that graph-break records point to; None if unknown, as for all counts."""
    skipped_frames: int | None = None
    """Distinct frames that torch skipped."""
    recompiles: int | None = None
    """Compiles of a function that already had a cache entry."""
    frames_over_limit: int | None = None
    """Distinct frames that hit the recompile limit."""
    graphs: int | None = None
    """Graphs handed to the backend."""
    coverage: float | None = None
    """Share, 0 to 1, of the tensor operations of a steady call that ran in compiled graphs."""
    compile_s: float | None = None
    """Seconds spent compiling in the recorded run, which is under the backend ``eager`` where the
    row has a thorough bench."""
    compile_cold_s: float | None = None
    """Seconds that compiling adds to the calls in a new process with an empty cache on disk; of a
    bench."""
    compile_warm_s: float | None = None
    """As ``compile_cold_s``, in a second process, which finds the first one's cache."""
    call_us: float | None = None
    """Median of steady compiled calls, in microseconds; of a bench."""
    eager_us: float | None = None
    """Median of the same call in eager mode, in microseconds; of a bench."""
    speedup: float | None = None
    """Speedup over eager mode; of a bench."""
    speedup_low: float | None = None
    """Lower end of the speed-up's 95% confidence interval."""
    speedup_high: float | None = None
    """Upper end of the speed-up's 95% confidence interval."""
    is_noisy: bool | None = None
    """The machine was too busy for small differences to be seen; None without a bench."""
    noise: float | None = None
    """Eager mode beside eager mode in another process, 1 on a quiet machine; None without a
    bench."""
    peak_memory_bytes: int | None = None
    """The most memory during steady calls, of torch's allocator on CUDA and resident on a CPU;
    without a bench, the most that the whole process had resident."""
    correct: bool | None = None
    """Its results are eager mode's, but for rounding; None if they weren't compared."""
    exports: bool | None = None
    """``torch.export`` exports it and the program computes the same; None if it wasn't tried."""
    export_error: str | None = None
    """Reason why it doesn't export; None where it does or wasn't tried."""
    export_causes: tuple[SurveyCause, ...] = ()
    """Problems that ``torch.export`` stops at, strict or not; empty where it exports, wasn't tried,
    or torch named no cause."""
    is_steady: bool | None = None
    """It stops compiling when its calls are repeated; None if unknown."""
    causes: tuple[SurveyCause, ...] = ()
    """Its findings, in the order of its report."""
    seconds: float
    """Wall time of the piece, all attempts."""
    attempts: int = 1
    """Number of runs."""
    earlier: tuple[SurveyStatus, ...] = ()
    """Outcomes of the attempts before the last one."""
    started: str | None = None
    """When the last attempt began, in UTC, as ``2026-11-23T01:20:00Z``."""
    fingerprint: str
    """A digest of what the row depends on: target, files that it read, variant, torch, options."""
    command: str | None = None
    """The command line that explains this piece on its own; None if there is none."""
    report: str | None = None
    """Path of its own page, relative to the survey's folder; None if there is none."""
    gaps: tuple[str, ...] = ()
    """Measurements that failed, in sentences."""

    @property
    def key(self) -> tuple[str, str]:
        """Return the key that matches rows of two surveys."""
        return self.name, self.variant

    @property
    def is_judged(self) -> bool:
        """Return whether it says anything about torch.compile: what fails before torch compiles, or
        elsewhere, doesn't.
        """
        return self.status not in _NEVER_JUDGED and self.stage not in _BEFORE_TORCH

    @property
    def is_passed(self) -> bool:
        """Return whether it compiles, runs, and is right as far as that was compared."""
        return self.status == "ok"

    @property
    def is_whole(self) -> bool | None:
        """Return whether it compiles without breaks, skipped frames and functions over their limit;
        None if it didn't pass.
        """
        if not self.is_passed or self.break_sites is None:
            return None
        return not (self.break_sites or self.skipped_frames or self.frames_over_limit)

    @property
    def speed(self) -> tuple[float, float, float] | None:
        """The speed-up between the ends of its interval, all above 0; None if it isn't known."""
        low, ratio, high = self.speedup_low, self.speedup, self.speedup_high
        if low is None or ratio is None or high is None or min(low, ratio, high) <= 0:
            return None
        return low, ratio, high

    @property
    def is_flaky(self) -> bool:
        """Return whether its attempts came out differently."""
        return any(status != self.status for status in self.earlier)

    @property
    def top(self) -> SurveyCause | None:
        """The first finding."""
        return self.causes[0] if self.causes else None

    @property
    def export_top(self) -> SurveyCause | None:
        """Return what ``torch.export`` stops at first."""
        return self.export_causes[0] if self.export_causes else None

    @property
    def top_fix(self) -> str | None:
        """The first finding's fix, if a trial verified it."""
        return self.top.fix if self.top is not None and self.top.fix_verdict == "verified" else None


class SurveyVariant(Fact):
    """One way to compile all targets."""

    name: str
    settings: dict[str, object] = field(default_factory=dict)
    """Changes: fields of a run, such as ``mode`` and ``dtype``; empty for torch.compile without
    arguments."""
    python: str | None = None
    """The interpreter that it runs with; None for that of the survey."""
    torch: str | None = None
    """The version of torch there; None if unknown."""


class GeometricMean(Fact):
    """The geometric mean of speed-ups."""

    ratio: float
    """The mean."""
    low: float
    """Lower end of its 95% confidence interval: how well it was measured on these targets; others
    may differ."""
    high: float
    """Upper end."""
    count: int
    """Number of speed-ups it is made of."""


class SurveyGroup(Fact):
    """The rows of one variant, of one family or of all."""

    variant: str
    family: str | None = None
    """The family; None for all of them."""
    pieces: int
    """Rows."""
    judged: int
    """Of these, the ones that say something about torch.compile."""
    passed: int
    """Of these, the ones that compile, run and are right."""
    whole: int
    """Of these, the ones without breaks, skipped frames and functions over their limit."""
    statuses: dict[str, int]
    """Rows by status, those that occur."""
    codes: dict[str, int] = field(default_factory=dict)
    """Rows by the rule codes of their findings, a row once for each."""
    speedup: GeometricMean | None = None
    """Over the rows that passed and were timed; None if there are none."""
    speedup_shared: GeometricMean | None = None
    """The same over the targets that pass and are timed under every variant, so that variants can
    be compared; None if there is one variant, or no such target."""
    faster: int = 0
    """Rows that are measurably faster than eager mode."""
    slower: int = 0
    compile_cold_s: float | None = None
    """Median over the rows that have it."""
    coverage: float | None = None
    """Mean over the rows that have it."""

    @property
    def pass_rate(self) -> float | None:
        """Share, 0 to 1, of judged rows that passed; None if none was judged."""
        return self.passed / self.judged if self.judged else None


class SharedCause(SurveyCause):
    """A cause that findings of one or many targets share: one rule in one function, as most of them
    have it.

    ``severity`` is the worst of the findings', and ``count``, ``call_us``, ``compile_s`` and
    ``eager_frames`` are added up over all rows in which they are known. Functions that only one
    target has are one cause for each rule: no fix mends more than one of them.
    """

    lines: tuple[int, ...]
    """Distinct lines in that function, in order."""
    functions: int = 1
    """Number of functions that have it: more than one only if each is of one target."""
    places: tuple[str, ...] = ()
    """File and line of all of them, as ``model.py:12``, those of one function together."""
    targets: tuple[str, ...]
    """Names of the targets that have it."""
    rows: int
    fix_verified: tuple[str, ...] = ()
    """Names of the targets on which a trial verified the fix."""


class SurveySummary(Fact):
    """All rows added up."""

    groups: tuple[SurveyGroup, ...]
    """For each variant, all rows first, then each family that has a name."""
    causes: tuple[SharedCause, ...]
    """Causes that cost most over all targets, the most costly first; at most ten."""
    cause_count: int
    """Number of all shared causes."""
    export_causes: tuple[SharedCause, ...] = ()
    """Problems that ``torch.export`` stops at, those of most targets first; at most ten. One is of
    one rule and one message."""
    export_cause_count: int = 0
    """Number of these in all."""
    pieces_per_hour: float | None = None
    """Rows by the wall time of the survey; None if that is unknown."""


class SurveyReport(Document):
    """Result of ``graphdoctor survey``."""

    name: str
    """The survey's name: that of its file, pattern or library."""
    started: str
    """When it began, in UTC, as ``2026-11-23T01:20:00Z``."""
    seconds: float | None = None
    """Wall time of this run, without rows that were kept from an earlier one; None if it was
    interrupted by force."""
    options: dict[str, object] = field(default_factory=dict)
    """Measurements and limits, such as ``bench`` and ``timeout_s``."""
    shard: str | None = None
    """Part of the pieces it has, as ``3/8``; None for all."""
    engine: str | None = None
    """Executor it ran on, such as ``2 processes``; None if that is unknown."""
    variants: tuple[SurveyVariant, ...]
    """The ways to compile, in order."""
    rows: tuple[SurveyRow, ...]
    """One for each finished piece, in the order of the list."""
    planned: int
    """Number of pieces of the survey; more than there are rows if it was interrupted."""
    kept: int = 0
    """Number of rows that an earlier run made."""
    summary: SurveySummary
    notes: tuple[str, ...] = ()
