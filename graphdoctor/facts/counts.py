"""The counts of a run: what torch compiled, how much ran in graphs, and whether the program stops
compiling.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from . import shared
from .base import Fact


class Coverage(Fact):
    """How much of one steady call ran in compiled graphs, measured under torch.profiler."""

    graph_ops: int
    """Tensor operations of the graphs that ran, counted for each run."""
    eager_ops: int
    """Outermost ``aten::`` operations outside any graph, without those of the backward pass."""
    extra_calls: int
    """Calls that were added until nothing compiled, including the measured one; 0 for a script,
    whose own calls are watched."""
    extra_compiles: int
    """Compiles in these calls. If above 0, the last call recompiles even with the same
    arguments."""
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
    """Whether the program stops compiling."""

    state: SteadyState | None
    """None if unknown: there was one call, and it wasn't repeated; or a script ended before it
    showed."""
    compiles_per_call: tuple[int, ...]
    """Compiles that got guarded code in each of the user's calls; empty for a script, whose calls
    have no numbers."""
    compiles_repeated: tuple[int, ...] | None = None
    """Compiles that began each time the last call was repeated; None if it wasn't."""
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
    """How often torch compiled that function until it hit the limit; None if it didn't."""
    limit_call: int | None = None
    """The call in which it hit the limit; None if it didn't, or only when the last call was
    repeated."""


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
    """Compiles of a function that already had a cache entry, as torch counts them: also those that
    ended with a skipped function, and the last one, that the recompile limit prevented."""
    recompile_causes: int = 0
    """Distinct functions with distinct sets of changed values among the recompiles."""
    frames_over_limit: int
    """Distinct frames that hit the recompile limit."""
    coverage: float | None = None
    """Share, 0 to 1, of the tensor operations of a steady call that ran in compiled graphs; for a
    script of one steady call of each compiled function, added up."""
    coverage_detail: Coverage | None = None
    """The counts that coverage is computed from."""
    compile_time_s: float | None = None
    """Seconds spent compiling during the user's calls, as torch measured it; None for a trial with
    another backend."""
    steady_call_us: float | None = None
    """Microseconds of a steady call, the median of up to 15; for a script one call of each compiled
    function, added up. None if not measured."""
    graphs_per_call: int | None = None
    """How often a graph ran in a steady call; None if not measured, and a script with several
    functions."""
    steadiness: Steadiness | None = None
    """Whether the program stops compiling; None for a block, and for a script whose calls weren't
    watched."""
    cuda_graphs: int | None = None
    """Functions that torch recorded as CUDA graphs; None if it wasn't asked to, or that is
    unknown."""
    hidden_findings: int = 0
    """Findings left out by ``--own-code``, ``--select`` or ``--ignore``."""

    @property
    def torch_counts(self) -> tuple[int, int, int, int, int]:
        """What torch did, whatever the backend made of its graphs."""
        return (
            self.break_sites,
            self.skipped_frames,
            self.graphs,
            self.recompiles,
            self.frames_over_limit,
        )
