"""The user's calls, made one after the other until one fails, and what is asked for after them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from ...facts.recording import CallError
from ..events import EventFile
from ..measure.timing import serve, steady_us
from ..record import reports
from ..record.describe import arguments_text
from ..record.errors import TargetError, described_error, message_of, traceback_text, type_name
from ..record.streams import kept_texts, silence
from ..target.targets import Call
from ..torch_private import torch_api
from ..wire import ProbeRequest
from .lanes import Lanes
from .measurements import measure
from .vary import Varying
from .workload import Workload

if TYPE_CHECKING:
    from ..replay.trial import Trial

Complain = Callable[[str], object]
"""Prints an error of the program's."""


def run(workload: Workload, request: ProbeRequest, events: EventFile, complain: Complain, lanes: Lanes | None) -> bool:
    """Make the calls, and everything that is asked for after them; whether every call that was made came back."""
    trial = workload.trial
    varying = Varying(workload, request, events) if request["vary"] else None
    has_kernels = request["kernels"] or request["stages"] or request["profile"] is not None
    config = reports.report_config(events, has_kernels=has_kernels)
    with kept(trial) as texts:
        is_complete = make_calls(workload, events, complain, varying=varying, lanes=lanes)
    reports.report_config(events, config, has_kernels=has_kernels)
    if is_complete and trial is not None and trial.timing is not None:
        events.phase("timing the last call")
        if (call := workload.last_call) is not None:
            with silence():
                serve(lambda: workload.make_again(call), lambda: workload.activity, trial.timing)
        _report_cuda_graphs(workload, events)
        return True
    if is_complete and trial is not None:
        compare(workload, trial, events, texts())
    if is_complete and varying is not None:
        with silence():
            varying.run()
    if (unrecorded := workload.unrecorded()) is not None:
        events.gap(*unrecorded)
    if is_complete and not workload.is_decided:
        measure(workload, request, events, lanes=lanes)
    _report_cuda_graphs(workload, events)
    reports.report_float32_precision(events)
    reports.report_failures(workload.listener, workload.recompiles, workload.keeper, events)
    return is_complete


def _report_cuda_graphs(workload: Workload, events: EventFile) -> None:
    if workload.cuda_graphs is not None:
        workload.cuda_graphs.report(events)


@contextlib.contextmanager
def kept(trial: Trial | None) -> Iterator[Callable[[], Mapping[str, str]]]:
    """Keep what a trial's program writes in its calls, by kind of result; a plain run's goes where it always goes."""
    if trial is None:
        yield dict
        return
    with kept_texts() as texts:
        yield texts


def compare(workload: Workload, trial: Trial, events: EventFile, texts: Mapping[str, str]) -> None:
    """Compare what the calls returned and wrote before any is repeated; then time the last one if asked to."""
    events.phase("comparing results")
    found = trial.finish(texts)
    if trial.is_steady_timed:
        try:
            with workload.repeating("timing the last call"):
                call = workload.last_call
                make = None if call is None else lambda: workload.forward(call)
                steady = None if make is None else steady_us(make, lambda: workload.activity)
            found = found.model_copy(update={"steady_us": steady})
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the calls themselves went well
            events.gap("steady_time", f"The last call was not timed: repeating it raised {type_name(error)}.")
    events.write("trial", found)


def make_calls(
    workload: Workload,
    events: EventFile,
    complain: Complain,
    *,
    varying: Varying | None = None,
    lanes: Lanes | None = None,
) -> bool:
    """Make the user's calls in order; stop at the first that fails, or that decides a trial."""
    calls = workload.calls()
    index = 0
    while not workload.is_decided:
        index += 1
        if varying is not None and varying.is_enough:
            return True
        events.call_phase("making the inputs of call {index}", index)
        call = next(calls, None)
        if call is None or (varying is not None and not varying.keep(call)):
            return True
        if lanes is not None:
            lanes.keep(call)
        events.call_phase("call {index}", index)
        workload.mark("start", index, inputs=arguments_text(*call))
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
            _report_failed(error, index, duration_s, call, workload, events, complain)
            return False
        workload.mark("end", index, outcome="ok", duration_s=duration_s)
        workload.listener.write_sources()
        workload.keep_results()
    return True


def _report_failed(
    error: BaseException,
    index: int,
    duration_s: float,
    call: Call,
    workload: Workload,
    events: EventFile,
    complain: Complain,
) -> None:
    raised, is_refused = described_error(error), torch_api.is_compiler_error(error)
    described = CallError(**raised, from_compiler=is_refused)
    complain(described.traceback)
    # Before the trial: that may hang or crash.
    workload.mark("end", index, outcome="error", duration_s=duration_s, error=described)
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
    described = described.model_copy(update=tried)
    workload.mark("end", index, outcome="error", duration_s=duration_s, error=described)
