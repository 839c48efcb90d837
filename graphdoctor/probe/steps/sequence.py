"""What is done with a workload, one step after the other: its calls, then what is measured.

A child process does it, and so does a process of the user's that asked for it (``inside.py``).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..events import EventFile
from ..record.environment import describe_environment
from ..record.streams import silence
from ..record.tracebacks import described_error, message_of, traceback_text, type_name
from ..target.errors import TargetError
from ..target.targets import Call
from ..torch_private import torch_api
from ..torch_private.torch_config import changed_config
from .workload import Workload

if TYPE_CHECKING:
    from ..record.guards import RecompileRecorder
    from ..record.listener import TraceListener
    from .lanes import Lanes
    from .vary import Varying


def tell_environment(events: EventFile, device_name: str | None) -> None:
    """Say where the target runs, and what this torch lacks.

    Args:
        events: Where to say it.
        device_name: Name of the first CUDA device, or None.
    """
    missing = torch_api.missing()
    events.write("environment", **describe_environment(device_name))
    for name, purpose in missing.items():
        events.write("gap", message=f"This torch has no {name}: {purpose} is not available.")
    if torch_api.is_compile_disabled():
        events.write("gap", message="TORCH_COMPILE_DISABLE is set: torch.compile does nothing, so there are no graphs.")


def make_calls(
    workload: Workload,
    events: EventFile,
    *,
    complain: Callable[[str], object],
    varying: Varying | None = None,
    lanes: Lanes | None = None,
) -> bool:
    """Make the user's calls in order; stop at the first that fails.

    Args:
        workload: Makes them.
        events: Where to say what is being done.
        complain: Shows the traceback of a call that failed.
        varying: Keeps the first call in order to vary it; then it is the only one.
        lanes: Notes where the time of each call goes.

    Returns:
        Whether every call came back.
    """
    calls = workload.calls()
    index = 0
    while True:
        index += 1
        if varying is not None and index > 1:
            return True
        events.phase(f"making the inputs of call {index}")
        call = next(calls, None)
        if call is None:
            return True
        if varying is not None:
            varying.keep(call)
        if lanes is not None:
            lanes.keep(call)
        events.phase(f"call {index}")
        workload.mark("start", index, inputs=workload.inputs_text(call))
        # The target's file: the call may never end.
        workload.listener.write_sources()
        started = time.perf_counter()
        error: BaseException | None = None
        try:
            with contextlib.nullcontext() if lanes is None else lanes.watched():
                workload.call(call)
        except (TargetError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:  # noqa: BLE001 - the user's program may raise anything
            error = raised
        duration_s = time.perf_counter() - started
        if lanes is not None:
            lanes.write()
        # Not while it is being handled: what the call raises without torch.compile would be told with it.
        if error is not None:
            _end_failed_call(_Failed(error, index, duration_s), call, workload, events, complain=complain)
            return False
        workload.mark("end", index, outcome="ok", duration_s=duration_s)
        workload.listener.write_sources()
        workload.keep_results()


@dataclass(frozen=True)
class _Failed:
    """How a call failed.

    Args:
        error: What it raised.
        index: The call's number.
        duration_s: Seconds until then.
    """

    error: BaseException
    index: int
    duration_s: float


def _end_failed_call(
    failed: _Failed, call: Call, workload: Workload, events: EventFile, *, complain: Callable[[str], object]
) -> None:
    """Write down how a call failed, then try the same call without torch.compile."""
    error, index = failed.error, failed.index
    described: dict[str, Any] = described_error(error) | {"from_compiler": workload.is_compiler_error(error)}
    complain(described["traceback"])
    # Before the trial: that may hang or crash.
    workload.mark("end", index, outcome="error", duration_s=failed.duration_s, error=described)
    workload.listener.write_sources()
    events.write("call_failed", index=index, **described)
    events.phase(f"trying call {index} without torch.compile")
    with silence():
        eager = workload.eager_error(call)
    described["eager"] = "ok" if eager is None else type(eager).__qualname__
    if eager is not None:
        described["eager_message"] = message_of(eager)
        if not described["from_compiler"]:
            # Dynamo's traceback shows its own tracing; this one is the program's.
            complain("\nWithout torch.compile the same call raises:\n")
            complain(traceback_text(eager))
    workload.mark("end", index, outcome="error", duration_s=failed.duration_s, error=described)


def measure(workload: Workload, request: dict[str, Any], events: EventFile, *, lanes: Lanes | None) -> None:
    """Make the extra calls that were asked for, once all calls came back."""
    if request["coverage"]:
        _measure_coverage(workload, events)
    if request["guard_cost"]:
        _measure_guards(workload, events)
    if lanes is not None:
        with silence():
            lanes.repeat()


def tell_failures(listener: TraceListener, recompiles: RecompileRecorder, events: EventFile) -> None:
    """Say what could not be looked at, which is nothing as a rule."""
    for name, count in listener.failures.items():
        events.write("gap", message=f"{count} of torch's records could not be looked at while running ({name}).")
    for name, count in recompiles.failures.items():
        events.write("gap", message=f"{count} sets of guards could not be looked at while running ({name}).")


def _measure_coverage(workload: Workload, events: EventFile) -> None:
    """Repeat the last call under the profiler until nothing is compiled.

    These calls are ours, not the user's: what the program prints in them is dropped.
    """
    events.phase("measuring coverage")
    workload.mark("start", None)
    try:
        with silence():
            measured = workload.measure_coverage()
            timed = None if isinstance(measured, str) else workload.time_graphs()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - coverage is an extra; its failure must not lose the report
        events.write("gap", message=f"Coverage was not measured: repeating the last call raised {type_name(error)}.")
    else:
        if isinstance(measured, str):
            events.write("gap", message=f"Coverage was not measured: {measured}")
        else:
            events.write("coverage", **measured)
            if timed is not None:
                events.write("steady_call", **timed)
    workload.mark("end", None)


def _measure_guards(workload: Workload, events: EventFile) -> None:
    """Repeat the last call to time its guard checks; these calls are ours as those for coverage are."""
    events.phase("measuring guard checks")
    workload.mark("start", None)
    try:
        with silence():
            measured = workload.measure_guards()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        measured = f"repeating the last call raised {type_name(error)}."
    if isinstance(measured, str):
        events.write("gap", message=f"The cost of guard checks was not measured: {measured}")
    else:
        cost, troubles = measured
        events.write("guard_cost", **cost)
        for trouble in troubles:
            events.write("gap", message=f"The guard check of one compile was not measured. {trouble}.")
    workload.mark("end", None)


def tell_config(events: EventFile, told: dict[str, str] | None = None) -> dict[str, str]:
    """Say which of torch's config values differ from their defaults, unless it was told before.

    Before the calls, since they may never end, and behind them, since they may set some.
    """
    try:
        values = changed_config()
    except Exception as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        events.write("gap", message=f"torch's config could not be read ({type_name(error)}).")
        return {}
    if values != told:
        events.write("config", values=values)
    return values
