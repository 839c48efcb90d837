"""One probe session, from the request in a file to the process's exit status.

torch is imported after the event file is open, so that an environment without it is reported like
any other trouble.
"""

from __future__ import annotations

import errno
import faulthandler
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any

from ..events import EventFile
from ..record.errors import (
    RequestError,
    TargetError,
    described_error,
    formatted,
    message_of,
    text_of,
    without_probe,
)
from ..record.streams import flush, silence
from ..wire import CRASH_FILE, EVENTS_FILE, EXIT_CLOSED, EXIT_UNWRITABLE, READS_FILE, ProbeRequest
from .process import hold

_EXIT_TARGET_FAILED = 3
"""The target failed; the events report how. Not 1 or 2, which a program's own ``sys.exit`` may
use."""


def main(request_path: Path) -> int:
    """Run the session that a request file describes; returns the exit status."""
    return reported(request_path, _run)


def reported(request_path: Path, run: Callable[[Any, Path, EventFile], int]) -> int:
    """Do what a request file asks for; whatever happens becomes an event."""
    request = json.loads(request_path.read_text())
    folder = request_path.parent
    try:
        events = EventFile(folder / EVENTS_FILE)
        # The parent shows it, less our own lines.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        crash = os.fdopen(os.open(folder / CRASH_FILE, flags, 0o600), "w")
    except OSError:
        return EXIT_UNWRITABLE
    hold(str(folder))
    events.write("process", pid=os.getpid())
    faulthandler.enable(file=crash)
    # Before a timeout, the parent asks where the main thread stands.
    faulthandler.register(signal.SIGUSR2, file=crash, all_threads=False)
    status = _EXIT_TARGET_FAILED
    try:
        status = run(request, folder, events)
    except KeyboardInterrupt:
        events.write("interrupted")
        status = 130
    except SystemExit as error:
        # As Python does at ``sys.exit``: a message that isn't a status is printed.
        code = error.code
        if code is not None and not isinstance(code, int):
            _print_error(f"{text_of(code)}\n")
        report = without_probe(error)
        place = f"{report.stack[-1].filename}:{report.stack[-1].lineno}" if report.stack else None
        exited = 0 if code is None else code if isinstance(code, int) else 1
        events.write("exited", status=exited, place=place, traceback=formatted(report))
    except RequestError as error:
        events.write("error", code=error.code, values=error.values)
    except TargetError as error:
        events.write("error", message=message_of(error), hint=error.hint)
    except BaseException as error:  # noqa: BLE001 - whatever the program raises is reported, never lost
        described = described_error(error)
        _print_error(described["traceback"])
        events.write("error", **described)
    if events.error is None:
        return status
    return EXIT_CLOSED if events.error.errno == errno.EBADF else EXIT_UNWRITABLE


def _run(request: ProbeRequest, folder: Path, events: EventFile) -> int:
    # What a script would see, without the probe's own arguments.
    sys.argv[:] = [request["file"] or request["module"] or ""]
    events.phase("importing torch")
    import torch  # noqa: F401

    from ..measure.timing import peak_resident_bytes
    from ..record import reports
    from ..record.files import Reads
    from ..steps.benched import Benched
    from ..steps.calls import run
    from ..steps.exporting import export
    from ..steps.preparation import prepared
    from ..steps.workload import Workload
    from ..torch_private.torch_api import log_once

    reads = Reads() if request["reads"] else None
    reports.report_environment(events, reports.device_name(may_start=True), request["own"])
    plan = request["trial"] or {}
    if request["timing"] is not None and request["trial"] is not None:
        with silence():
            Benched(request, events, *prepared(request, events)).run()
        is_complete = True
    else:
        target, calls = prepared(request, events)
        if reads is not None:
            reads.note_imports()
        started = perf_counter()
        log_once()
        workload = Workload(request, events, _print_error, target, calls)
        compile_s = perf_counter() - started
        if request["timing"] is not None:
            benched = Benched(request, events, target, calls, workload)
            is_complete = run(workload, benched.kept)
            with silence():
                if is_complete:
                    benched.run(compile_s)
        elif plan.get("export") is not None:
            is_complete = export(workload)
        else:
            is_complete = run(workload)
    if reads is not None:
        reads.write(folder / READS_FILE)
    events.write("finished", is_complete=is_complete, peak_memory_bytes=peak_resident_bytes())
    return 0 if is_complete else _EXIT_TARGET_FAILED


def _print_error(text: str) -> None:
    """Write to standard error past ``sys.stderr``, which the program may have closed, replaced or
    removed.
    """
    flush()
    # An exception's message may hold what a terminal obeys.
    safe = "".join(sign if sign.isprintable() or sign in "\n\t" else "�" for sign in text)
    with suppress(OSError):
        os.write(2, safe.encode("utf-8", "backslashreplace"))
