"""What the process writes: its standard streams and, in a trial, what the program logs and warns;
kept or dropped.

torch's own messages aren't kept: they say nothing of what the program computes. Needs no torch
before ``kept_texts``.
"""

from __future__ import annotations

import io
import logging
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import IO, Any, TextIO

_MAX_BYTES = 2**22
"""Bytes of each stream that are compared."""

_BY_TORCH = "(Triggered internally at "
"""What a warning of torch's C++ code says. Many come once in a process, whichever call is first
(``c10/util/Exception.h``, 2.13: ``TORCH_WARN_ONCE``)."""

_ANYWHERE = "the program"
"""The file of every warning that is shown."""


@contextmanager
def silence() -> Iterator[None]:
    """Drop what this process writes to its standard streams, extensions and the profiler's own
    notices included.
    """
    flush()
    redirects = ((1, sys.stdout, redirect_stdout), (2, sys.stderr, redirect_stderr))
    with ExitStack() as restoring:
        nowhere = restoring.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123
        for descriptor, stream, redirect in redirects:
            with suppress(OSError):  # the program may have closed it
                restoring.enter_context(_redirected(descriptor, nowhere))
            # A notebook's or a test's leads elsewhere.
            if stream is not None and _descriptor(stream) != descriptor:
                restoring.enter_context(redirect(nowhere))
        restoring.callback(flush)
        yield


@contextmanager
def _redirected(descriptor: int, file: IO[Any]) -> Iterator[int]:
    """Have a file get what a stream gets meanwhile; yields where the stream really leads."""
    copy = os.dup(descriptor)
    try:
        os.dup2(file.fileno(), descriptor)
        yield copy
    finally:
        flush()
        os.dup2(copy, descriptor)
        os.close(copy)


def _descriptor(stream: Any) -> int | None:
    try:
        return int(stream.fileno())
    except Exception:  # noqa: BLE001 - closed, without one, or any object of the program's
        return None


def flush() -> None:
    """Write out what the standard streams hold."""
    for stream in (sys.stdout, sys.stderr):
        # The program may have closed, replaced or removed them.
        with suppress(Exception):
            stream.flush()


@contextmanager
def kept_texts() -> Iterator[Callable[[], Mapping[str, str]]]:
    """Keep what is written meanwhile; yields what returns the texts by kind of result, once the
    calls are over.
    """
    from .changed_files import CHANGED_FILES

    logged = list[str]()
    warned = list[str]()
    changed = list[str]()
    texts: dict[str, str] = {}
    flush()
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complained:
        with (
            _redirected(1, printed),
            _redirected(2, complained) as copy,
            os.fdopen(os.dup(copy), "w", encoding="utf-8", errors="replace") as past,
            _logged(logged, warned),
            CHANGED_FILES.noted(changed),
            _torch_logs_to(past),
        ):
            yield lambda: texts
            flush()
        texts |= {"stdout": _text(printed), "stderr": _text(complained)}
    lines = {"logs": logged, "warnings": warned, "files": changed}
    texts |= {kind: "\n".join(of) for kind, of in lines.items()}


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_MAX_BYTES).decode("utf-8", "replace")


@contextmanager
def _logged(lines: list[str], warned: list[str]) -> Iterator[None]:
    import torch

    folder = str(Path(torch.__file__).parent) + os.sep
    factory = logging.getLogRecordFactory()
    show = warnings.showwarning

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = factory(*args, **kwargs)
        if record.name.partition(".")[0] != "torch" and not record.pathname.startswith(folder):
            try:
                message = record.getMessage()
            except Exception:  # noqa: BLE001 - the program's own mistake, which logging only reports
                message = str(record.msg)
            lines.extend(f"{record.levelname} {record.name}: {message}".splitlines())
        return record

    def warn(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        _line: int,
        file: TextIO | None = None,
        _text: str | None = None,
    ) -> None:
        if not filename.startswith(folder) and _BY_TORCH not in str(message):
            warned.extend(f"{category.__name__}: {message}".splitlines())
            # Without its place: an edit moves lines, also those that it doesn't change.
            show(message, category, _ANYWHERE, 0, file, "")

    logging.setLogRecordFactory(make)
    warnings.showwarning = warn  # type: ignore[assignment]
    try:
        yield
    finally:
        logging.setLogRecordFactory(factory)
        if warnings.showwarning is warn:
            warnings.showwarning = show


@contextmanager
def _torch_logs_to(past: io.TextIOWrapper) -> Iterator[None]:
    handlers = {
        handler: handler.stream
        for name, logger in logging.Logger.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and name.partition(".")[0] == "torch"
        for handler in logger.handlers
        if type(handler) is logging.StreamHandler
    }
    for handler in handlers:
        handler.setStream(past)
    try:
        yield
    finally:
        for handler, stream in handlers.items():
            handler.setStream(stream)
