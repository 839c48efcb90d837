"""Ranks of one job, side by side: agreement, divergence, waiting.

A job is a run of several ranks. Each rank is a recording of its own, with a diagnosis of its own;
nothing here is a sum over ranks. ``Job`` is a JSON document.
"""

from __future__ import annotations

from typing import Literal

from .base import Document, Fact
from .counts import Counts
from .diagnosis import Finding
from .evidence import CacheState, CompileMark, RecordCount
from .recording import CaptureGap, CompileOutcome, Environment, TargetInfo
from .run import ProbeExit
from .stack import StackEntry

Aspect = Literal[
    "presence", "outcome", "operations", "sizes", "collectives", "causes", "guards", "cache"
]
"""In what ranks differ at one compile. ``presence``: some ranks don't have it; ``outcome``: how it
ended; ``operations``: the graph's operations; ``sizes``: only its shapes and numbers;
``collectives``: what Inductor scheduled; ``causes``: why it recompiled; ``guards``: what is checked
before each call; ``cache``: whether torch's caches had it, which changes nothing but the time."""


class CompiledFunction(Fact):
    """Function or frame that a compile is of."""

    function: str
    location: StackEntry
    resumes_at: int | None = None
    """For a resume function, the line that it continues from; None for other functions."""

    @property
    def frame(self) -> tuple[str, str, int | None]:
        """Its file, name and line to continue from."""
        return self.location.file, self.function, self.resumes_at


class RankCompile(CompiledFunction):
    """One compile on one rank."""

    compile_id: str
    """Its id there, such as ``0/1``."""
    code: tuple[str, str, int, int | None]
    """See ``Frame.code``; without the file's folder, since machines of one job can have the same
    program in other folders."""
    occurrence: int = 0
    """Number of frames of the same function that began before its own frame, as after a reset or
    for another instance."""
    outcome: CompileOutcome
    causes: tuple[str, ...] = ()
    """Reasons for the recompile: each value that changed, with the change; empty for a first
    compile."""
    changed: tuple[str, ...] = ()
    """The values that changed, by which ranks are compared: from what to what can differ with each
    rank's data."""
    is_dynamic: bool = False
    """True if these are nothing but sizes and numbers that dynamic code can have."""
    duration_s: float | None = None
    """Seconds, as torch measured them."""
    backend_s: float | None = None
    """Seconds of these in the backend."""
    mark: CompileMark
    """Comparable properties."""


class Rank(Fact):
    """One rank of a job."""

    rank: int
    process: int | None
    """Its process id; None if no record has it."""
    summary: Counts
    complete: bool | None
    """True if it ran to its end and its log is whole. False if the log is cut, a compile in it
    never ended, or the process ended before Python did; None if a log that graphdoctor didn't
    record doesn't tell."""
    records: tuple[RecordCount, ...] = ()
    """Kinds of records in its logs, in a log of several ranks of all of them; the largest first."""
    waits_s: float | None = None
    """Seconds that it waits for compiles of slower ranks, if ranks wait for each other after each
    compile, as a collective makes them do: the sum over compiles of the longest time of any rank
    less its own; None if unknown."""
    last_record_s: float | None = None
    """Seconds from the job's first record to its last one, by the clocks of their machines; None if
    unknown."""
    missed: int = 0
    """Compiles that other ranks began after its last record, by those clocks, and that it doesn't
    have."""


class RankReport(Rank):
    """One rank, as others can be compared with it."""

    environment: Environment
    compiles: tuple[RankCompile, ...]
    """In order."""
    findings: tuple[Finding, ...]
    """Its findings, worst first."""
    gaps: tuple[CaptureGap, ...]
    first_s: float | None = None
    """When it wrote its first record, in seconds on its machine's clock."""
    last_s: float | None = None
    """When it wrote its last one."""


class RankGroup(Fact):
    """Ranks that did the same at one compile."""

    ranks: tuple[int, ...]
    """Their numbers, ascending."""
    compile_id: str | None
    """The compile's id on the first of them; None if they don't have it."""
    outcome: CompileOutcome | None = None
    """Outcome; None if they don't have it."""
    graph: str | None = None
    """Digest of the printed graphs, shapes included; None if there is none."""
    guards: str | None = None
    """Digest of the guards; None if the log has none."""
    causes: tuple[str, ...] = ()
    is_dynamic: bool = False
    """True if what changed is nothing but sizes and numbers that dynamic code can have."""
    collectives: tuple[str, ...] | None = None
    """The collectives that Inductor scheduled; None if the log doesn't say."""
    differs_in: tuple[Aspect, ...] = ()
    """In what they differ from the largest group that has the compile."""


class CacheGroup(Fact):
    """Ranks to which torch's caches gave one answer at one compile."""

    ranks: tuple[int, ...]
    cache: CacheState | None
    """The answer; None if the caches weren't asked."""


