"""What the process writes: its standard streams and, in a trial, what the program logs and warns; kept or dropped.

torch's own messages aren't kept: they say what torch.compile does, not what the program computes. Needs no torch before
``kept_texts``: an environment without it is reported like any other trouble.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO


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


_MAX_BYTES = 2**22
"""Bytes of each stream that are compared."""

_ANYWHERE = "the program"
"""The file of every warning that is shown."""


@contextlib.contextmanager
def kept_texts() -> Iterator[Callable[[], Mapping[str, str]]]:
    """Keep what is written meanwhile.

    Yields:
        Returns the texts by kind of result, once the calls are over.
    """
    lines: list[str] = []
    texts: dict[str, str] = {}
    flush()
    with _kept(1) as printed, _kept(2) as complained:
        copy = complained.copy
        with os.fdopen(os.dup(copy), "w", encoding="utf-8", errors="replace") as past, _logged(lines), _of_torch(past):
            yield lambda: texts
            flush()
        texts |= {"stdout": printed.text(), "stderr": complained.text(), "logs": "\n".join(lines)}


class _Kept:
    def __init__(self, descriptor: int, file: io.BufferedRandom) -> None:
        self.copy = os.dup(descriptor)
        """Where the stream really leads."""
        self._file = file

    def text(self) -> str:
        """What has been written."""
        self._file.seek(0)
        return self._file.read(_MAX_BYTES).decode("utf-8", "replace")


@contextlib.contextmanager
def _kept(descriptor: int) -> Iterator[_Kept]:
    with tempfile.TemporaryFile() as file:
        kept = _Kept(descriptor, file)
        os.dup2(file.fileno(), descriptor)
        try:
            yield kept
        finally:
            flush()
            os.dup2(kept.copy, descriptor)
            os.close(kept.copy)


@contextlib.contextmanager
def _logged(lines: list[str]) -> Iterator[None]:
    """Add what the program logs and warns to a list."""
    import torch

    torchs = str(Path(torch.__file__).parent) + os.sep
    factory = logging.getLogRecordFactory()
    show = warnings.showwarning

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:  # noqa: ANN401
        record = factory(*args, **kwargs)
        is_torch = record.name.partition(".")[0] == "torch" or record.pathname.startswith(torchs)
        if not is_torch:
            lines.extend(f"{record.levelname} {record.name}: {_message(record)}".splitlines())
        return record

    def warn(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,  # noqa: ARG001
        file: TextIO | None = None,
        line: str | None = None,  # noqa: ARG001
    ) -> None:
        if not filename.startswith(torchs):
            lines.extend(f"{category.__name__}: {message}".splitlines())
            # Without its place: an edit moves lines, also those that it doesn't change.
            show(message, category, _ANYWHERE, 0, file, "")

    logging.setLogRecordFactory(make)
    warnings.showwarning = warn
    try:
        yield
    finally:
        logging.setLogRecordFactory(factory)
        if warnings.showwarning is warn:
            warnings.showwarning = show


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - the program's own mistake, which logging only reports
        return str(record.msg)


@contextlib.contextmanager
def _of_torch(past: io.TextIOWrapper) -> Iterator[None]:
    """Let torch's own handlers write past the file."""
    found = [
        (handler, handler.stream)
        for name, logger in logging.Logger.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.partition(".")[0] == "torch"
        for handler in logger.handlers
        if type(handler) is logging.StreamHandler
    ]
    for handler, _ in found:
        handler.setStream(past)
    try:
        yield
    finally:
        for handler, stream in found:
            handler.setStream(stream)
