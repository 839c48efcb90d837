"""The process itself: marks its recording as being made, ends with the one that started it, and
ends quickly. A program that runs by itself becomes a recording here, in its main process and in
those it starts.

Standard library only, and little of it: every Python that a program starts waits for this.
Everything else hangs on torch being imported, which imports ``recorder.py``.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress

from ..file_names import CRASH_FILE, EVENTS_FILE, LOCK_FILE, TIMEOUT_VARIABLE
from ..torch_private.imports import AfterImport

TYPE_CHECKING = False  # typing would be most of what a program without torch waits for
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any, NoReturn


def end_with(descriptor: int) -> None:
    """End with whoever holds the other end of a pipe that nobody writes to, where the system
    doesn't see to it.
    """
    import signal
    import threading

    def wait() -> None:
        os.read(descriptor, 1)
        if os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="graphdoctor", daemon=True).start()


def leave(status: int) -> NoReturn:
    """End the process without taking torch apart.

    Python's own shutdown frees each of torch's several hundred thousand objects one by one, which
    takes longer than compiling a small model. What a program can rely on at its end still happens,
    in Python's order: its threads are joined, its ``atexit`` functions run, and its open files are
    closed, so that buffers are written and temporary files removed. Only ``__del__`` of objects
    that are still alive, which Python never guarantees, is skipped.
    """
    import threading

    # Py_FinalizeEx calls both (CPython 3.11 to 3.14); where one is missing, let Python do it.
    wait_for_threads = getattr(threading, "_shutdown", None)
    run_exit_functions = getattr(atexit, "_run_exitfuncs", None)
    if wait_for_threads is None or run_exit_functions is None:
        sys.exit(status)
    wait_for_threads()
    with suppress(Exception):  # each was reported where it was raised
        run_exit_functions()
    _close_files()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(status)


def _close_files() -> None:
    """Close what Python would close when it frees the objects, text layers before the bytes below
    them; not the standard streams.
    """
    import gc
    import io

    standard = set()
    current = (sys.stdin, sys.stdout, sys.stderr)
    for stream in (*current, sys.__stdin__, sys.__stdout__, sys.__stderr__):
        layer = stream
        while layer is not None and id(layer) not in standard:
            standard.add(id(layer))
            layer = getattr(layer, "buffer", None) or getattr(layer, "raw", None)
    objects = gc.get_objects()
    ranks = {}
    for kind in set(map(type, objects)):
        bases = [issubclass(kind, base) for base in (io.TextIOBase, io.BufferedIOBase, io.IOBase)]
        if kind.__name__ == "_TemporaryFileWrapper" and kind.__module__ == "tempfile":
            ranks[kind] = 0
        elif any(bases):
            ranks[kind] = 1 + bases.index(True)
    files = [item for item in objects if type(item) in ranks and id(item) not in standard]
    for file in sorted(files, key=lambda item: ranks[type(item)]):
        with suppress(Exception):
            file.close()


def hold(recording: str) -> None:
    """Hold the recording's lock until the process ends, however it ends; the system lets it go
    then.
    """
    try:
        import fcntl

        descriptor = os.open(os.path.join(recording, LOCK_FILE), os.O_RDONLY)  # noqa: PTH118
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return


# A program that runs by itself.

_HOOKED = (
    "torch",
    "torch._dynamo.convert_frame",
    "torch._dynamo.decorators",
    "torch._dynamo.eval_frame",
    "torch._dynamo.output_graph",
    "torch._inductor.compiler_bisector",
)
"""Modules that ``Recorder`` hooks once they are there."""


def begin(recording: str) -> None:
    """Get ready for torch; called once at Python's start."""
    hold(recording)
    path = os.path.join(recording, EVENTS_FILE)  # noqa: PTH118 - pathlib takes longer than all of this
    program = _Program(recording, path, is_main=_claim(path))
    watched: dict[str, Callable[[ModuleType], object]] = dict.fromkeys(_HOOKED, program.on_import)
    for name, callback in list(watched.items()):
        if (loaded := sys.modules.get(name)) is not None:  # another start-up file imported it
            callback(loaded)
            del watched[name]
    sys.meta_path.insert(0, AfterImport(watched))
    if program.is_main:
        atexit.register(program.end)
        if (timeout := os.environ.get(TIMEOUT_VARIABLE)) is not None:
            _note_place_before(float(timeout), recording)


