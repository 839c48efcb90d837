"""What a trial's program writes in its calls: standard output, standard error, and what it logs and warns.

torch's own messages are left out: they say what torch.compile does, not what the program computes.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import torch

from ..record.streams import flush

_MAX_BYTES = 2**22
"""Bytes of each stream that are compared."""

_ANYWHERE = "the program"
"""The file of every warning that is shown."""

_TORCH = str(Path(torch.__file__).parent) + os.sep


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
    factory = logging.getLogRecordFactory()
    show = warnings.showwarning

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:  # noqa: ANN401
        record = factory(*args, **kwargs)
        is_torch = record.name.partition(".")[0] == "torch" or record.pathname.startswith(_TORCH)
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
        if not filename.startswith(_TORCH):
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
