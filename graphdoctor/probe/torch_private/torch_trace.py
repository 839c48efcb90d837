"""Handlers of torch's structured trace, and the strings that it defines once per process: names as in ``torch_api``.

A handler that writes the trace to a file, torch's ``LazyTraceHandler`` or ours, is known by its ``root_dir``
(``torch/_logging/_internal.py``, 2.11 to 2.15).
"""

from __future__ import annotations

import contextlib
import importlib
import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from . import torch_api


def listen(handler: logging.Handler) -> None:
    """Insert a handler after those that write the trace, and before one that will remove itself.

    ``LazyTraceHandler.emit`` removes itself at the first record when there is no folder
    (``torch/_logging/_internal.py``, 2.13); ``logging`` then skips the handler after it for that record.
    """
    handlers = torch_api.trace_logger().handlers
    place = next((n for n, found in enumerate(handlers) if getattr(found, "root_dir", "") is None), len(handlers))
    handlers.insert(place, handler)


def write_trace_to(folder: str) -> None:
    """Write the trace log to another folder than ``TORCH_TRACE`` named when torch was imported.

    The file is opened for the first record (``LazyTraceHandler.emit``, ``torch/_logging/_internal.py``, 2.11 to 2.15).
    """
    for handler in torch_api.trace_logger().handlers:
        if hasattr(handler, "root_dir"):
            handler.root_dir = folder


def writer(folder: str | None = None) -> logging.Handler | None:
    """The handler that writes the trace, also where the program has taken it off the logger; None without one.

    ``LOG_TRACE_HANDLER``: ``torch/_logging/_internal.py``, 2.11 to 2.15.

    Args:
        folder: Where it writes; None for the first, wherever that writes.
    """
    own = getattr(importlib.import_module("torch._logging._internal"), "LOG_TRACE_HANDLER", None)
    known = [*torch_api.trace_logger().handlers, own]
    folders = [getattr(handler, "root_dir", None) for handler in known]
    return next(
        (handler for handler, found in zip(known, folders, strict=True) if found and folder in (None, found)), None
    )


@contextlib.contextmanager
def trace_files_paused() -> Iterator[None]:
    """Write nothing to the trace log while the context lasts; other handlers continue."""
    paused = [handler for handler in torch_api.trace_logger().handlers if hasattr(handler, "root_dir")]
    for handler in paused:
        handler.addFilter(refuse)
    known = len(interned())
    try:
        yield
    finally:
        for handler in paused:
            handler.removeFilter(refuse)
        missed = dict(list(interned().items())[known:])
        for handler in paused:
            if getattr(handler, "root_dir", None) is not None:
                define_strings(handler, missed)


CompileKey = tuple[object, object]
"""What identifies a compile among the records of one process."""


def compile_key(metadata: Mapping[str, Any]) -> CompileKey:
    """The compile that a record belongs to."""
    return metadata.get("frame_id"), metadata.get("frame_compile_id")


def is_over_limit(metadata: Mapping[str, Any], begun: Collection[CompileKey]) -> bool:
    """Whether a ``compilation_metrics`` record is about a frame that hit its recompile limit.

    torch begins no compile then, so the frame has no ``dynamo_start`` record, and its metrics have neither a name nor
    guarded code (``torch/_dynamo/convert_frame.py``, 2.13).
    """
    metrics = metadata["compilation_metrics"]
    return (
        metrics.get("is_forward") is not False
        and not metrics.get("has_guarded_code")
        and metrics.get("co_name") is None
        and compile_key(metadata) not in begun
    )


def refuse(_record: logging.LogRecord) -> bool:
    """A filter of a handler that is to write nothing."""
    return False


def interned() -> dict[str, int]:
    """The strings that ``str`` records of this process have defined, with their numbers: torch's own table.

    ``INTERN_TABLE``: ``torch/_logging/structured.py``, 2.11 to 2.15.
    """
    table: dict[str, int] = getattr(importlib.import_module("torch._logging.structured"), "INTERN_TABLE", {})
    return table


def define_strings(handler: logging.Handler, strings: Mapping[str, int]) -> None:
    """Have one handler write the definitions that it missed."""
    for text, number in strings.items():
        record = logging.LogRecord(torch_api.TRACE_LOGGER_NAME, logging.DEBUG, __file__, 0, "", (), None)
        record.metadata, record.payload = {"str": [text, number]}, None
        handler.handle(record)


@contextlib.contextmanager
def interned_forgotten() -> Iterator[None]:
    """Forget the strings that are defined meanwhile: a trace that is written later lacks their definitions."""
    known = len(interned())
    try:
        yield
    finally:
        for text in list(interned())[known:]:
            del interned()[text]


def interned_strings(metadata: dict[str, Any]) -> Iterator[tuple[int, str]]:
    """What a ``str`` record of the trace defines."""
    entry = metadata.get("str")
    if isinstance(entry, (list, tuple)) and len(entry) == 2:
        yield entry[1], entry[0]