def _note_place_before(timeout_s: float, recording: str) -> None:
    """Have Python write where the program stands shortly before it is stopped; its signals stay its
    own.
    """
    import faulthandler

    path = os.path.join(recording, CRASH_FILE)  # noqa: PTH118
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    faulthandler.dump_traceback_later(max(timeout_s - 0.5, timeout_s / 2), file=descriptor)


def _claim(path: str) -> bool:
    """Make the event file; the first Python of the program does, and that is the main process."""
    first = b'{"event": "process", "pid": %d}\n' % os.getpid()
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        # A program may replace itself by another Python (os.execv): the process is the same.
        with open(path, "rb") as events:  # noqa: PTH123
            return events.readline() == first
    os.write(descriptor, first)
    os.close(descriptor)
    return True


class _Program:
    def __init__(self, recording: str, event_path: str, *, is_main: bool) -> None:
        self.is_main = is_main
        self._recording = recording
        self._event_path = event_path
        self._pid = os.getpid()
        self._recorder: Any = None
        self._waiting: list[str] = []

    def on_import(self, module: ModuleType) -> None:
        """Have the recorder hook a module once torch itself is there; no error of ours may reach
        the program.
        """
        self._waiting.append(module.__name__)
        with suppress(Exception):
            if module.__name__ == "torch":
                from importlib import import_module

                make = import_module(".recorder", __package__).Recorder
                paths = self._recording, self._event_path
                self._recorder = make(*paths, is_main=self.is_main)
            if self._recorder is not None:
                # Torch itself first, which has imported the others.
                waiting = sorted(self._waiting)
                self._waiting = []
                for name in waiting:
                    self._recorder.hook(name)

    def end(self) -> None:
        """Report how the program ended; ``os._exit`` and signals leave no time for it."""
        if self._pid != os.getpid():
            return
        error = last_error()
        with suppress(Exception):
            if self._recorder is not None:
                self._recorder.write_last_facts()
            if isinstance(error, BaseException) or "torch" in sys.modules:
                self._write_end(error)
            else:
                append(self._event_path, b'{"event": "ended"}\n')
        if isinstance(error, KeyboardInterrupt) and _has_ended_the_program(error):
            _end_by_interrupt()

    def _write_end(self, error: object) -> None:
        from pathlib import Path

        from ..events import EventFile
        from ..record.errors import described_error

        events = EventFile(Path(self._event_path))
        if self._recorder is None and "torch" in sys.modules:
            lost = "so its own records are missing."
            events.gap(
                "recorder_not_loaded", f"graphdoctor didn't see the program import torch, {lost}"
            )
        described = {"error": described_error(error)} if isinstance(error, BaseException) else {}
        events.write("ended", **described)


def append(path: str, line: bytes) -> None:
    """Add a line without ``EventFile``, so that a program without torch doesn't wait for its
    modules.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, line)
    os.close(descriptor)


def last_error() -> object:
    """Return what Python printed a traceback of, if anything (kept in ``last_exc`` from 3.12
    on).
    """
    return getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)


def _has_ended_the_program(error: BaseException) -> bool:
    """It left the main module's own code; an interactive loop only prints its traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == "<frozen runpy>":  # python -m
        trace = trace.tb_next
    main = vars(sys.modules.get("__main__", sys))
    if trace is None or trace.tb_frame.f_globals is not main:
        return False
    return trace.tb_frame.f_code.co_name == "<module>"


def _end_by_interrupt() -> None:
    """Have Python end by SIGINT, as it does after an unhandled ``KeyboardInterrupt``, although we
    ran code since.

    ``run_eval_code_obj`` (CPython 3.11 to 3.14) notes the exception, and forgets it when the next
    text is evaluated, as the import of ``collections`` does.
    """
    with suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")
