"""What is measured once all calls came back, by repeating the last one.

These calls are ours, not the user's: what the program prints in them is dropped.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Literal, TypeVar

import torch

from ...facts.coverage import Coverage
from ...facts.kernels import KernelShare
from ...facts.profiled import Calibration, EagerCall, MeasuredMemory, ProfiledCall
from ...facts.recording import GapKind, SteadyCall
from ...facts.run import Phase
from ..events import EventFile
from ..measure.calibration import calibrate
from ..measure.kernels import MeasuredKernels, Repeated, is_disturbed, measure_kernels, seen_call
from ..measure.memory import PeakMemory, kept_bytes
from ..measure.timing import Settling, settle
from ..record.reports import hook_gap
from ..record.streams import silence
from ..record.tracebacks import type_name
from ..target.snapshot import RandomState, State
from ..target.targets import Call
from ..torch_private import torch_api
from ..torch_private.torch_codegen import graph_runs_marked
from ..torch_private.torch_cuda_graphs import launch_one_by_one
from ..wire import GuardCostEvent, ProbeRequest
from .lanes import Lanes
from .workload import COMPILED_AGAIN, NO_CALL, PROFILED, UNSETTLED, Workload

_Found = TypeVar("_Found")


def measure(workload: Workload, request: ProbeRequest, events: EventFile, *, lanes: Lanes | None) -> None:
    """Make the measurements that were asked for."""
    is_settled = not request["coverage"] or _measure_coverage(workload, events)
    profiling = Profiling(workload, request, events)

    def one(
        kind: Literal["guard_cost", "kernels", "memory"],
        phase: Phase,
        failed: str,
        make: Callable[[], _Found | str],
        report: Callable[[_Found, EventFile], None],
    ) -> None:
        if request[kind] and not is_settled:
            events.gap(kind, f"{failed}: {UNSETTLED}")
        elif request[kind] and (found := _measured(workload, events, phase, kind, failed, make)) is not None:
            report(found, events)

    failed = "The cost of guard checks was not measured"
    one("guard_cost", "measuring guard checks", failed, workload.measure_guards, _report_guards)
    failed = "The kernels of a steady call were not measured"
    one("kernels", "profiling kernels", failed, profiling.kernels, partial(_report_kernels, profiling))
    failed = "The memory of a steady call was not measured"
    one("memory", "measuring memory", failed, profiling.memory, lambda memory, events: events.write("memory", memory))
    if lanes is not None:
        with silence():
            lanes.repeat(is_settled=is_settled)
    if request["profile"] is not None and request["kernels"]:
        _calibrate(profiling, events)


def _measure_coverage(workload: Workload, events: EventFile) -> bool:
    def make() -> tuple[Settling, Coverage | None, SteadyCall | None] | str:
        measured = workload.measure_coverage()
        if isinstance(measured, str):
            return measured
        # Nobody asks what a trial's breaks cost.
        is_timed = workload.trial is None and measured[1] is not None
        return *measured, workload.time_graphs() if is_timed else None

    failed = "Coverage was not measured"
    if (found := _measured(workload, events, "measuring coverage", "coverage", failed, make)) is None:
        return True
    settling, measured, steady = found
    _report_settling(settling, events)
    if measured is not None:
        events.write("coverage", measured)
    if steady is not None:
        events.write("steady_call", steady)
    return settling.is_settled


def _report_settling(settling: Settling, events: EventFile) -> None:
    events.write("settling", compiles=settling.compiles, is_over_limit=settling.is_over_limit)
    if settling.is_settled:
        return
    what = "the last call compiled something each time it was repeated"
    if settling.is_over_limit:
        what = "repeating the last call took a function over torch's recompile limit, which the run's calls did not"
    events.gap("unsettled", f"There is no steady call, so coverage and the cost of breaks are unknown: {what}.")


def _measured(
    workload: Workload,
    events: EventFile,
    phase: Phase,
    kind: GapKind,
    failed: str,
    measure: Callable[[], _Found | str],
) -> _Found | None:
    """What repeating the last call gives; None with a gap where it gives a reason, or raises."""
    try:
        with workload.repeating(phase):
            found = measure()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        found = f"repeating the last call raised {type_name(error)}."
    if not isinstance(found, str):
        return found
    events.gap(kind, f"{failed}: {found}")
    return None


def _report_guards(measured: tuple[GuardCostEvent, list[str]], events: EventFile) -> None:
    cost, troubles = measured
    events.write("guard_cost", **cost)
    for trouble in troubles:
        events.gap("guard_cost", f"The guard check of one compile was not measured. {trouble}.")


def _report_kernels(profiling: Profiling, measured: tuple[KernelShare, ProfiledCall | None], events: EventFile) -> None:
    share, call = measured
    events.write("kernels", share)
    if call is not None:
        events.write("profiled_call", call)
        if call.kernels and (lacking := profiling.lacks_lines()) is not None:
            events.gap("kernels", lacking)
    if share.launches is None:
        message = "The time in kernels is unknown: without CUPTI torch.profiler sees none on a CUDA device."
        events.gap("kernels", message)
    elif is_disturbed(share):
        times = share.call_us / (share.unprofiled_us or 1.0)
        message = f"Times of kernels are too long: other work made the profiled call take {times:.0f} times as long."
        events.gap("kernels", message)


def _calibrate(profiling: Profiling, events: EventFile) -> None:
    events.phase("measuring what the device reaches")
    try:
        events.write("calibration", profiling.calibration())
    except (RuntimeError, MemoryError) as error:
        events.gap("kernels", f"What the device reaches was not measured: {type_name(error)}.")


class Profiling:
    """Repeats a workload's last call to see what it runs and keeps."""

    def __init__(self, workload: Workload, request: ProbeRequest, events: EventFile) -> None:
        self._workload = workload
        self._request = request
        self._events = events

    def kernels(self) -> tuple[KernelShare, ProfiledCall | None] | str:
        """Where the time of the last call goes once it is steady, with backward where asked for."""
        workload, call = self._workload, self._workload.last_call
        if call is None:
            return NO_CALL
        if torch_api.is_profiling():
            return f"{PROFILED}."
        with RandomState():
            compiled = self._repeated(call)
            if not settle(compiled, lambda: workload.activity).is_settled:
                return UNSETTLED
            before = workload.activity
            is_profile = self._request["profile"] is not None
            around = graph_runs_marked if is_profile and workload.codegen is not None else nullcontext
            measured = measure_kernels(compiled, around)
            if measured is not None and is_profile and measured.best.graph_launches:
                measured = replace(
                    measured, one_by_one=self._one_by_one(lambda: seen_call(compiled, graph_runs_marked))
                )
            if workload.activity != before:
                return COMPILED_AGAIN
            if measured is None:
                return "this torch doesn't tell the profiler's events."
            if not is_profile:
                return measured.share(), None
            eager = Repeated(lambda: workload.make_again(call, is_eager=True), compiled.restore)
            return measured.share(), _profiled(measured, measure_kernels(eager))

    def memory(self) -> MeasuredMemory | str:
        """Memory of the last call once it is steady, with backward where asked for."""
        workload, call = self._workload, self._workload.last_call
        if call is None:
            return NO_CALL
        with RandomState():
            compiled = self._repeated(call)
            if not settle(compiled, lambda: workload.activity).is_settled:
                return UNSETTLED
            before = workload.activity
            # What earlier calls left behind is none of this one's.
            gc.collect()
            peak = PeakMemory()
            compiled.make()
            peak_bytes = peak.bytes()
            compiled.put_back()
            saved_bytes = self._kept(compiled, call)
            if workload.activity != before:
                return COMPILED_AGAIN
            eager_saved_bytes = kept_bytes(lambda: workload.forward(call, is_eager=True))
            compiled.put_back()
            return MeasuredMemory(
                peak_of=peak.peak_of,
                before_bytes=peak.before_bytes,
                peak_bytes=peak_bytes,
                saved_bytes=saved_bytes,
                eager_saved_bytes=eager_saved_bytes,
            )

    def calibration(self) -> Calibration:
        """What the device reaches, in the dtypes of the program's matrix products."""
        device = torch.device("cuda") if torch_api.uses_cuda() else torch.device("cpu")
        return calibrate(
            device, self._workload.code.factor_dtypes, [Calibration(**each) for each in self._request["calibrations"]]
        )

    def lacks_lines(self) -> str | None:
        """Why lines of a profile's kernels are unknown, a sentence; None if they aren't, or nothing was compiled."""
        codegen = self._workload.codegen
        if codegen is not None and codegen.failure is not None:
            return f"Which lines some kernels compute is unknown: looking at them raised {codegen.failure}."
        if not self._workload.activity.compiles or codegen is None or codegen.graphs:
            return None
        backend = self._request["backend"]
        who = "Inductor generated no code" if backend == "inductor" else f"the backend {backend!r} generates no code"
        return f"Which lines the kernels compute is unknown: {who}."

    def _repeated(self, call: Call) -> Repeated:
        state = State(None, call)
        self._workload.make_again(call)
        is_changed = state.is_changed()
        state.restore()
        return Repeated(lambda: self._workload.make_again(call), state.restore if is_changed else None)

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
