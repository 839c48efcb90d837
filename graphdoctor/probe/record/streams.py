"""The standard streams of the process: what they hold is written out, or dropped for a while."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """Drop what this process writes to its standard streams, extensions and the profiler's own notices included."""
    flush()
    kept: dict[int, int] = {}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):  # the program may have closed it
            kept[descriptor] = os.dup(descriptor)
            os.dup2(nowhere, descriptor)
    try:
        with _replaced_streams_dropped():
            yield
    finally:
        flush()
        for descriptor, copy in kept.items():
            os.dup2(copy, descriptor)
            os.close(copy)
        os.close(nowhere)


@contextlib.contextmanager
def _replaced_streams_dropped() -> Iterator[None]:
    """Drop what goes to ``sys.stdout`` and ``sys.stderr`` where they lead elsewhere: a notebook's, a test's."""
    with contextlib.ExitStack() as stack:
        for descriptor, redirect in ((1, contextlib.redirect_stdout), (2, contextlib.redirect_stderr)):
            stream = sys.stdout if descriptor == 1 else sys.stderr
            if stream is not None and _descriptor(stream) != descriptor:
                stack.enter_context(redirect(stack.enter_context(open(os.devnull, "w", encoding="utf-8"))))  # noqa: PTH123
        yield


def _descriptor(stream: object) -> int | None:
    try:
        return int(stream.fileno())  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - closed, without one, or any object of the program's
        return None


def flush() -> None:
    """Write out what the standard streams hold."""
    for stream in (sys.stdout, sys.stderr):
        # The program may have closed, replaced or removed them.
        with contextlib.suppress(Exception):
            stream.flush()
