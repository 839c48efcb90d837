"""What is measured once all calls came back, by repeating the last one.

These calls are ours, not the user's: what the program prints in them is dropped.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

import torch

from ...facts.counts import Coverage
from ...facts.profiled import Calibration, EagerCall, MeasuredMemory, ProfiledCall
from ...facts.recording import GapKind, Settling
from ...facts.run import Phase
from ..events import EventFile
from ..measure import coverage
from ..measure.calibration import calibrate
from ..measure.guard_cost import CheckTimer, spread, time_searches
from ..measure.kernels import MeasuredKernels, Repeated, is_disturbed, measure_kernels, seen_call
from ..measure.memory import PeakMemory, kept_bytes
from ..measure.timing import settle, time_calls
from ..record.errors import type_name
from ..record.reports import hook_gap
from ..record.streams import silence
from ..target.snapshot import RandomState, restorer
from ..target.targets import Call
from ..torch_private import torch_api
from ..torch_private.torch_codegen import graph_runs_marked
from ..torch_private.torch_cuda_graphs import launch_one_by_one
from ..wire import ProbeRequest
from .lanes import Lanes
from .workload import Workload

_Found = TypeVar("_Found")

_UNSETTLED = "the last call compiles something each time it is repeated."
_PROFILED = "the program runs a torch.profiler, and only one can run at a time"


class _UnmeasuredError(Exception):
    """Something can't be measured; the message, the end of a sentence, says why."""


def measure(workload: Workload, request: ProbeRequest, events: EventFile, *, lanes: Lanes | None) -> None:
    """Make the measurements that were asked for."""
    measuring = _Measuring(workload, request, events)
    is_settled = not request["coverage"] or measuring.coverage()
    asked: tuple[tuple[Literal["guard_cost", "kernels", "memory"], Phase, str, Callable[[Call], None]], ...] = (
        ("guard_cost", "measuring guard checks", "The cost of guard checks was not measured", measuring.guards),
        ("kernels", "profiling kernels", "The kernels of a steady call were not measured", measuring.kernels),
        ("memory", "measuring memory", "The memory of a steady call was not measured", measuring.memory),
    )
    for kind, phase, failed, make in asked:
        if request[kind] and is_settled:
            measuring.repeat(kind, phase, failed, make)
        elif request[kind]:
            events.gap(kind, f"{failed}: {_UNSETTLED}")
    if lanes is not None:
        with silence():
            lanes.repeat(is_settled=is_settled)
    if request["profile"] is not None and request["kernels"]:
        measuring.calibrate()


