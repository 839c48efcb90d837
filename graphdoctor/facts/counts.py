"""The counts of a run: what torch compiled, how much ran in graphs, whether the program stops
compiling, and what watching a script's calls showed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import field
from typing import Literal

from . import shared
from .base import Fact, whole_sum


class Coverage(Fact):
    """Share of one steady call that ran in compiled graphs, measured under torch.profiler."""

    graph_ops: int
    """Tensor operations of the graphs that ran, counted for each run."""
    eager_ops: int
    """Outermost ``aten::`` operations outside any graph, without those of the backward pass, and of
    writing tensors as text."""
    text_ops: int = 0
    """Those of writing tensors as text, for a print, a log line or an f-string: they aren't the
    model's, and count neither as compiled nor as eager."""
    eager_op_names: dict[shared.OperationName, int] = field(default_factory=dict)
    """The eager operations by name, most frequent first, at most 20."""

    @property
    def op_count(self) -> int:
        """All operations."""
        return self.graph_ops + self.eager_ops

    @property
    def share(self) -> float | None:
        """Graph operations divided by all operations, 0 to 1; None if the call has no tensor
        operation.
        """
        return self.graph_ops / self.op_count if self.op_count else None


SteadyState = Literal["settled", "compiling", "over_limit", "never"]
"""``settled``: the last call compiled nothing, at least when it was repeated. ``compiling``: the
last of several calls still compiled something, though not when it was repeated. ``over_limit``: the
calls took a function over its recompile limit. ``never``: the last call compiles something each
time it is repeated with the same arguments."""


class Steadiness(Fact):
    """Judgement of whether the program stops compiling."""

    state: SteadyState | None
    """None if unknown: there was one call, and it wasn't repeated; or a script ended before it
    showed."""
    compiles_per_call: tuple[int, ...]
    """Compiles that got guarded code in each of the user's calls; empty for a script, whose calls
    have no numbers."""
    compiles_repeated: tuple[int, ...] | None = None
    """The same in each repeat of the last call; None if it wasn't repeated."""
    function: str | None = None
    """For ``over_limit`` and ``never``, and for a script's ``compiling``: the function that shows
    it."""
    compiling_calls: int | None = None
    """For a script's ``compiling``: in how many calls of that function in a row, up to its last,
    torch compiled."""
    changing: tuple[str, ...] = ()
    """The guarded values that differed in every recompile of that function, for ``never`` in every
    repetition, in the user's words."""
    compiles_to_limit: int | None = None
    """Number of times that torch compiled that function until it hit the limit; None if it
    didn't."""
    limit_call: int | None = None
    """The call or repeat in which it hit the limit; None if it didn't."""


class Counts(Fact):
    """The counts of one run; None if unknown. Trials recorded by 0.1 lack some: these are 0 or
    None.
    """

    calls: int = 0
    """Calls of the target that were started; 0 for a script, whose calls have no numbers."""
    calls_failed: int = 0
    """Of these, the ones that raised an exception or didn't finish."""
    compiles: int
    """Compiles that got guarded code, without those dropped because they have no operations."""
    graphs: int
    """Graphs handed to the backend."""
    break_sites: int
    """Distinct lines (file and line) that graph-break records point to."""
    break_records: int = 0
    """torch's own graph-break records."""
    skipped_frames: int
    """Distinct frames that torch skipped."""
    recompiles: int
    """Of these compiles, those of a function that already had a cache entry."""
    recompile_causes: int = 0
    """Distinct functions with distinct sets of changed values among the recompiles."""
    frames_over_limit: int
    """Distinct frames that hit the recompile limit."""
    coverage: float | None = None
    """Share, 0 to 1, of the tensor operations of a steady call that ran in compiled graphs; for a
    script of one steady call of each compiled function, added up."""
    coverage_detail: Coverage | None = None
    """The counts that coverage is computed from."""
    eager_calls: dict[EagerReason, int] | None = None
    """Calls in which code ran eagerly without a record of torch's, by the reason; None if
    unknown."""
    compile_time_s: float | None = None
    """Seconds spent compiling in the calls and repeats, as torch measured it; None for a trial with
    another backend."""
    steady_call_us: float | None = None
    """Microseconds of a steady call, the median of up to 15; for a script one call of each compiled
    function, added up. None if not measured."""
    graphs_per_call: int | None = None
    """Graph runs in a steady call; None if not measured, and a script with several functions."""
    steadiness: Steadiness | None = None
    """Judgement of whether the program stops compiling; None for a block, and for a script whose
    calls weren't watched."""
    cuda_graphs: int | None = None
    """Functions that torch recorded as CUDA graphs; None if it wasn't asked to, or that is
    unknown."""
    hidden_findings: int = 0
    """Findings left out by ``--own-code``, ``--select`` or ``--ignore``."""

    @property
    def is_uncompiled(self) -> bool:
        """Return whether nothing of the calls was compiled; False if that is unknown."""
        if (detail := self.coverage_detail) is not None:
            return bool(detail.op_count) and not detail.graph_ops
        # A script's calls have no numbers; a graph break shows that torch compiled, and was called.
        return bool(self.calls or self.break_records) and not self.graphs

    @property
    def torch_counts(self) -> tuple[int, int, int, int, int]:
        """Return what torch did, whatever the backend made of its graphs."""
        return (
            self.break_sites,
            self.skipped_frames,
            self.graphs,
            self.recompiles,
            self.frames_over_limit,
        )


