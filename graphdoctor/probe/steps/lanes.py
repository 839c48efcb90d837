"""Where the time of each call goes: graphs, eager operations, guard checks and compiles on one time
axis.

A call that compiles is watched as the program makes it: made again, the same compile takes a
fraction of the time. A call that compiles nothing is made again under torch.profiler, which also
shows eager operations and guard checks. For that all calls are repeated from the beginning, with
Dynamo, state, random numbers and arguments as they were; a repetition counts only where it compiled
as the call did and ran the same graphs in the same order.

All times are the CPU's: on a GPU a graph is over when its kernels are launched. In a backward pass
only AOTAutograd's compiled graphs are segments, and only under the profiler.
"""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from ...wording import listed
from ..measure.compile_watch import CompileWatch, TimedCompile
from ..measure.coverage import (
    BACKWARD_RANGE,
    CALL_RANGE,
    CutCall,
    cut_profile,
    cut_timeline,
    profiled,
)
from ..measure.timing import settle
from ..record.describe import arguments_text
from ..target.snapshot import FreshCopies, RandomState, State
from ..target.targets import Call
from ..torch_private import torch_api, torch_trace
from ..torch_private.torch_hooks import GraphGlobals, WatchedRun
from .workload import UnmeasuredError, Workload

_MAX_LANES = 200
_MAX_KEPT_CALLS = 200
_MAX_KEPT_BYTES = 2**30

_BUDGET_S = 10.0
"""Seconds for the repetition, beside three times what the calls took."""

_STEADY_CALLS = 5
_STEADY_S = 2.0
_COMPILING = "the last call keeps compiling when it is repeated"


@dataclass(frozen=True)
class _Made:
    inputs: str
    has_compiled: bool
    compile_ids: tuple[str | None, ...]
    graphs: tuple[int, ...]
    cut: CutCall


