"""Handlers of torch's structured trace, and what keeps it going in a program that changes its logger.

A handler that writes the trace to a file, torch's ``LazyTraceHandler`` or ours, is known by its ``root_dir``
(``torch/_logging/_internal.py``, 2.11 to 2.15). ``logging.getLogger("torch.__trace").handlers.clear()``, a level,
``logging.config.dictConfig`` and ``torch._logging.set_logs`` all end or change the trace, and torch then says nothing:
``TraceKeeper`` puts the handlers back before each compile writes its first record, and counts the compiles that were
lost all the same.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from ..torch_private import torch_api
from .replacing import Undo, look_on


def listen(handler: logging.Handler) -> None:
    """Insert a handler after those that write the trace, and before one that will remove itself.

    ``LazyTraceHandler.emit`` removes itself at the first record when there is no folder
    (``torch/_logging/_internal.py``, 2.13); ``logging`` then skips the handler after it for that record.
    """
    handlers = torch_api.trace_logger().handlers
    place = next((n for n, found in enumerate(handlers) if getattr(found, "root_dir", "") is None), len(handlers))
    handlers.insert(place, handler)


class TraceLooker(logging.Handler):
    """A handler that looks at each structured record; no error of its own reaches the program that is compiled."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.failures: Counter[str] = Counter()
        """Exceptions that were survived here, by type name."""

    def emit(self, record: logging.LogRecord) -> None:
        """Look at one record."""
        metadata = getattr(record, "metadata", None)
        if isinstance(metadata, dict):
            try:
                self.look_at(metadata, getattr(record, "payload", None))
            except Exception as error:  # noqa: BLE001 - see the class
                self.failures[type(error).__name__] += 1

    def look_at(self, metadata: dict[str, Any], payload: str | None) -> None:
        """Look at what a record says of itself, and at its payload."""
        raise NotImplementedError

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Listen while the context lasts."""
        listen(self)
        try:
            yield
        finally:
            torch_api.trace_logger().removeHandler(self)


def write_trace_to(folder: str) -> None:
    """Write the trace log to another folder than ``TORCH_TRACE`` named when torch was imported.

    The file is opened for the first record (``LazyTraceHandler.emit``, ``torch/_logging/_internal.py``, 2.11 to 2.15).
    """
    for handler in torch_api.trace_logger().handlers:
        if hasattr(handler, "root_dir"):
            handler.root_dir = folder


def writer_to(folder: str | None = None) -> logging.Handler | None:
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


class TraceKeeper:
    """Knows the two handlers that a recording needs: torch's, which writes the log, and ours, which follows it.

    Args:
        folder: Where torch's writes; None for the first that writes anywhere.
    """

    def __init__(self, listener: logging.Handler, folder: str | None = None) -> None:
        self._kept = [handler for handler in (writer_to(folder), listener) if handler is not None]
        self._begun = 0
        self._undo: Undo | None = None
        self.write_error: OSError | None = None
        """Why the log ends early; None while it's written."""
        if (writer := writer_to(folder)) is not None:
            writer.handleError = partial(self._end_log, writer)  # type: ignore[method-assign]

    def install(self) -> None:
        """Look after the handlers before each compile.

        Raises:
            AttributeError, ImportError, KeyError: This torch lacks the place of the hook.
        """
        self.restore()
        self._undo = before_compiles(self._begin)

    def uninstall(self) -> None:
        """Leave torch's logger to the program."""
        if self._undo is not None:
            self._undo()

    def _begin(self, is_nested: bool) -> None:
        self._begun += not is_nested
        self.restore()

    def _end_log(self, writer: logging.Handler, _record: logging.LogRecord) -> None:
        """Write no more after an error, which ``logging`` would print for every record."""
        error = sys.exception()
        if not isinstance(error, OSError):
            return
        self.write_error = error
        # Not off the logger: ``logging`` is going through its handlers, and would miss the next.
        writer.addFilter(refuse)
        stream: Any = getattr(writer, "stream", None)
        if stream is not None:
            writer.stream = None  # type: ignore[attr-defined]
            # What it holds can't be written, and closing it would try again.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            with contextlib.suppress(OSError, ValueError):
                os.dup2(nowhere, stream.fileno(), inheritable=False)
                stream.close()
            os.close(nowhere)

    def restore(self) -> None:
        """Put back what the program took away."""
        logger = torch_api.trace_logger()
        torch_api.record_skipped_frames()
        torch_api.keep_trace_enabled()
        # torch's own level, whatever the handlers want (``torch/_logging/_internal.py``, 2.13).
        logger.setLevel(logging.DEBUG)
        for handler in self._kept:
            handler.setLevel(logging.NOTSET)
        places = [logger.handlers.index(handler) for handler in self._kept if handler in logger.handlers]
        if len(places) < len(self._kept) or places != sorted(places):
            others = [handler for handler in logger.handlers if handler not in self._kept]
            # In front: torch's own handler removes itself from the list if it has no folder (``listen``).
            logger.handlers[:] = [*self._kept, *others]

    def lost_count(self, finished: int) -> int:
        """How many compiles began whose last record never came."""
        return max(0, self._begun - finished)


def before_compiles(callback: Callable[[bool], None]) -> Undo:
    """Call back before a compile writes its first record, with whether it is part of another compile.

    ``get_compile_id``: ``torch/_dynamo/convert_frame.py``, 2.11 to 2.15.
    """
    context = import_module("torch._guards").CompileContext
    return look_on(
        import_module("torch._dynamo.convert_frame"),
        "get_compile_id",
        before=lambda *_: callback(context.current_compile_id() is not None),
    )