class CompileAgreement(CompiledFunction):
    """One compile on all ranks: a row of the matrix."""

    compile: str
    """Its id on the first rank that has it."""
    groups: tuple[RankGroup, ...]
    """Ranks that did the same, the largest group first; ranks without the compile are one group."""
    agree: bool
    """True if all ranks did the same; whether a cache had it doesn't count."""
    differs_in: tuple[Aspect, ...] = ()
    """In what they differ; ``cache`` can be alone."""
    caches: tuple[CacheGroup, ...] = ()
    """Answers of torch's caches where they differ."""
    duration_s: tuple[float, float] | None = None
    """The shortest and the longest time of a rank that has it; None if unknown."""
    slowest: int | None = None
    """The rank that took longest; None if unknown."""


PartingKind = Literal["branch", "sizes", "values", "state"]
"""Cause of a divergence. ``branch``: a branch of the source that ranks take differently;
``sizes``: those of a tensor; ``values``: a number or another constant; ``state``: an attribute of a
module or object, or a mode of torch."""


class Parting(Fact):
    """Why two ranks part, as far as their logs and the recorded source tell."""

    kind: PartingKind
    location: StackEntry | None = None
    """The branch, or the line that reads the value; None if unknown."""
    value: str
    """The branch's condition, or the value that differs, as source."""
    reads: str | None = None
    """The part of it that reads the rank, such as ``dist.get_rank()``; None if nothing in it is
    known to."""


class DivergentValue(Fact):
    """Value of some ranks where others have another."""

    ranks: tuple[int, ...]
    value: str
    """The value: a line of the graph, a guard, a cause, collectives, an outcome; ``-`` if they lack
    the compile."""


class Divergence(CompiledFunction):
    """The first place where ranks part."""

    compile: str
    """The compile, as in ``agreement``."""
    ranks: tuple[int, ...]
    """The ranks that differ from the largest group."""
    what: Aspect
    """In what: the first of the row's."""
    values: tuple[DivergentValue, ...]
    """Value of each group, the largest first."""
    parting: Parting | None = None
    """Its cause, between the first two groups; None if unknown."""


HangKind = Literal["schedule", "absent", "stopped"]
"""``schedule``: ranks scheduled other collectives in one graph; ``absent``: some ranks never
compiled a graph with collectives that others compiled; ``stopped``: a rank's log ends, in a compile
or before it, where others went on."""


class HangCandidate(CompiledFunction):
    """A place where ranks can wait for others forever."""

    kind: HangKind
    compile: str
    """The compile, as in ``agreement``."""
    waiting: tuple[int, ...]
    """The ranks that would wait."""
    missing: tuple[int, ...]
    """The ranks that they would wait for."""
    collectives: tuple[str, ...] = ()
    """Collectives they would wait in; empty if the logs don't tell."""


StragglerCause = Literal["alone", "cache", "backend", "dynamo", "unknown"]
"""Reason why a rank compiles longer. ``alone``: others don't have the compile; ``cache``: others
found it in a cache; otherwise in which part most of the time is: the backend or Dynamo;
``unknown``: torch doesn't say."""


class Straggler(CompiledFunction):
    """The rank that others wait for most, and why."""

    rank: int
    extra_s: float
    """Seconds that it took longer than the quickest rank, over the compiles in which it was the
    slowest."""
    compile: str
    """The compile that is most of it, as in ``agreement``."""
    missing: tuple[int, ...] = ()
    """The ranks that don't have it."""
    compile_extra_s: float
    """Seconds of that one."""
    why: StragglerCause


class Skew(Fact):
    """Unevenness of the ranks' compile times."""

    compile_s: tuple[float, float] | None
    """Compile time of the quickest and the slowest rank; None if unknown."""
    job_s: float | None
    """Seconds of the longest compile of each row, added up: what compiling takes the job if ranks
    wait for each other after each compile; None if unknown."""
    straggler: Straggler | None = None
    """None if no rank takes notably longer."""


class JobFinding(Finding):
    """A finding and the ranks that have it; everything else is as on the first of them."""

    ranks: tuple[int, ...]
    most: int
    """The highest ``count`` of a rank; ``count`` is the least."""


class Job(Document):
    """The JSON document about a recording of several ranks."""

    recording: str | None = None
    """The recording, as a command line names it; None if unknown."""
    target: TargetInfo
    exit: ProbeExit
    environment: Environment
    """Environment of the first rank."""
    ranks: tuple[Rank, ...]
    """Ascending."""
    absent: tuple[int, ...] = ()
    """Ranks between the others of which there is no log."""
    unread: tuple[int, ...] = ()
    """Ranks whose logs couldn't be read, so that they are left out; gaps say why."""
    agreement: tuple[CompileAgreement, ...]
    """All compiles, in the order of the first rank that has each."""
    first_divergence: Divergence | None
    """None if all ranks agree."""
    skew: Skew
    hangs: tuple[HangCandidate, ...] = ()
    findings: tuple[JobFinding, ...]
    """Findings of all ranks, each once, worst first."""
    hidden_findings: int = 0
    """Findings left out by ``--own-code``, ``--select`` or ``--ignore``, the most of any rank."""
    gaps: tuple[CaptureGap, ...]
    """Missing facts, each once."""
