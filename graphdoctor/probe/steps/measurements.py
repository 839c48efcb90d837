"""What is measured once all calls came back, by repeating the last one.

These calls are ours, not the user's: what the program prints in them is dropped.
"""

from __future__ import annotations

from ..events import EventFile
from ..measure.kernels import is_disturbed
from ..measure.settling import Settling
from ..record.streams import silence
from ..record.tracebacks import type_name
from ..wire import ProbeRequest, SettlingEvent
from .lanes import Lanes
from .workload import UNSETTLED, Workload


def measure(workload: Workload, request: ProbeRequest, events: EventFile, *, lanes: Lanes | None) -> None:
    """Make the measurements that were asked for.

    Args:
        workload: Repeats the last call.
        request: What was asked for.
        events: Where the results go.
        lanes: Profiles the calls; None when their time isn't asked for.
    """
    is_settled = not request["coverage"] or _measure_coverage(workload, events)
    if request["guard_cost"]:
        if is_settled:
            _measure_guards(workload, events)
        else:
            events.gap("guard_cost", f"The cost of guard checks was not measured: {UNSETTLED}")
    if request["kernels"]:
        if is_settled:
            _measure_kernels(workload, events)
        else:
            events.gap("kernels", f"The kernels of a steady call were not measured: {UNSETTLED}")
    if request["memory"]:
        if is_settled:
            _measure_memory(workload, events)
        else:
            events.gap("memory", f"The memory of a steady call was not measured: {UNSETTLED}")
    if lanes is not None:
        with silence():
            lanes.repeat(is_settled=is_settled)
    if request["profile"] is not None and request["kernels"]:
        _calibrate(workload, events)


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


def _measure_guards(workload: Workload, events: EventFile) -> None:
    """Repeat the last call to time its guard checks."""
    events.phase("measuring guard checks")
    workload.mark_start(None)
    try:
        with silence():
            measured = workload.measure_guards()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        measured = f"repeating the last call raised {type_name(error)}."
    if isinstance(measured, str):
        events.gap("guard_cost", f"The cost of guard checks was not measured: {measured}")
    else:
        cost, troubles = measured
        events.write(cost)
        for trouble in troubles:
            events.gap("guard_cost", f"The guard check of one compile was not measured. {trouble}.")
    workload.mark_end(None)


def _measure_kernels(workload: Workload, events: EventFile) -> None:
    """Repeat the last call to see its kernels."""
    events.phase("profiling kernels")
    workload.mark_start(None)
    try:
        with silence():
            measured = workload.measure_kernels()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        measured = f"repeating the last call raised {type_name(error)}."
    if isinstance(measured, str):
        events.gap("kernels", f"The kernels of a steady call were not measured: {measured}")
    else:
        share, call = measured
        events.write(share)
        if call is not None:
            events.write(call)
            if call["kernels"] and (lacking := workload.lacks_lines()) is not None:
                events.gap("kernels", lacking)
        if share["launches"] is None:
            message = "The time in kernels is unknown: without CUPTI torch.profiler sees none on a CUDA device."
            events.gap("kernels", message)
        elif is_disturbed(share):
            times = share["call_us"] / share["unprofiled_us"]
            message = (
                f"Times of kernels are too long: other work made the profiled call take {times:.0f} times as long."
            )
            events.gap("kernels", message)
    workload.mark_end(None)


def _calibrate(workload: Workload, events: EventFile) -> None:
    """Measure what the device reaches."""
    events.phase("measuring what the device reaches")
    try:
        events.write(workload.calibrate())
    except (RuntimeError, MemoryError) as error:
        events.gap("kernels", f"What the device reaches was not measured: {type_name(error)}.")


def _measure_memory(workload: Workload, events: EventFile) -> None:
    """Repeat the last call to see what it keeps."""
    events.phase("measuring memory")
    workload.mark_start(None)
    try:
        with silence():
            measured = workload.measure_memory()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        measured = f"repeating the last call raised {type_name(error)}."
    if isinstance(measured, str):
        events.gap("memory", f"The memory of a steady call was not measured: {measured}")
    else:
        events.write(measured)
    workload.mark_end(None)