class _Measuring:
    def __init__(self, workload: Workload, request: ProbeRequest, events: EventFile) -> None:
        self._workload = workload
        self._request = request
        self._events = events

    def repeat(self, kind: GapKind, phase: Phase, failed: str, make: Callable[[Call], None]) -> None:
        """Measure something by repeating the last call; a gap where that can't be done."""
        call = self._workload.last_call
        try:
            if call is None:
                raise _UnmeasuredError("no call was made.")
            with self._workload.repeating(phase):
                make(call)
        except _UnmeasuredError as reason:
            self._events.gap(kind, f"{failed}: {reason}")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - an extra; its failure must not lose the report
            self._events.gap(kind, f"{failed}: repeating the last call raised {type_name(error)}.")

    @contextlib.contextmanager
    def _steady(self, make: Callable[[], object]) -> Iterator[None]:
        """Repeat a call until it is steady; it must stay so."""
        if not settle(make, lambda: self._workload.activity).is_settled:
            raise _UnmeasuredError(_UNSETTLED)
        before = self._workload.activity
        yield
        if self._workload.activity != before:
            raise _UnmeasuredError("the last call compiled something again while it was measured.")

    def coverage(self) -> bool:
        """Repeat the last call under the profiler until it is steady.

        Returns:
            False if it never is; then nothing else that is measured of it would be true of the program.
        """
        found: list[Settling] = []
        failed = "Coverage was not measured"
        self.repeat("coverage", "measuring coverage", failed, lambda call: found.append(self._covered(call)))
        return not found or found[0].is_settled

    def _covered(self, call: Call) -> Settling:
        workload, counted = self._workload, list[Coverage]()
        if torch_api.is_profiling():
            raise _UnmeasuredError(f"{_PROFILED}.")

        def make() -> None:
            # The first repetition is measured at once: most calls are steady by then.
            counted.append(coverage.measure(partial(workload.forward, call), workload.runs))

        settling = settle(make, lambda: workload.activity)
        before, timed = workload.activity, None
        # Nobody asks what a trial's breaks cost.
        if settling.is_settled and workload.trial is None:
            timed = coverage.time_runs(partial(workload.forward, call), workload.runs)
        self._events.write("settling", settling)
        if not settling.is_settled:
            why = "the last call compiled something each time it was repeated"
            if settling.is_over_limit:
                took = "repeating the last call took a function over torch's recompile limit"
                why = f"{took}, which the run's calls did not"
            message = f"There is no steady call, so coverage and the cost of breaks are unknown: {why}."
            self._events.gap("unsettled", message)
            return settling
        extra = {"extra_calls": len(settling.compiles), "extra_compiles": sum(settling.compiles)}
        self._events.write("coverage", counted[-1].model_copy(update=extra))
        if timed is not None and workload.activity == before:
            self._events.write("steady_call", timed)
        return settling

    def guards(self, call: Call) -> None:
        """What the guard checks of the last call cost, once it no longer compiles anything."""
        workload, make = self._workload, partial(self._workload.forward, call)
        assert workload.compiled_code is not None
        if sys.getprofile() is not None:
            raise _UnmeasuredError("the program runs a profiler, and only one can run at a time.")
        with RandomState(), self._steady(make):
            times_us = [1e6 * seconds for seconds in time_calls(make, seconds=2.0, most=200, least=5)]
            reason, searches = _PROFILED, None
            if not torch_api.is_profiling():
                reason, searches = "this torch doesn't tell the profiler's ranges", time_searches(make)
            if searches is None:
                self._events.gap("guard_cost", f"Guard checks were timed only by repeating them: {reason}.")
            timer = CheckTimer(workload.compiled_code)
            entries = timer.run(make)
        cost: dict[str, Any] = {
            **spread("call", times_us),
            "call_count": len(times_us),
            "entries": entries,
            "is_complete": not timer.troubles,
        }
        if searches is not None:
            searches.add_to(cost)
        self._events.write("guard_cost", **cost)
        for trouble in timer.troubles:
            self._events.gap("guard_cost", f"The guard check of one compile was not measured. {trouble}.")

    def kernels(self, call: Call) -> None:
        """Where the time of the last call goes once it is steady, with backward where asked for."""
        if torch_api.is_profiling():
            raise _UnmeasuredError(f"{_PROFILED}.")
        workload, is_profile = self._workload, self._request["profile"] is not None
        with RandomState():
            compiled = self._repeated(call)
            with self._steady(compiled):
                around = graph_runs_marked if is_profile and workload.codegen is not None else contextlib.nullcontext
                measured = measure_kernels(compiled, around)
                if measured is not None and is_profile and measured.best.graph_launches:
                    one_by_one = self._one_by_one(lambda: seen_call(compiled, graph_runs_marked))
                    measured = replace(measured, one_by_one=one_by_one)
            if measured is None:
                raise _UnmeasuredError("this torch doesn't tell the profiler's events.")
            share = measured.share()
            profiled = None
            if is_profile:
                eager = Repeated(lambda: workload.make_again(call, is_eager=True), compiled.restore)
                profiled = _profiled(measured, measure_kernels(eager))
        self._events.write("kernels", share)
        if profiled is not None:
            self._events.write("profiled_call", profiled)
            if profiled.kernels:
                self._report_unknown_lines()
        if share.launches is None:
            message = "The time in kernels is unknown: without CUPTI torch.profiler sees none on a CUDA device."
            self._events.gap("kernels", message)
        elif is_disturbed(share):
            times = share.call_us / (share.unprofiled_us or 1.0)
            message = (
                f"Times of kernels are too long: other work made the profiled call take {times:.0f} times as long."
            )
            self._events.gap("kernels", message)

    def _report_unknown_lines(self) -> None:
        codegen, backend = self._workload.codegen, self._request["backend"]
        if codegen is not None and codegen.failure is not None:
            reason = f"looking at them raised {codegen.failure}"
            self._events.gap("kernels", f"Which lines some kernels compute is unknown: {reason}.")
        elif self._workload.activity.compiles and codegen is not None and not codegen.graphs:
            who = f"the backend {backend!r} generates no code"
            reason = "Inductor generated no code" if backend == "inductor" else who
            self._events.gap("kernels", f"Which lines the kernels compute is unknown: {reason}.")

    def memory(self, call: Call) -> None:
        """Memory of the last call once it is steady, with backward where asked for."""
        workload = self._workload
        with RandomState():
            compiled = self._repeated(call)
            with self._steady(compiled):
                # What earlier calls left behind is none of this one's.
                gc.collect()
                peak = PeakMemory()
                compiled.make()
                peak_bytes = peak.bytes()
                compiled.put_back()
                saved_bytes = self._kept(compiled, call)
            eager_saved_bytes = kept_bytes(lambda: workload.forward(call, is_eager=True))
            compiled.put_back()
        self._events.write(
            "memory",
            MeasuredMemory(
                peak_of=peak.peak_of,
                before_bytes=peak.before_bytes,
                peak_bytes=peak_bytes,
                saved_bytes=saved_bytes,
                eager_saved_bytes=eager_saved_bytes,
            ),
        )

    def calibrate(self) -> None:
        """What the device reaches, in the dtypes of the program's matrix products."""
        self._events.phase("measuring what the device reaches")
        device = torch.device("cuda") if torch_api.uses_cuda() else torch.device("cpu")
        try:
            known = [Calibration(**each) for each in self._request["calibrations"]]
            self._events.write("calibration", calibrate(device, self._workload.code.factor_dtypes, known))
        except (RuntimeError, MemoryError) as error:
            self._events.gap("kernels", f"What the device reaches was not measured: {type_name(error)}.")

    def _repeated(self, call: Call) -> Repeated:
        """The compiled call, which leaves its arguments as they were."""
        make = partial(self._workload.make_again, call)
        return Repeated(make, restorer(call, make))

    def _kept(self, compiled: Repeated, call: Call) -> int | None:
        def measure() -> int | None:
            found = kept_bytes(lambda: self._workload.forward(call))
            compiled.put_back()
            return found

        # A CUDA graph keeps tensors where it kept those of the call before, so they wouldn't be new.
        return self._one_by_one(measure) if self._workload.cuda_graphs is not None else measure()

    def _one_by_one(self, measure: Callable[[], _Found]) -> _Found | None:
        """Measure while what CUDA graphs launch at once is launched kernel by kernel; None if this torch can't."""
        try:
            undo = launch_one_by_one()
        except AttributeError as error:
            self._events.gap(*hook_gap("what is in CUDA graphs", error))
            return None
        try:
            return measure()
        finally:
            undo()


def _profiled(measured: MeasuredKernels, eager: MeasuredKernels | None) -> ProfiledCall:
    runs, kernels = measured.runs()
    return ProfiledCall(
        device=measured.best.device,
        times_us=tuple(measured.times_us),
        profiled_us=measured.best.us,
        runs=tuple(runs),
        kernels=tuple(kernels),
        eager=None
        if eager is None
        else EagerCall(
            times_us=tuple(eager.times_us),
            kernels_us=eager.best.kernels_us,
            launches=eager.best.launches,
        ),
    )