class Lanes:
    """Watches the program's calls, then repeats them under the profiler."""

    def __init__(self, workload: Workload, graphs: GraphGlobals) -> None:
        self._workload, self._graphs = workload, graphs
        self._events = events = workload.events
        self._compiles = CompileWatch()
        torch_trace.listen(self._compiles)
        events.phase("keeping the state of the target")
        self._state = State(workload.function)
        self._random = RandomState()
        self._kept: list[Call] = []
        self._kept_bytes = 0
        self._is_keeping = not workload.has_fresh_calls
        self._inputs = ""
        self._watched: tuple[float, float, int, list[WatchedRun]] = (0.0, 0.0, 0, [])
        """Start and end of the call that was watched last, how many graphs there were before it,
        and their runs."""
        self._made: list[_Made] = []
        self._written = {True: 0, False: 0}
        self._graph_of: dict[int | None, int] = {}
        self._compile_of: dict[str | None, str | None] = {}

    def close(self) -> None:
        """Stop watching."""
        torch_api.trace_logger().removeHandler(self._compiles)

    def keep(self, call: Call) -> None:
        """Remember a call before it is made: it may change its arguments."""
        self._inputs = arguments_text(*call)
        if not self._is_keeping:
            return
        leaves = torch_api.tree_leaves(call)
        size = sum(
            leaf.numel() * leaf.element_size() for leaf in leaves if isinstance(leaf, torch.Tensor)
        )
        if len(self._kept) >= _MAX_KEPT_CALLS or self._kept_bytes + size > _MAX_KEPT_BYTES:
            self._is_keeping = False
            return
        try:
            self._kept.append(FreshCopies().call(call))
        except Exception:  # noqa: BLE001 - out of memory, or a class of the program's that refuses
            self._is_keeping = False
        self._kept_bytes += size

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the program's call that is made meanwhile."""
        self._compiles.taken()
        known = self._workload.hooks.graphs.count
        _synchronize()
        with self._graphs.watched() as runs:
            began = time.perf_counter()
            try:
                yield
            finally:
                _synchronize()
                self._watched = began, time.perf_counter(), known, runs

    def write(self) -> None:
        """Write down the call that was watched last, if it can be among those that are shown."""
        began, ended, known, runs = self._watched
        compiles = self._compiles.taken().spans
        made = _Made(
            inputs=self._inputs,
            has_compiled=bool(compiles),
            compile_ids=_frames(compiles),
            graphs=self._graphs_from(known),
            cut=cut_timeline(runs, compiles, began=began, ended=ended),
        )
        self._made.append(made)
        if self._written[made.has_compiled] < _MAX_LANES:
            self._written[made.has_compiled] += 1
            self._write(len(self._made), made.cut)

    def repeat(self, *, is_settled: bool) -> None:
        """Profile the steady call, then the calls that compiled nothing."""
        if torch_api.is_profiling():
            self._gap(
                "The time axis shows no eager operations and no guard checks: the program runs a profiler."
            )
            return
        if is_settled:
            failed = "The steady call has no time axis"
            self._workload.repeated(
                "lanes", "profiling the steady call", failed, self._profile_steady_call
            )
        steady = [index for index, made in enumerate(self._made, start=1) if not made.has_compiled]
        wanted = steady[: _MAX_LANES - self._written[True]]
        if wanted:
            self._repeat_calls(wanted)
        if len(self._made) > _MAX_LANES:
            self._gap(
                f"Only {_MAX_LANES} of {len(self._made)} calls have a time axis: calls that compile come first."
            )

    def _profile_steady_call(self, call: Call) -> None:
        settling = settle(lambda: self._workload.make_again(call), lambda: self._workload.activity)
        # Also the compiles of repetitions that other measurements made.
        if self._compiles.taken().is_over_limit:
            raise UnmeasuredError(
                "the last call recompiled each time it was repeated, up to the recompile limit"
            )
        if not settling.is_settled:
            raise UnmeasuredError(_COMPILING)
        cuts: list[CutCall] = []
        ends = time.perf_counter() + _STEADY_S
        while not cuts or (len(cuts) < _STEADY_CALLS and time.perf_counter() < ends):
            cuts.append(self._profile(call))
            if self._compiles.taken().spans:
                raise UnmeasuredError(_COMPILING)
        self._write(None, sorted(cuts, key=lambda cut: cut.duration_us)[len(cuts) // 2])

    def _repeat_calls(self, wanted: list[int]) -> None:
        differing: list[int] = []
        done = 0
        ends = (
            time.perf_counter()
            + _BUDGET_S
            + 3 * sum(made.cut.duration_us for made in self._made) / 1e6
        )
        try:
            with torch_trace.trace_files_paused():
                torch.compiler.reset()
                self._state.restore()
                self._random.restore()
                calls = (
                    self._workload.calls() if self._workload.has_fresh_calls else iter(self._kept)
                )
                for index, call in enumerate(calls, start=1):
                    if time.perf_counter() > ends:
                        raise UnmeasuredError("time ran out")
                    self._events.phase("profiling call {index}", index=index)
                    cut = self._repeat_call(index, call, is_profiled=index in wanted)
                    if cut is not None:
                        self._write(index, cut)
                    elif index in wanted:
                        differing.append(index)
                    done = index
                    if done == wanted[-1]:
                        break
                else:
                    raise UnmeasuredError(
                        f"the arguments of call {done + 1} were no longer available"
                    )
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an extra; its failure must not lose the report
            raised = f"call {done + 1} raised {type(error).__qualname__}"
            why = str(error) if isinstance(error, UnmeasuredError) else raised
            self._report_lost(wanted[bisect_right(wanted, done) :], why)
        self._report_lost(differing, "they ran other graphs than the first time")

    def _repeat_call(self, index: int, call: Call, *, is_profiled: bool) -> CutCall | None:
        made = self._made[index - 1]
        if arguments_text(*call) != made.inputs:
            raise UnmeasuredError(f"call {index} had other arguments")
        self._compiles.taken()
        known = self._workload.hooks.graphs.count
        cut = self._profile(call) if is_profiled else None
        if not is_profiled:
            self._workload.make_again(call, backward_range=BACKWARD_RANGE)
        compiles = self._compiles.taken().spans
        compile_ids, graphs = _frames(compiles), self._graphs_from(known)
        if (len(compile_ids), len(graphs)) != (len(made.compile_ids), len(made.graphs)):
            raise UnmeasuredError(f"call {index} made a different number of compiles or graphs")
        self._compile_of |= zip(compile_ids, made.compile_ids, strict=True)
        self._graph_of |= zip(graphs, made.graphs, strict=True)
        if cut is None or compiles:
            return None
        cut = cut.renamed(self._compile_of, self._graph_of)
        return cut if cut.forward_runs == made.cut.forward_runs else None

    def _profile(self, call: Call) -> CutCall:
        def make() -> None:
            with torch.profiler.record_function(CALL_RANGE):
                self._workload.make_again(call, backward_range=BACKWARD_RANGE)
                _synchronize()

        _synchronize()
        return cut_profile(profiled(make, self._graphs)[0])

    def _graphs_from(self, known: int) -> tuple[int, ...]:
        return tuple(range(known, self._workload.hooks.graphs.count))

    def _write(self, index: int | None, cut: CutCall) -> None:
        self._events.write("lane", **cut.fields(index))

    def _report_lost(self, indexes: list[int], why: str) -> None:
        if indexes:
            calls = listed([f"call {index}" for index in indexes])
            self._gap(
                f"The time axis of {calls} shows no eager operations and no guard checks: when the "
                f"calls were repeated under the profiler, {why}."
            )

    def _gap(self, message: str) -> None:
        self._events.gap("lanes", message)


def _synchronize() -> None:
    # An error of the device is the program's: it is raised where it would be without us.
    with contextlib.suppress(RuntimeError):
        torch_api.synchronize()


def _frames(compiles: Iterable[TimedCompile]) -> tuple[str | None, ...]:
    return tuple(made.compile_id for made in compiles if made.is_frame)
