"""One probe session: import the target, make its calls under ``torch.compile``, measure coverage, report how it went.

Comes in: the request, a JSON file that ``graphdoctor.trials.launch`` wrote. Goes out: torch's trace log with our
records in it, and the events. torch is imported inside ``main``, after the event file is open, so that an environment
without it is reported like any other trouble.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import resource
import select
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..events import EventFile
from ..record.streams import flush, silence
from ..record.tracebacks import formatted, message_of, text_of, traceback_text, type_name, without_probe
from ..target.errors import RequestError, TargetError
from ..wire import CRASH_FILE, EVENTS_FILE, EXIT_UNWRITABLE, READS_FILE, ProbeRequest
from .process import hold

if TYPE_CHECKING:
    from ..replay.trial import Trial
    from ..steps.workload import Workload

_Complain = Callable[[str], object]
_EXIT_FINISHED = 0
_EXIT_TARGET_FAILED = 3
"""The target failed; the events report how. Not 1 or 2, which a program's own ``sys.exit`` may use."""


def main(request_path: Path) -> int:
    """Run the session that a request file describes."""
    return reported(request_path, _run)


def reported(request_path: Path, run: Callable[[Any, Path, EventFile, _Complain], int]) -> int:
    """Do what a request file asks for; whatever happens becomes an event."""
    request = json.loads(request_path.read_text())
    try:
        events = EventFile(request_path.parent / EVENTS_FILE)
        # The parent shows it, less our own lines.
        crash = (request_path.parent / CRASH_FILE).open("w")
    except OSError:
        return EXIT_UNWRITABLE
    hold(str(request_path.parent))
    # The program may close or replace its own.
    complain = partial(_complain, os.dup(1))
    status = _survived(run, request, request_path.parent, events, crash, complain)
    return status if events.error is None else EXIT_UNWRITABLE


def _survived(
    run: Callable[[Any, Path, EventFile, _Complain], int],
    request: Any,  # noqa: ANN401 - JSON
    folder: Path,
    events: EventFile,
    crash: IO[str],
    complain: _Complain,
) -> int:
    events.write("process", pid=os.getpid())
    faulthandler.enable(file=crash)
    try:
        return run(request, folder, events, complain)
    except KeyboardInterrupt:
        events.write("interrupted")
        return 130
    except SystemExit as error:
        _report_exit(error, events)
        return _EXIT_TARGET_FAILED
    except BaseException as error:  # noqa: BLE001 - whatever the program raises is reported, never lost
        _report_failure(error, events, complain)
        return _EXIT_TARGET_FAILED


def _run(request: ProbeRequest, folder: Path, events: EventFile, complain: _Complain) -> int:
    # What a script would see, without the probe's own arguments.
    sys.argv[:] = [request["file"] or request["module"] or ""]
    events.phase("importing torch")
    import torch

    from ..record import reports
    from ..steps.calls import make_calls
    from ..steps.lanes import Lanes
    from ..steps.measurements import measure
    from ..steps.preparation import benched_of, workload_of
    from ..steps.vary import Varying

    reads = None
    if request["reads"]:
        from ..record.reads import Reads

        reads = Reads()
    reports.report_environment(events, _device_name(torch))
    if request["trial"] and "bench" in request["trial"]:
        with silence():
            benched_of(request, events).run()
        events.write("finished", is_complete=True)
        return _EXIT_FINISHED
    workload = workload_of(request, events)
    events.write("target", **workload.description)
    if workload.trial is not None and workload.trial.export is not None:
        return _export(workload, request, workload.trial, events, complain)
    workload.warm_up()
    varying = Varying(workload, request, events) if request["vary"] else None
    lanes = Lanes(workload, events) if request["lanes"] else None
    config = reports.report_config(events, has_kernels=_looks_at_kernels(request))
    with _kept_texts(workload) as texts:
        is_complete = make_calls(workload, events, complain=complain, varying=varying, lanes=lanes)
    reports.report_config(events, config, has_kernels=_looks_at_kernels(request))
    trial = workload.trial
    if is_complete and trial is not None and trial.timing is not None:
        events.phase("timing the last call")
        with silence():
            workload.serve_times(trial.timing)
        workload.report_cuda_graphs()
        events.write("finished", is_complete=True)
        return _EXIT_FINISHED
    if is_complete and trial is not None:
        _compare(workload, trial, events, texts())
    if is_complete and varying is not None:
        with silence():
            varying.run()
    if (unrecorded := workload.unrecorded()) is not None:
        events.gap(*unrecorded)
    if is_complete and not workload.is_decided:
        measure(workload, request, events, lanes=lanes)
    workload.report_cuda_graphs()
    reports.report_float32_precision(events)
    reports.report_failures(workload.listener, workload.recompiles, workload.keeper, events)
    if reads is not None:
        reads.write(folder / READS_FILE)
    return _finish(events, is_complete=is_complete)


