"""Measurements once all calls came back, by repeating the last one, and where the time of each call
goes: graphs, eager operations, guard checks and compiles on one time axis (``Lanes``). What the
program prints then is dropped.

A call is watched as the program makes it: made again, the same compile takes a fraction of the
time. The steady call is made again under torch.profiler, which also shows eager operations and
guard checks.

All times of lanes are the CPU's: on a GPU a graph is over when its kernels are launched. In a
backward pass only AOTAutograd's compiled graphs are segments, and only under the profiler.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Literal, TypeVar

import torch
from torch.profiler import record_function

from ...facts.kernels import NOTABLE_COPIES
from ...facts.profiled import EagerCall, MeasuredMemory, ProfiledCall
from ...facts.run import Phase
from ..measure import coverage
from ..measure.calibration import calibrate
from ..measure.coverage import (
    BACKWARD_RANGE,
    CALL_RANGE,
    CompileWatch,
    CutCall,
    cut_profile,
    cut_timeline,
    profiled,
)
from ..measure.guard_cost import CheckTimer, spread, time_searches
from ..measure.kernels import Repeated, is_disturbed, measure_kernels, seen_call
from ..measure.timing import PeakMemory, kept_bytes, time_calls
from ..record.errors import type_name
from ..record.streams import silence
from ..target.snapshot import RandomState, restorer
from ..target.targets import Call
from ..torch_private import torch_api, torch_trace
from ..torch_private.torch_codegen import graph_runs_marked
from ..torch_private.torch_hooks import GraphGlobals, WatchedRun
from ..torch_private.torch_kernels import launch_one_by_one
from .workload import UnmeasuredError, Workload

_Measured = TypeVar("_Measured")

_CALL_BUDGET_S = 2.0
_UNSETTLED = "the last call compiles something each time it is repeated"
_COMPILED = "the last call compiled something again while it was measured"
_MAX_PROFILED = 3
"""Calls until one that is profiled compiles nothing: a program may ask whether it is profiled."""

_PROFILED = "the program runs a profiler, and only one can run at a time"

_Kind = Literal["guard_cost", "kernels", "memory"]


def measure(workload: Workload, lanes: Lanes | None) -> None:
    """Make the measurements that were asked for."""
    request = workload.request
    # Of a call that never is steady, nothing that is measured would be true of the program.
    is_settled = workload.repeats is None or workload.repeats.is_steady
    if request["coverage"] and is_settled:
        failed = "Coverage was not measured"
        make = partial(_measure_coverage, workload)
        workload.repeated("coverage", "measuring coverage", failed, make)
    asked: tuple[tuple[_Kind, Phase, str, Callable[[Workload, Call], None]], ...] = (
        ("guard_cost", "measuring guard checks", "cost of guard checks", _measure_guards),
        ("kernels", "profiling kernels", "kernels of a steady call", _measure_kernels),
        ("memory", "measuring memory", "memory of a steady call", _measure_memory),
    )
    for kind, phase, what, measure_one in asked:
        failed = f"The {what} {'were' if kind == 'kernels' else 'was'} not measured"
        # What CUDA graphs copy in every call shows in no other way.
        has_copies = kind == "kernels" and request["coverage"] and _can_copy(workload)
        if (request[kind] or has_copies) and is_settled:
            workload.repeated(kind, phase, failed, partial(measure_one, workload))
        elif request[kind]:
            workload.events.gap(kind, f"{failed}: {_UNSETTLED}.")
    if lanes is not None:
        with silence():
            lanes.repeat(is_settled=is_settled)
    # Nobody asks what a trial could reach.
    if request["profile"] is not None and request["kernels"] and workload.trial is None:
        _calibrate(workload)


@contextmanager
def _steady(workload: Workload, make: Callable[[], object]) -> Iterator[None]:
    """Make a call as it is measured; from then on it must stay steady."""
    make()
    before = workload.activity
    yield
    if workload.activity != before:
        raise UnmeasuredError(_COMPILED)


def _measure_coverage(workload: Workload, call: Call) -> None:
    if (graphs := workload.graphs) is None:
        raise UnmeasuredError("this torch doesn't tell where graphs run")
    if torch_api.is_profiling():
        raise UnmeasuredError(_PROFILED)
    make = partial(workload.forward, call)
    for _ in range(_MAX_PROFILED):
        before = workload.activity
        counted = coverage.measure(make, graphs)
        workload.restore()
        if workload.activity == before:
            break
    else:
        raise UnmeasuredError(_COMPILED)
    workload.events.write("coverage", counted)
    # Nobody asks what a trial's breaks cost.
    if workload.trial is None:
        timed = coverage.time_runs(make, graphs, workload.restore)
        if workload.activity == before:
            workload.events.write("steady_call", timed)


def _measure_guards(workload: Workload, call: Call) -> None:
    gap = partial(workload.events.gap, "guard_cost")

    def make() -> None:
        workload.forward(call)
        workload.restore()

    assert workload.compiled_code is not None
    if sys.getprofile() is not None:
        raise UnmeasuredError(_PROFILED)
    with RandomState(), _steady(workload, make):
        times = time_calls(make, seconds=_CALL_BUDGET_S, most=200, least=5)
        searches = None if torch_api.is_profiling() else time_searches(make)
        if searches is None:
            gap(f"Guard checks were timed only by repeating them: {_PROFILED}.")
        timer = CheckTimer(workload.compiled_code)
        entries = timer.run(make)
    cost = {
        **spread("call", (1e6 * seconds for seconds in times)),
        "call_count": len(times),
        "entries": entries,
        "is_complete": not timer.troubles,
    }
    if searches is not None:
        searches.add_to(cost)
    workload.events.write("guard_cost", **cost)
    for trouble in timer.troubles:
        gap(f"The guard check of one compile was not measured. {trouble}.")


def _can_copy(workload: Workload) -> bool:
    is_asked = workload.cuda_graphs is not None and workload.trial is None
    return is_asked and torch.cuda.is_available()


def _measure_kernels(workload: Workload, call: Call) -> None:
    if torch_api.is_profiling():
        raise UnmeasuredError(_PROFILED)
    is_profile = workload.request["profile"] is not None
    with RandomState():
        compiled = _repeated(workload, call)
        with _steady(workload, compiled):
            has_codegen = is_profile and workload.codegen is not None
            measured = measure_kernels(compiled, graph_runs_marked if has_codegen else nullcontext)
            if is_profile and measured.best.graph_launches:
                one_by_one = _one_by_one(lambda: seen_call(compiled, graph_runs_marked))
                measured = replace(measured, one_by_one=one_by_one)
        share = measured.share()
        profiled_call = None
        if is_profile:
            make = partial(workload.make_again, call, is_eager=True)
            eager = measure_kernels(Repeated(make, compiled.restore))
            runs, kernels = measured.runs()
            profiled_call = ProfiledCall(
                device=measured.share().device,
                times_us=tuple(measured.times_us),
                runs=tuple(runs),
                kernels=tuple(kernels),
                eager=EagerCall(
                    times_us=tuple(eager.times_us),
                    kernels_us=eager.share().kernels_us,
                    launches=eager.best.launches,
                ),
            )
    is_asked = workload.request["kernels"]
    # Where copies alone were looked for, the rest is for those who ask for kernels.
    if is_asked or (share.graph_input_copy_us or 0.0) >= NOTABLE_COPIES * share.call_us:
        workload.events.write("kernels", share)
    gap = partial(workload.events.gap, "kernels")
    if profiled_call is not None:
        workload.events.write("profiled_call", profiled_call)
        codegen = workload.codegen
        backend = workload.request["backend"]
        reason = None
        if codegen is not None and codegen.failure is not None:
            reason = f"looking at some raised {codegen.failure}"
        elif codegen is not None and workload.activity.compiles and not codegen.graphs:
            reason = f"the backend {backend!r} generated no code"
        if profiled_call.kernels and reason is not None:
            gap(f"Which lines kernels compute is unknown: {reason}.")
    if share.launches is None:
        gap(
            "The time in kernels is unknown: without CUPTI torch.profiler sees none on a CUDA "
            "device."
        )
    elif is_disturbed(share):
        times = share.call_us / (share.unprofiled_us or 1.0)
        gap(f"Kernel times are unreliable: the machine was busy ({times:.0f}× slower).")


def _measure_memory(workload: Workload, call: Call) -> None:
    with RandomState():
        compiled = _repeated(workload, call)

        def saved() -> int | None:
            kept = kept_bytes(lambda: workload.forward(call))
            compiled.restore()
            return kept

        with _steady(workload, compiled):
            # What earlier calls left behind is none of this one's.
            gc.collect()
            peak = PeakMemory()
            compiled.make()
            peak_bytes = peak.bytes()
            compiled.restore()
            # A CUDA graph keeps tensors where it kept those of the call before, so they wouldn't be
            # new.
            has_graphs = workload.cuda_graphs is not None
            saved_bytes = _one_by_one(saved) if has_graphs else saved()
        eager_saved_bytes = kept_bytes(lambda: workload.forward(call, is_eager=True))
        compiled.restore()
    measured = MeasuredMemory(
        peak_of=peak.peak_of,
        before_bytes=peak.before_bytes,
        peak_bytes=peak_bytes,
        saved_bytes=saved_bytes,
        eager_saved_bytes=eager_saved_bytes,
    )
    workload.events.write("memory", measured)


def _calibrate(workload: Workload) -> None:
    workload.events.phase("measuring what the device reaches")
    device = torch.device("cuda") if torch_api.uses_cuda() else torch.device("cpu")
    try:
        code = workload.code
        reached = calibrate(device, code.factor_dtypes, code.elementwise)
        workload.events.write("calibration", reached)
    except (RuntimeError, MemoryError) as error:
        message = f"What the device reaches was not measured: {type_name(error)}."
        workload.events.gap("kernels", message)


def _repeated(workload: Workload, call: Call) -> Repeated:
    make = partial(workload.make_again, call)
    return Repeated(make, restorer(call, make) or (lambda: None))


def _one_by_one(measure: Callable[[], _Measured]) -> _Measured:
    """Measure while what CUDA graphs launch at once is launched kernel by kernel."""
    undo = launch_one_by_one()
    try:
        return measure()
    finally:
        undo()


# Lanes.

_MAX_LANES = 200
"""So many calls get a time axis; beyond them, those that compile something."""

_STEADY_CALLS = 5
_STEADY_S = 2.0
_COMPILING = "the last call keeps compiling when it is repeated"


class Lanes:
    """Watches the program's calls, then repeats the steady one under the profiler."""

    def __init__(self, workload: Workload, graphs: GraphGlobals) -> None:
        self._workload = workload
        self._graphs = graphs
        self._compiles = CompileWatch()
        torch_trace.listen(self._compiles)
        self._call_count = self._lane_count = 0
        self._watched: tuple[float, float, list[WatchedRun]] = (0.0, 0.0, [])
        """Start and end of the call that was watched last, and the runs of its graphs."""

    def close(self) -> None:
        """Stop watching."""
        torch_api.trace_logger().removeHandler(self._compiles)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the program's call that is made meanwhile."""
        self._compiles.taken()
        _synchronize()
        with self._graphs.watched() as runs:
            began = perf_counter()
            try:
                yield
            finally:
                _synchronize()
                self._watched = began, perf_counter(), runs

    def write(self) -> None:
        """Write down the call that was watched last."""
        began, ended, runs = self._watched
        compiles = self._compiles.taken().spans
        self._call_count += 1
        if compiles or self._lane_count < _MAX_LANES:
            self._lane_count += 1
            self._write(self._call_count, cut_timeline(runs, compiles, began=began, ended=ended))

    def repeat(self, *, is_settled: bool) -> None:
        """Profile the steady call, if there is one."""
        if self._lane_count < self._call_count:
            shown = f"Only {self._lane_count} of {self._call_count} calls have a time axis"
            self._workload.events.gap("lanes", f"{shown}: the first, and those that compile.")
        if is_settled:
            failed = "The steady call has no time axis"
            make = self._profile_steady_call
            self._workload.repeated("lanes", "profiling the steady call", failed, make)

    def _profile_steady_call(self, call: Call) -> None:
        if torch_api.is_profiling():
            raise UnmeasuredError(_PROFILED)
        # Also the compiles of the repeats.
        self._compiles.taken()
        cuts: list[CutCall] = []
        ends = perf_counter() + _STEADY_S
        while not cuts or (len(cuts) < _STEADY_CALLS and perf_counter() < ends):
            cuts.append(self._profile(call))
            self._workload.restore()
            if self._compiles.taken().spans:
                raise UnmeasuredError(_COMPILING)
        self._write(None, sorted(cuts, key=lambda cut: cut.duration_us)[len(cuts) // 2])

    def _profile(self, call: Call) -> CutCall:
        def make() -> None:
            with record_function(CALL_RANGE):
                self._workload.make_again(call, backward_range=BACKWARD_RANGE)
                _synchronize()

        _synchronize()
        return cut_profile(profiled(make, self._graphs)[0])

    def _write(self, index: int | None, cut: CutCall) -> None:
        self._workload.events.write("lane", **cut.fields(index))


def _synchronize() -> None:
    # An error of the device is the program's: it is raised where it would be without us.
    with suppress(RuntimeError):
        torch_api.synchronize()
