"""What is measured once all calls came back, by repeating the last one.

These calls are ours, not the user's: what the program prints in them is dropped.
"""

from __future__ import annotations

from ..events import EventFile
from ..record.streams import silence
from ..record.tracebacks import type_name
from ..wire import ProbeRequest
from .lanes import Lanes
from .workload import Workload


def measure(workload: Workload, request: ProbeRequest, events: EventFile, *, lanes: Lanes | None) -> None:
    """Make the measurements that were asked for.

    Args:
        workload: Repeats the last call.
        request: What was asked for.
        events: Where the results go.
        lanes: Profiles the calls; None when their time isn't asked for.
    """
    if request["coverage"]:
        _measure_coverage(workload, events)
    if request["guard_cost"]:
        _measure_guards(workload, events)
    if lanes is not None:
        with silence():
            lanes.repeat()


def _measure_coverage(workload: Workload, events: EventFile) -> None:
    """Repeat the last call under the profiler until nothing is compiled."""
    events.phase("measuring coverage")
    workload.mark_start(None)
    try:
        with silence():
            measured = workload.measure_coverage()
            timed = None if isinstance(measured, str) else workload.time_graphs()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        events.gap("coverage", f"Coverage was not measured: repeating the last call raised {type_name(error)}.")
    else:
        if isinstance(measured, str):
            events.gap("coverage", f"Coverage was not measured: {measured}")
        else:
            events.write(measured)
            if timed is not None:
                events.write(timed)
    workload.mark_end(None)


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
