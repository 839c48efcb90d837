"""Ends the process without taking torch apart.

Python's own shutdown frees each of torch's several hundred thousand objects one by one, which takes longer than
compiling a small model. What a program can rely on at its end still happens, in Python's order: its threads are joined,
its ``atexit`` functions run, and its open files are closed, so that buffers are written and temporary files removed.
Only ``__del__`` of objects that are still alive, which Python never guarantees, is skipped.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import io
import os
import sys
import threading
from typing import Any, NoReturn


def leave(status: int) -> NoReturn:
    """End the process."""
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
    """Close what Python would close when it frees the objects, text layers before the bytes below them."""
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
    for stream in (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__):
        layer: Any = stream
        while layer is not None and id(layer) not in kept:
            kept.add(id(layer))
            layer = getattr(layer, "buffer", None) or getattr(layer, "raw", None)
    return kept
