"""One probe session: import the target, make its calls under ``torch.compile``, measure coverage, say how it went.

Comes in: the request, a JSON file that ``graphdoctor.capture`` wrote. Goes out: torch's trace log with our records in
it, and ``probe.jsonl``. torch is imported inside ``main``, after the event file is open, so that an environment
without it is reported like any other trouble.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import itertools
import json
import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .events import EventFile

if TYPE_CHECKING:
    from .lanes import Lanes
    from .targets import Call
    from .trial import Trial
    from .vary import Varying
    from .workload import Workload

_EXIT_FINISHED = 0
_EXIT_TARGET_FAILED = 3
"""The target failed; the events say how. Apart from 1 and 2, which a program's own ``sys.exit`` may use."""

_MAX_MESSAGE = 20_000
_MAX_PRINTED = 2**22
"""Bytes of printed text that are compared."""

_HERE = str(Path(__file__).resolve().parent)


def main(request_path: Path) -> int:
    """Run the session that a request file describes.

    Args:
        request_path: The request; the recording's folder is the one it lies in.

    Returns:
        The process's exit status; ``SystemExit`` of the user's code is turned into an event too.
    """
    request = json.loads(request_path.read_text())
    events = EventFile(request_path.parent / "probe.jsonl")
    events.write("process", pid=os.getpid())
    # The parent shows it, less our own lines.
    faulthandler.enable(file=(request_path.parent / "crash.txt").open("w"))
    # What a script would see; its own options are none of the probe's.
    sys.argv[:] = [request["file"] or request["module"]]
    try:
        return _run(request, events)
    except KeyboardInterrupt:
        events.write("interrupted")
        return 130
    except SystemExit as error:
        _report_exit(error, events)
        return _EXIT_TARGET_FAILED
    except BaseException as error:  # noqa: BLE001 - whatever the program raises is reported, never lost
        _report_failure(error, events)
        return _EXIT_TARGET_FAILED


def _run(request: dict[str, Any], events: EventFile) -> int:
    events.phase("importing torch")
    import torch

    from . import torch_api
    from .environment import describe_environment
    from .lanes import Lanes
    from .vary import Varying
    from .workload import Workload

    missing = torch_api.missing()
    events.write("environment", **describe_environment(_device_name(torch)))
    for name, purpose in missing.items():
        events.write("gap", message=f"This torch has no {name}: {purpose} is not available.")
    if torch_api.is_compile_disabled():
        events.write("gap", message="TORCH_COMPILE_DISABLE is set: torch.compile does nothing, so there are no graphs.")
    workload = Workload(request, events)
    events.write("target", **workload.description)
    if workload.trial is not None and workload.trial.has_warm_up:
        _warm_up(workload, events)
    varying = Varying(workload, request, events) if request["vary"] else None
    lanes = Lanes(workload, events) if request["lanes"] else None
    config = _tell_config(events)
    with _kept_stdout(workload) as printed:
        is_complete = make_calls(workload, events, varying=varying, lanes=lanes)
    _tell_config(events, config)
    trial = workload.trial
    if is_complete and trial is not None and trial.timing is not None:
        events.phase("timing the last call")
        with _silence():
            workload.serve_times(trial.timing)
        events.write("finished", is_complete=True)
        return _EXIT_FINISHED
    if is_complete and trial is not None:
        _compare(workload, trial, events, printed())
    if is_complete and varying is not None:
        with _silence():
            varying.run()
    if (untold := workload.untold()) is not None:
        events.write("gap", message=untold)
    if is_complete and request["coverage"]:
        measure_coverage(workload, events)
    if is_complete and request["guard_cost"]:
        measure_guards(workload, events)
    if is_complete and lanes is not None:
        with _silence():
            lanes.repeat()
    for name, count in workload.listener.failures.items():
        events.write("gap", message=f"{count} of torch's records could not be looked at while running ({name}).")
    for name, count in workload.recompiles.failures.items():
        events.write("gap", message=f"{count} sets of guards could not be looked at while running ({name}).")
    events.write("finished", is_complete=is_complete, peak_memory_bytes=_peak_memory_bytes())
    return _EXIT_FINISHED if is_complete else _EXIT_TARGET_FAILED


def _tell_config(events: EventFile, told: dict[str, str] | None = None) -> dict[str, str]:
    """Say which of torch's config values differ from their defaults, unless it was told before.

    Before the calls, since they may never end, and behind them, since they may set some.
    """
    from .torch_config import changed_config

    try:
        values = changed_config()
    except Exception as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        events.write("gap", message=f"torch's config could not be read ({_type_name(error)}).")
        return {}
    if values != told:
        events.write("config", values=values)
    return values