EagerReason = Literal["force_eager", "eager_on_recompile", "eager_then_compile", "limit"]
"""Reason why code of a call ran eagerly though it was to be compiled, and torch has no record of
it: the stance that the program set, or a recompile limit that was hit before or in the call."""

WatchOutcome = Literal["steady", "compiled", "raised", "profiled"]
"""Course of a watched call. ``steady``: it compiled nothing; ``compiled``: torch compiled something
meanwhile; ``raised``: an exception left it; ``profiled``: the program began to profile in it, so
ours had to end."""

UnwatchedReason = Literal["nested", "profiler", "capture", "busy"]
"""Reason why a call wasn't watched when it was due. ``nested``: another compiled call made it;
``profiler``: the program ran a profiler or a tracer; ``capture``: a CUDA graph was being captured;
``busy``: a call in another thread was watched."""

NotCovered = Literal[
    "once",
    "compiling",
    "raised",
    "profiler",
    "capture",
    "busy",
    "deferred",
    "nested",
    "cost",
    "few",
    "ended",
]
"""Reason why a function's coverage is unknown.

``once``: it was called only once. ``compiling``: its last call compiled something, or each call
that was watched did. ``raised``: they raised. ``profiler``: the program ran a profiler or a tracer.
``capture``: they were captured in a CUDA graph. ``busy``: another thread's calls were watched.
``deferred``: its work happens after the call. ``nested``: other compiled calls made all of them, so
they count there. ``cost``: watching had taken its share of the time. ``few``: no call was watched.
``ended``: the process ended without saying.
"""


class WatchedFunction(Fact):
    """A function that a script compiled and called, in one process."""

    compiled: shared.Name
    """Qualified name of the compiled class or function."""
    file: str | None = None
    """The file that called torch.compile; None if unknown."""
    line: int | None = None
    """1-based."""
    process: shared.ProcessName | None = None
    """The process, such as ``p2`` or ``rank1``; None for the main one."""
    calls: int | None
    """Number of calls; None if the process ended without saying, as a killed one does."""
    watched_calls: int
    """Of these, the ones that were watched."""
    last_compile: int | None = None
    """Number of the last of its calls in which torch began to compile; None if none did."""
    compiling_calls: int = 0
    """In how many calls in a row, up to that one, torch began to compile."""
    coverage: Coverage | None = None
    """Of the last profiled call that compiled nothing; None if there is none."""
    coverage_call: int | None = None
    graph_runs: int | None = None
    """Graph runs in it."""
    not_covered: NotCovered | None = None
    eager_calls: dict[EagerReason, int] | None = None
    """Its calls in which code ran eagerly without a record, by the reason; None if unknown."""
    steady_us: float | None = None
    """Microseconds of a steady call: the median of the last 15 timed calls that compiled
    nothing."""
    timed_calls: int = 0

    @property
    def is_settled(self) -> bool | None:
        """Return whether its last call compiled nothing; None if unknown."""
        return None if self.calls is None else self.calls > (self.last_compile or 0)


class CallWatch(Fact):
    """The calls of a script that were watched."""

    functions: tuple[WatchedFunction, ...]
    """Functions that were called, in the order in which they were passed to torch.compile; the main
    process first."""
    cost_s: float
    """Seconds added by watching: before and after each watched call, and by the profiler beyond the
    function's timed ones."""

    @property
    def own(self) -> tuple[WatchedFunction, ...]:
        """The functions that the program's numbers are of: those of the first process, without
        nested ones.
        """
        first = self.functions[0].process if self.functions else None
        return tuple(
            function
            for function in self.functions
            if function.process == first and function.not_covered != "nested"
        )

    @property
    def calls(self) -> int | None:
        """Return how often all of them were called; None if that is unknown of one."""
        return whole_sum(function.calls for function in self.functions)

    @property
    def eager_calls(self) -> dict[EagerReason, int] | None:
        """Return how many calls ran code eagerly without a record, by the reason; None if that is
        unknown of a function.
        """
        total = Counter[EagerReason]()
        for function in self.own:
            if function.eager_calls is None:
                return None
            total.update(function.eager_calls)
        return dict(total.most_common())

    @property
    def coverage(self) -> Coverage | None:
        """One steady call of each function, added up; None if one of them is unknown."""
        parts = [function.coverage for function in self.own if function.coverage is not None]
        if not parts or len(parts) < len(self.own):
            return None
        names = Counter[str]()
        for part in parts:
            names.update(part.eager_op_names)
        return Coverage(
            graph_ops=sum(part.graph_ops for part in parts),
            eager_ops=sum(part.eager_ops for part in parts),
            text_ops=sum(part.text_ops for part in parts),
            eager_op_names=dict(names.most_common(20)),
        )

    @property
    def steady_us(self) -> float | None:
        """One steady call of each function, added up; None if one of them is unknown."""
        return whole_sum(function.steady_us for function in self.own) if self.own else None

    @property
    def graph_runs(self) -> int | None:
        """Return how often a graph ran in a steady call of the only function; None if there are
        several, or it is unknown.
        """
        return self.own[0].graph_runs if len(self.own) == 1 else None
