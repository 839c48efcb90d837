"""What is measured once all calls came back, by repeating the last one.

These calls are ours, not the user's: what the program prints in them is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ..events import EventFile
from ..measure.kernels import is_disturbed
from ..measure.settling import Settling
from ..record.streams import silence
from ..record.tracebacks import type_name
from ..wire import GapKind, Phase, ProbeRequest, SettlingEvent
from .lanes import Lanes
from .profiling import Profiling
from .workload import UNSETTLED, Workload

_Found = TypeVar("_Found")


def measure(workload: Workload, request: ProbeRequest, events: EventFile, *, lanes: Lanes | None) -> None:
    """Make the measurements that were asked for."""
    is_settled = not request["coverage"] or _measure_coverage(workload, events)
    profiling = Profiling(workload, request, events)
    if request["guard_cost"]:
        if is_settled:
            _measure_guards(workload, events)
        else:
            events.gap("guard_cost", f"The cost of guard checks was not measured: {UNSETTLED}")
    if request["kernels"]:
        if is_settled:
            _measure_kernels(profiling, workload, events)
        else:
            events.gap("kernels", f"The kernels of a steady call were not measured: {UNSETTLED}")
    if request["memory"]:
        if is_settled:
            _measure_memory(profiling, workload, events)
        else:
            events.gap("memory", f"The memory of a steady call was not measured: {UNSETTLED}")
    if lanes is not None:
        with silence():
            lanes.repeat(is_settled=is_settled)
    if request["profile"] is not None and request["kernels"]:
        _calibrate(profiling, events)


def _measure_coverage(workload: Workload, events: EventFile) -> bool:
    """Repeat the last call under the profiler until it is steady.

    Returns:
        False if the call never gets steady; then nothing else that is measured of it would be true of the program.
    """
    events.phase("measuring coverage")
    workload.mark_start(None)
    is_settled = True
    try:
        with silence():
            measured = workload.measure_coverage()
            # Nobody asks what a trial's breaks cost.
            is_timed = workload.trial is None and not isinstance(measured, str) and measured[1] is not None
            timed = workload.time_graphs() if is_timed else None
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        events.gap("coverage", f"Coverage was not measured: repeating the last call raised {type_name(error)}.")
    else:
        if isinstance(measured, str):
            events.gap("coverage", f"Coverage was not measured: {measured}")
        else:
            settling, coverage = measured
            is_settled = settling.is_settled
            _report_settling(settling, events)
            if coverage is not None:
                events.write(coverage)
            if timed is not None:
                events.write(timed)
    workload.mark_end(None)
    return is_settled


def _report_settling(settling: Settling, events: EventFile) -> None:
    events.write(
        SettlingEvent(event="settling", compiles=list(settling.compiles), is_over_limit=settling.is_over_limit)
    )
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
    events.phase(phase)
    workload.mark_start(None)
    try:
        with silence():
            found = measure()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        found = f"repeating the last call raised {type_name(error)}."
    workload.mark_end(None)
    if not isinstance(found, str):
        return found
    events.gap(kind, f"{failed}: {found}")
    return None


def _measure_guards(workload: Workload, events: EventFile) -> None:
    failed = "The cost of guard checks was not measured"
    measured = _measured(workload, events, "measuring guard checks", "guard_cost", failed, workload.measure_guards)
    if measured is None:
        return
    cost, troubles = measured
    events.write(cost)
    for trouble in troubles:
        events.gap("guard_cost", f"The guard check of one compile was not measured. {trouble}.")


def _measure_kernels(profiling: Profiling, workload: Workload, events: EventFile) -> None:
    failed = "The kernels of a steady call were not measured"
    measured = _measured(workload, events, "profiling kernels", "kernels", failed, profiling.kernels)
    if measured is None:
        return
    share, call = measured
    events.write(share)
    if call is not None:
        events.write(call)
        if call["kernels"] and (lacking := profiling.lacks_lines()) is not None:
            events.gap("kernels", lacking)
    if share["launches"] is None:
        message = "The time in kernels is unknown: without CUPTI torch.profiler sees none on a CUDA device."
        events.gap("kernels", message)
    elif is_disturbed(share):
        times = share["call_us"] / share["unprofiled_us"]
        message = f"Times of kernels are too long: other work made the profiled call take {times:.0f} times as long."
        events.gap("kernels", message)


def _measure_memory(profiling: Profiling, workload: Workload, events: EventFile) -> None:
    failed = "The memory of a steady call was not measured"
    measured = _measured(workload, events, "measuring memory", "memory", failed, profiling.memory)
    if measured is not None:
        events.write(measured)


def _calibrate(profiling: Profiling, events: EventFile) -> None:
    events.phase("measuring what the device reaches")
    try:
        events.write(profiling.calibration())
    except (RuntimeError, MemoryError) as error:
        events.gap("kernels", f"What the device reaches was not measured: {type_name(error)}.")
