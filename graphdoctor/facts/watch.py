"""What watching a script's calls, as they happened, showed of its compiled functions, and of its
training loop.
"""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Literal

from . import shared
from .base import Fact
from .counts import Coverage
from .sums import whole_sum

WatchOutcome = Literal["steady", "compiled", "raised", "profiled"]
"""How a watched call went. ``steady``: it compiled nothing; ``compiled``: torch compiled something
meanwhile; ``raised``: an exception left it; ``profiled``: the program began to profile in it, so
ours had to end."""

UnwatchedReason = Literal["nested", "profiler", "capture", "busy"]
"""Why a call wasn't watched when it was due. ``nested``: another compiled call made it;
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
"""Why a function's coverage is unknown.

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
    """What was compiled: the qualified name of a class or function."""
    file: str | None = None
    """The file that called torch.compile; None if unknown."""
    line: int | None = None
    """1-based."""
    process: shared.ProcessName | None = None
    """The process, such as ``p2`` or ``rank1``; None for the main one."""
    calls: int | None
    """How often it was called; None if the process ended without saying, as a killed one does."""
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
    """How often a graph ran in it."""
    not_covered: NotCovered | None = None
    steady_us: float | None = None
    """Microseconds of a steady call: the median of the last 15 timed calls that compiled
    nothing."""
    timed_calls: int = 0

    @property
    def is_settled(self) -> bool | None:
        """Whether its last call compiled nothing; None if unknown."""
        return None if self.calls is None else self.calls > (self.last_compile or 0)


class CallWatch(Fact):
    """The calls of a script that were watched."""

    functions: tuple[WatchedFunction, ...]
    """Functions that were called, in the order in which they were passed to torch.compile; the main
    process first."""
    cost_s: float
    """What watching added, in seconds: before and after each watched call, and what calls under the
    profiler took longer than the function's timed ones."""

    @property
    def own(self) -> tuple[WatchedFunction, ...]:
        """The functions that the program's numbers are of: those of the first process, without
        nested ones.
        """
        first = self.functions[0].process if self.functions else None
        return tuple(
            found
            for found in self.functions
            if found.process == first and found.not_covered != "nested"
        )

    @property
    def calls(self) -> int | None:
        """How often all of them were called; None if that is unknown of one."""
        return whole_sum(found.calls for found in self.functions)

    @property
    def coverage(self) -> Coverage | None:
        """One steady call of each function, added up; None if one of them is unknown."""
        parts = [found.coverage for found in self.own]
        known = [part for part in parts if part is not None]
        if not known or len(known) < len(parts):
            return None
        names = Counter[str]()
        for part in known:
            names.update(part.eager_op_names)
        return Coverage(
            graph_ops=sum(part.graph_ops for part in known),
            eager_ops=sum(part.eager_ops for part in known),
            extra_calls=0,
            extra_compiles=0,
            eager_op_names=dict(names.most_common(20)),
        )

    @property
    def steady_us(self) -> float | None:
        """One steady call of each function, added up; None if one of them is unknown."""
        return whole_sum(found.steady_us for found in self.own) if self.own else None

    @property
    def graph_runs(self) -> int | None:
        """How often a graph ran in a steady call of the only function; None if there are several,
        or it is unknown.
        """
        return self.own[0].graph_runs if len(self.own) == 1 else None


class Steps(Fact):
    """What one process saw of its training loop."""

    count: int
    """Backward passes."""
    intervals_us: tuple[float, ...] = ()
    """Microseconds from one to the next, of the last ones in which nothing was compiled."""
    losses: tuple[float, ...] = ()
    """What the first ones were called on, where it was a single number."""

    @property
    def step_us(self) -> float | None:
        """The median of the second half, by when caches are warm; None if there are fewer than
        four.
        """
        late = self.intervals_us[len(self.intervals_us) // 2 :]
        return median(late) if len(self.intervals_us) >= 4 else None