def _warm_up(workload: Workload, events: EventFile) -> None:
    events.phase("warming up")
    workload.mark("start", None)
    with _silence():
        workload.warm_up()
    workload.mark("end", None)


def _compare(workload: Workload, trial: Trial, events: EventFile, printed: str | None) -> None:
    """Compare what the calls gave back and printed before any is repeated; then time the last one if asked to."""
    events.phase("comparing results")
    found = trial.finish(printed)
    if trial.is_steady_timed:
        events.phase("timing the last call")
        workload.mark("start", None)
        try:
            with _silence():
                found["steady_us"] = workload.steady_us()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the calls themselves went well
            events.write("gap", message=f"The last call was not timed: repeating it raised {_type_name(error)}.")
        workload.mark("end", None)
    events.write("trial", **found)


def make_calls(
    workload: Workload, events: EventFile, *, varying: Varying | None = None, lanes: Lanes | None = None
) -> bool:
    """Make the user's calls in order; stop at the first that fails.

    Args:
        workload: Makes them.
        events: Where to say what is being done.
        varying: Keeps the first call in order to vary it; then it is the only one.
        lanes: Notes where the time of each call goes.

    Returns:
        Whether every call came back.
    """
    from .targets import TargetError

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
        try:
            with contextlib.nullcontext() if lanes is None else lanes.watched():
                workload.call(call)
        except (TargetError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - the user's program may raise anything
            duration_s = time.perf_counter() - started
            if lanes is not None:
                lanes.write()
            _end_failed_call(error, index, duration_s, call=call, workload=workload, events=events)
            return False
        workload.mark("end", index, outcome="ok", duration_s=time.perf_counter() - started)
        if lanes is not None:
            lanes.write()
        workload.listener.write_sources()
        workload.keep_results()


def _end_failed_call(
    error: BaseException, index: int, duration_s: float, *, call: Call, workload: Workload, events: EventFile
) -> None:
    """Write down how a call failed, then try the same call without torch.compile."""
    described = {
        "type": _type_name(error),
        "message": _message(error),
        "traceback": _print_user_traceback(error),
        "from_compiler": workload.is_compiler_error(error),
    }
    # Before the trial: that may hang or crash.
    workload.mark("end", index, outcome="error", duration_s=duration_s, error=described)
    workload.listener.write_sources()
    events.write("call_failed", index=index, **described)
    events.phase(f"trying call {index} without torch.compile")
    with _silence():
        eager = workload.eager_error(call)
    described["eager"] = "ok" if eager is None else type(eager).__qualname__
    if eager is not None:
        described["eager_message"] = _message(eager)
        if not described["from_compiler"]:
            # Dynamo's traceback shows its own tracing; this one is the program's.
            _print_error("\nWithout torch.compile the same call raises:\n")
            _print_user_traceback(eager)
    workload.mark("end", index, outcome="error", duration_s=duration_s, error=described)


def measure_coverage(workload: Workload, events: EventFile) -> None:
    """Repeat the last call under the profiler until nothing is compiled.

    These calls are ours, not the user's: what the program prints in them is dropped.
    """
    events.phase("measuring coverage")
    workload.mark("start", None)
    try:
        with _silence():
            measured = workload.measure_coverage()
            timed = None if isinstance(measured, str) else workload.time_graphs()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - coverage is an extra; its failure must not lose the report
        events.write("gap", message=f"Coverage was not measured: repeating the last call raised {_type_name(error)}.")
    else:
        if isinstance(measured, str):
            events.write("gap", message=f"Coverage was not measured: {measured}")
        else:
            events.write("coverage", **measured)
            if timed is not None:
                events.write("steady_call", **timed)
    workload.mark("end", None)


def measure_guards(workload: Workload, events: EventFile) -> None:
    """Repeat the last call to time its guard checks; these calls are ours as those for coverage are."""
    events.phase("measuring guard checks")
    workload.mark("start", None)
    try:
        with _silence():
            measured = workload.measure_guards()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        measured = f"repeating the last call raised {_type_name(error)}."
    if isinstance(measured, str):
        events.write("gap", message=f"The cost of guard checks was not measured: {measured}")
    else:
        cost, troubles = measured
        events.write("guard_cost", **cost)
        for trouble in troubles:
            events.write("gap", message=f"The guard check of one compile was not measured. {trouble}.")
    workload.mark("end", None)


@contextlib.contextmanager
def _kept_stdout(workload: Workload) -> Iterator[Callable[[], str | None]]:
    """Keep what a trial's program writes to standard output; a plain run's goes where it always goes.

    Yields:
        Gives the text, once it is over; None for a plain run.
    """
    if workload.trial is None:
        yield lambda: None
        return
    _flush()
    with tempfile.TemporaryFile() as kept:
        copy = os.dup(1)
        os.dup2(kept.fileno(), 1)
        text: list[str] = []
        try:
            yield lambda: text[0] if text else None
        finally:
            _flush()
            os.dup2(copy, 1)
            os.close(copy)
            kept.seek(0)
            text.append(kept.read(_MAX_PRINTED).decode("utf-8", "replace"))


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Drop what this process writes to its standard streams, extensions and the profiler's own notices included."""
    _flush()
    kept: dict[int, int] = {}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # the program may have closed it
            kept[descriptor] = os.dup(descriptor)
            os.dup2(nowhere, descriptor)
    try:
        yield
    finally:
        _flush()
        for descriptor, copy in kept.items():
            os.dup2(copy, descriptor)
            os.close(copy)
        os.close(nowhere)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # The program may have closed, replaced or removed them.
        with contextlib.suppress(Exception):
            stream.flush()


def _peak_memory_bytes() -> int:
    """The most memory that this process had resident; Linux counts in KiB, macOS in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _device_name(torch: Any) -> str | None:  # noqa: ANN401
    with contextlib.suppress(Exception):  # a broken driver is no reason not to diagnose on the CPU
        if torch.cuda.is_available():
            return str(torch.cuda.get_device_name(0))
    return None


def _report_failure(error: BaseException, events: EventFile) -> None:
    # Matched by name: importing targets imports torch, which may be what failed.
    if type(error).__name__ == "TargetError":
        events.write("error", type=None, message=_message(error), hint=getattr(error, "hint", None), traceback=None)
        return
    events.write(
        "error",
        type=_type_name(error),
        message=_message(error),
        hint=None,
        traceback=_print_user_traceback(error),
    )


def _report_exit(error: SystemExit, events: EventFile) -> None:
    """Do what Python does at ``sys.exit``: print a message that is no status; and say where it was."""
    if error.code is not None and not isinstance(error.code, int):
        _print_error(f"{_text(error.code)}\n")
    report = _without_probe(traceback.TracebackException.from_exception(error))
    place = f"{report.stack[-1].filename}:{report.stack[-1].lineno}" if report.stack else None
    events.write("exited", status=_exit_status(error.code), place=place, traceback=_formatted(report))


def _print_user_traceback(error: BaseException) -> str:
    """Print the program's traceback as Python would, less the probe's own lines, and return it."""
    text = _formatted(_without_probe(traceback.TracebackException.from_exception(error)))
    _print_error(text)
    return text


def _formatted(report: traceback.TracebackException) -> str:
    return "".join(report.format())[-_MAX_MESSAGE:]


def _print_error(text: str) -> None:
    """Write to standard error past ``sys.stderr``, which the program may have closed, replaced or removed."""
    _flush()
    with contextlib.suppress(OSError):
        os.write(2, text.encode("utf-8", "backslashreplace"))


def _without_probe(report: traceback.TracebackException) -> traceback.TracebackException:
    for part in _chain(report):
        entries = [entry for entry in part.stack if not entry.filename.startswith(_HERE)]
        if len(entries) < len(part.stack):
            # Python's import machinery imports the target for us.
            entries = list(itertools.dropwhile(lambda entry: _is_importlib(entry.filename), entries))
        part.stack = traceback.StackSummary.from_list(entries)
    return report


def _is_importlib(file: str) -> bool:
    return file.startswith("<frozen importlib") or file == importlib.__file__


def _chain(report: traceback.TracebackException | None) -> Iterator[traceback.TracebackException]:
    while report is not None:
        yield report
        if report.__cause__ is not None:
            yield from _chain(report.__cause__)
        report = report.__context__


def _message(error: BaseException) -> str:
    return _text(error)[:_MAX_MESSAGE]


def _text(value: object) -> str:
    """``str()`` of what may refuse it."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - any __str__ of the program's
        return f"<{type(value).__qualname__} whose str() failed>"


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _exit_status(code: object) -> int:
    """What ``sys.exit(code)`` makes of its argument."""
    if code is None:
        return 0
    return code if isinstance(code, int) else 1