def _finish(events: EventFile, *, is_complete: bool) -> int:
    events.write("finished", is_complete=is_complete, peak_memory_bytes=_peak_memory_bytes())
    return _EXIT_FINISHED if is_complete else _EXIT_TARGET_FAILED


def _looks_at_kernels(request: ProbeRequest) -> bool:
    return request["kernels"] or request["stages"] or request["profile"] is not None


def _export(workload: Workload, request: ProbeRequest, trial: Trial, events: EventFile, complain: _Complain) -> int:
    """Export the target, make the calls with the result, and compare what they returned and wrote."""
    from ..record import reports
    from ..steps.calls import make_calls
    from ..steps.exporting import Exporting

    exporting = Exporting(workload, request, trial.export or {}, events)
    is_complete = True
    if exporting.run():
        with _kept_texts(workload) as texts:
            is_complete = make_calls(workload, events, complain=complain)
        exporting.finish()
        if is_complete:
            _compare(workload, trial, events, texts())
    reports.report_failures(workload.listener, workload.recompiles, workload.keeper, events)
    return _finish(events, is_complete=is_complete)


def _compare(workload: Workload, trial: Trial, events: EventFile, texts: Mapping[str, str]) -> None:
    events.phase("comparing results")
    found = trial.finish(texts)
    if trial.is_steady_timed:
        try:
            with workload.repeating("timing the last call"):
                found = found.model_copy(update={"steady_us": workload.steady_us()})
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the calls themselves went well
            events.gap("steady_time", f"The last call was not timed: repeating it raised {type_name(error)}.")
    events.write("trial", found)


@contextlib.contextmanager
def _kept_texts(workload: Workload) -> Iterator[Callable[[], Mapping[str, str]]]:
    from ..record.streams import kept_texts

    if workload.trial is None:
        yield dict
        return
    with kept_texts() as texts:
        yield texts


def _peak_memory_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _device_name(torch: Any) -> str | None:  # noqa: ANN401
    with contextlib.suppress(Exception):  # a broken driver must not prevent a diagnosis on the CPU
        if torch.cuda.is_available():
            return str(torch.cuda.get_device_name(0))
    return None


def _report_failure(error: BaseException, events: EventFile, complain: _Complain) -> None:
    complain("")
    if isinstance(error, RequestError):
        events.write("error", code=error.code, values=error.values)
        return
    if isinstance(error, TargetError):
        events.write("error", message=message_of(error), hint=error.hint)
        return
    text = traceback_text(error)
    complain(text)
    events.write("error", type=type_name(error), message=message_of(error), traceback=text)


def _report_exit(error: SystemExit, events: EventFile) -> None:
    """Do what Python does at ``sys.exit``: print a message that isn't a status. Report where it was called."""
    if error.code is not None and not isinstance(error.code, int):
        _print_error(f"{text_of(error.code)}\n")
    report = without_probe(traceback.TracebackException.from_exception(error))
    place = f"{report.stack[-1].filename}:{report.stack[-1].lineno}" if report.stack else None
    events.write("exited", status=_exit_status(error.code), place=place, traceback=formatted(report))


def _exit_status(code: object) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else 1


def _complain(output: int, text: str) -> None:
    """Print an error of the program's; without a reader of what it prints, end at once.

    Whoever started us is gone then, and the error can be the broken pipe, which isn't the program's fault.
    """
    reader = select.poll()
    reader.register(output, select.POLLERR)
    if reader.poll(0):
        os._exit(_EXIT_TARGET_FAILED)
    _print_error(text)


def _print_error(text: str) -> None:
    """Write to standard error past ``sys.stderr``, which the program may have closed, replaced or removed."""
    flush()
    with contextlib.suppress(OSError):
        os.write(2, text.encode("utf-8", "backslashreplace"))
