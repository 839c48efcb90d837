"""The user's calls, made one after the other until one fails.

A child process makes them, and so does a process of the user's that asked for it (``ways_in/in_process.py``).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...facts.recording import CallError
from ..events import EventFile
from ..record.streams import silence
from ..record.tracebacks import described_error, message_of, traceback_text
from ..target.errors import TargetError
from ..target.targets import Call
from ..torch_private import torch_api
from .workload import Workload

if TYPE_CHECKING:
    from .lanes import Lanes
    from .vary import Varying


def make_calls(
    workload: Workload,
    events: EventFile,
    *,
    complain: Callable[[str], object],
    varying: Varying | None = None,
    lanes: Lanes | None = None,
) -> bool:
    """Make the user's calls in order; stop at the first that fails, or that decides a trial."""
    calls = workload.calls()
    index = 0
    while True:
        index += 1
        if varying is not None and varying.is_enough:
            return True
        events.call_phase("making the inputs of call {index}", index)
        call = next(calls, None)
        if call is None:
            return True
        if varying is not None and not varying.keep(call):
            return True
        if lanes is not None:
            lanes.keep(call)
        events.call_phase("call {index}", index)
        workload.mark_start(index, call)
        workload.switches.look(index)
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
        workload.switches.look(index)
        if lanes is not None:
            lanes.write()
        # Not while it is being handled: the traceback of the same call without torch.compile would include it.
        if error is not None:
            _end_failed_call(_Failed(error, index, duration_s), call, workload, events, complain=complain)
            return False
        workload.mark_end(index, outcome="ok", duration_s=duration_s)
        workload.listener.write_sources()
        workload.keep_results()
        if workload.is_decided:
            return True


@dataclass(frozen=True)
class _Failed:
    error: BaseException
    index: int
    duration_s: float


def _end_failed_call(
    failed: _Failed, call: Call, workload: Workload, events: EventFile, *, complain: Callable[[str], object]
) -> None:
    error, index = failed.error, failed.index
    raised = described_error(error)
    is_refused = torch_api.is_compiler_error(error)
    described = CallError(**raised, from_compiler=is_refused)
    complain(described.traceback)
    # Before the trial: that may hang or crash.
    workload.mark_end(index, outcome="error", duration_s=failed.duration_s, error=described)
    workload.listener.write_sources()
    events.write("call_failed", index=index, **raised, from_compiler=is_refused)
    events.call_phase("trying call {index} without torch.compile", index)
    with silence():
        eager = workload.error_of(call, is_eager=True)
    tried: dict[str, object] = {"eager": "ok" if eager is None else type(eager).__qualname__}
    if eager is not None:
        tried["eager_message"] = message_of(eager)
        dtype, batch = workload.changes
        if (dtype, batch) != (None, None):
            events.write("call_failed", index=index, **raised, from_compiler=is_refused, dtype=dtype, batch=batch)
        if not is_refused:
            # Dynamo's traceback shows its own tracing; this one is the program's.
            complain("\nWithout torch.compile the same call raises:\n")
            complain(traceback_text(eager))
    workload.mark_end(index, outcome="error", duration_s=failed.duration_s, error=described.model_copy(update=tried))
