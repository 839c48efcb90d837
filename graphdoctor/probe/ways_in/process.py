"""The process itself: marks its recording as being made, ends with the one that started it, and
ends quickly.

Standard library only, and little of it: every Python that a program starts waits for this.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import sys

from ..file_names import LOCK_FILE

TYPE_CHECKING = False  # typing would be most of what a program without torch waits for
if TYPE_CHECKING:
    from typing import Any, NoReturn


def end_with(descriptor: int) -> None:
    """End with whoever holds the other end of a pipe that nobody writes to, where the system
    doesn't see to it.
    """
    import threading

    threading.Thread(target=_wait, args=(descriptor,), name="graphdoctor", daemon=True).start()


def _wait(descriptor: int) -> None:
    import signal

    os.read(descriptor, 1)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


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
    with contextlib.suppress(Exception):  # each was reported where it was raised
        run_exit_functions()
    _close_files()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status)


def _close_files() -> None:
    """Close what Python would close when it frees the objects, text layers before the bytes below
    them.
    """
    objects = gc.get_objects()
    kinds = {kind: _rank(kind) for kind in set(map(type, objects))}
    wanted = {kind for kind, rank in kinds.items() if rank is not None}
    found = [item for item in objects if type(item) in wanted]
    standard = _standard_streams()
    for file in sorted(found, key=lambda item: kinds[type(item)] or 0):
        if id(file) not in standard:
            with contextlib.suppress(Exception):
                file.close()


def _rank(kind: type) -> int | None:
    if kind.__name__ == "_TemporaryFileWrapper" and kind.__module__ == "tempfile":
        return 0
    for rank, base in enumerate((io.TextIOBase, io.BufferedIOBase, io.IOBase), start=1):
        if issubclass(kind, base):
            return rank
    return None


def _standard_streams() -> set[int]:
    kept: set[int] = set()
    for stream in (
        sys.stdin,
        sys.stdout,
        sys.stderr,
        sys.__stdin__,
        sys.__stdout__,
        sys.__stderr__,
    ):
        layer: Any = stream
        while layer is not None and id(layer) not in kept:
            kept.add(id(layer))
            layer = getattr(layer, "buffer", None) or getattr(layer, "raw", None)
    return kept


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
