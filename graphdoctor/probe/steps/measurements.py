"""What is measured once all calls came back, by repeating the last one; what the program prints
then is dropped.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar

import torch

from ...facts.counts import Coverage
from ...facts.profiled import Calibration, EagerCall, MeasuredMemory, ProfiledCall
from ...facts.recording import Settling
from ...facts.run import Phase
from ..measure import coverage
from ..measure.calibration import calibrate
from ..measure.guard_cost import CheckTimer, spread, time_searches
from ..measure.kernels import (
    MeasuredKernels,
    Repeated,
    is_disturbed,
    measure_kernels,
    seen_call,
    with_lines,
)
from ..measure.memory import PeakMemory, kept_bytes
from ..measure.timing import settle, time_calls
from ..record.errors import type_name
from ..record.files import is_user_file
from ..record.reports import hook_gap
from ..record.streams import silence
from ..target.snapshot import RandomState, restorer
from ..target.targets import Call
from ..torch_private import torch_api
from ..torch_private.torch_codegen import graph_runs_marked
from ..torch_private.torch_cuda_graphs import launch_one_by_one
from .lanes import Lanes
from .workload import UnmeasuredError, Workload

_Found = TypeVar("_Found")

_CALL_BUDGET_S = 2.0
_UNSETTLED = "the last call compiles something each time it is repeated"
_PROFILED = "the program runs a profiler, and only one can run at a time"


def measure(workload: Workload, lanes: Lanes | None) -> None:
    """Make the measurements that were asked for."""
    request = workload.request
    settling = None
    if request["coverage"]:
        make_covered = partial(_covered, workload)
        settling = workload.repeated(
            "coverage", "measuring coverage", "Coverage was not measured", make_covered
        )
    # Of a call that never is steady, nothing else that is measured would be true of the program.
    is_settled = settling is None or settling.is_settled
    asked: Sequence[
        tuple[
            Literal["guard_cost", "kernels", "memory"], Phase, str, Callable[[Workload, Call], None]
        ]
    ] = (
        (
            "guard_cost",
            "measuring guard checks",
            "The cost of guard checks was not measured",
            _guards,
        ),
        (
            "kernels",
            "profiling kernels",
            "The kernels of a steady call were not measured",
            _kernels,
        ),
        ("memory", "measuring memory", "The memory of a steady call was not measured", _memory),
    )
    for kind, phase, failed, make in asked:
        if request[kind] and is_settled:
            workload.repeated(kind, phase, failed, partial(make, workload))
        elif request[kind]:
            workload.events.gap(kind, f"{failed}: {_UNSETTLED}.")
    if lanes is not None:
        with silence():
            lanes.repeat(is_settled=is_settled)
    # Nobody asks what a trial could reach.
    if request["profile"] is not None and request["kernels"] and workload.trial is None:
        _calibrate(workload)


@contextlib.contextmanager
def _steady(workload: Workload, make: Callable[[], object]) -> Iterator[None]:
    """Repeat a call until it is steady; it must stay so."""
    if not settle(make, lambda: workload.activity).is_settled:
        raise UnmeasuredError(_UNSETTLED)
    before = workload.activity
    yield
    if workload.activity != before:
        raise UnmeasuredError("the last call compiled something again while it was measured")


def _covered(workload: Workload, call: Call) -> Settling:
    if (graphs := workload.graphs) is None:
        raise UnmeasuredError("this torch doesn't tell where graphs run")
    counted: list[Coverage] = []
    if torch_api.is_profiling():
        raise UnmeasuredError(_PROFILED)

    def make() -> None:
        # The first repetition is measured at once: most calls are steady by then.
        counted.append(coverage.measure(partial(workload.forward, call), graphs))

    settling = settle(make, lambda: workload.activity)
    before, timed = workload.activity, None
    # Nobody asks what a trial's breaks cost.
    if settling.is_settled and workload.trial is None:
        timed = coverage.time_runs(partial(workload.forward, call), graphs)
    workload.events.write("settling", settling)
    if not settling.is_settled:
        why = "the last call compiled something each time it was repeated"
        if settling.is_over_limit:
            took = "repeating the last call took a function over torch's recompile limit"
            why = f"{took}, which the run's calls did not"
        message = f"There is no steady call, so coverage and the cost of breaks are unknown: {why}."
        workload.events.gap("unsettled", message)
        return settling
    extra = {"extra_calls": len(settling.compiles), "extra_compiles": sum(settling.compiles)}
    workload.events.write("coverage", counted[-1].replace(**extra))
    if timed is not None and workload.activity == before:
        workload.events.write("steady_call", timed)
    return settling


def _guards(workload: Workload, call: Call) -> None:
    make = partial(workload.forward, call)
    assert workload.compiled_code is not None
    if sys.getprofile() is not None:
        raise UnmeasuredError(_PROFILED)
    with RandomState(), _steady(workload, make):
        times_us = [
            1e6 * seconds for seconds in time_calls(make, seconds=_CALL_BUDGET_S, most=200, least=5)
        ]
        reason, searches = _PROFILED, None
        if not torch_api.is_profiling():
            reason, searches = "this torch doesn't tell the profiler's ranges", time_searches(make)
        if searches is None:
            workload.events.gap(
                "guard_cost", f"Guard checks were timed only by repeating them: {reason}."
            )
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
    workload.events.write("guard_cost", **cost)
    for trouble in timer.troubles:
        workload.events.gap(
            "guard_cost", f"The guard check of one compile was not measured. {trouble}."
        )


def _kernels(workload: Workload, call: Call) -> None:
    if torch_api.is_profiling():
        raise UnmeasuredError(_PROFILED)
    is_profile = workload.request["profile"] is not None
    with RandomState():
        compiled = _repeated(workload, call)
        with _steady(workload, compiled):
            around = (
                graph_runs_marked
                if is_profile and workload.codegen is not None
                else contextlib.nullcontext
            )
            measured = measure_kernels(compiled, around)
            if measured is not None and is_profile and measured.best.graph_launches:
                one_by_one = _one_by_one(workload, lambda: seen_call(compiled, graph_runs_marked))
                measured = replace(measured, one_by_one=one_by_one)
        if measured is None:
            raise UnmeasuredError("this torch doesn't tell the profiler's events")
        share = measured.share()
        if not workload.is_compiled:
            # A mode of the program's own may not bear another; lines are worth no measurement.
            with contextlib.suppress(Exception):
                share = with_lines(share, compiled, is_user_file)
        profiled = None
        if is_profile:
            eager = Repeated(lambda: workload.make_again(call, is_eager=True), compiled.restore)
            profiled = _profiled(measured, measure_kernels(eager))
    workload.events.write("kernels", share)
    if profiled is not None:
        workload.events.write("profiled_call", profiled)
        if profiled.kernels:
            _report_unknown_lines(workload)
    if share.launches is None:
        message = "The time in kernels is unknown: without CUPTI torch.profiler sees none on a CUDA device."
        workload.events.gap("kernels", message)
    elif is_disturbed(share):
        times = share.call_us / (share.unprofiled_us or 1.0)
        message = f"Times of kernels are too long: other work made the profiled call take {times:.0f} times as long."
        workload.events.gap("kernels", message)


def _report_unknown_lines(workload: Workload) -> None:
    codegen, backend = workload.codegen, workload.request["backend"]
    if codegen is not None and (
        codegen.failure is not None or (workload.activity.compiles and not codegen.graphs)
    ):
        reason = f"the backend {backend!r} generated no code"
        if codegen.failure is not None:
            reason = f"looking at some raised {codegen.failure}"
        workload.events.gap("kernels", f"Which lines kernels compute is unknown: {reason}.")


def _memory(workload: Workload, call: Call) -> None:
    with RandomState():
        compiled = _repeated(workload, call)
        with _steady(workload, compiled):
            # What earlier calls left behind is none of this one's.
            gc.collect()
            peak = PeakMemory()
            compiled.make()
            peak_bytes = peak.bytes()
            compiled.restore()
            saved_bytes = _kept(workload, compiled, call)
        eager_saved_bytes = kept_bytes(lambda: workload.forward(call, is_eager=True))
        compiled.restore()
    workload.events.write(
        "memory",
        MeasuredMemory(
            peak_of=peak.peak_of,
            before_bytes=peak.before_bytes,
            peak_bytes=peak_bytes,
            saved_bytes=saved_bytes,
            eager_saved_bytes=eager_saved_bytes,
        ),
    )


def _calibrate(workload: Workload) -> None:
    workload.events.phase("measuring what the device reaches")
    device = torch.device("cuda") if torch_api.uses_cuda() else torch.device("cpu")
    try:
        known = [Calibration(**each) for each in workload.request["calibrations"]]
        code = workload.code
        workload.events.write(
            "calibration", calibrate(device, code.factor_dtypes, code.elementwise, known)
        )
    except (RuntimeError, MemoryError) as error:
        workload.events.gap(
            "kernels", f"What the device reaches was not measured: {type_name(error)}."
        )


def _repeated(workload: Workload, call: Call) -> Repeated:
    make = partial(workload.make_again, call)
    return Repeated(make, restorer(call, make) or (lambda: None))


def _kept(workload: Workload, compiled: Repeated, call: Call) -> int | None:
    def measure() -> int | None:
        found = kept_bytes(lambda: workload.forward(call))
        compiled.restore()
        return found

    # A CUDA graph keeps tensors where it kept those of the call before, so they wouldn't be new.
    return _one_by_one(workload, measure) if workload.cuda_graphs is not None else measure()


def _one_by_one(workload: Workload, measure: Callable[[], _Found]) -> _Found | None:
    """Measure while what CUDA graphs launch at once is launched kernel by kernel; None if this
    torch can't.
    """
    try:
        undo = launch_one_by_one()
    except AttributeError as error:
        workload.events.gap(*hook_gap("what is in CUDA graphs", error))
        return None
    try:
        return measure()
    finally:
        undo()


def _profiled(measured: MeasuredKernels, eager: MeasuredKernels | None) -> ProfiledCall:
    runs, kernels = measured.runs()
    return ProfiledCall(
        device=measured.share().device,
        times_us=tuple(measured.times_us),
        profiled_us=measured.best.us,
        runs=tuple(runs),
        kernels=tuple(kernels),
        eager=None
        if eager is None
        else EagerCall(
            times_us=tuple(eager.times_us),
            kernels_us=eager.share().kernels_us,
            launches=eager.best.launches,
        ),
    )
