"""Handlers of torch's structured trace, and what keeps it going in a program that changes its
logger.

A handler that writes the trace to a file, torch's ``LazyTraceHandler`` or ours, is known by its
``root_dir`` (``torch/_logging/_internal.py``, 2.11 to 2.15). Clearing handlers, a level,
``dictConfig`` and ``set_logs`` all end or change the trace, and torch says nothing: ``TraceKeeper``
restores it before each compile, and counts those lost.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import Any

from ..torch_private import torch_api
from .replacing import Undo, look_on

_INTERNAL = "torch._logging._internal"


def listen(handler: logging.Handler) -> None:
    """Insert a handler after those that write the trace, and before one that will remove itself.

    ``LazyTraceHandler.emit`` without a folder does at the first record, for which ``logging`` skips
    the next (2.13).
    """
    handlers = torch_api.trace_logger().handlers
    place = next(
        (n for n, found in enumerate(handlers) if getattr(found, "root_dir", "") is None),
        len(handlers),
    )
    handlers.insert(place, handler)


class TraceLooker(logging.Handler):
    """A handler that looks at each structured record; no error of its own reaches the program that
    is compiled.
    """

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.failures: Counter[str] = Counter()
        """Exceptions that were survived here, by type name."""
        self._begun: set[tuple[object, object]] = set()

    def emit(self, record: logging.LogRecord) -> None:
        """Look at one record."""
        metadata = getattr(record, "metadata", None)
        try:
            if isinstance(metadata, dict):
                if "dynamo_start" in metadata:
                    self._begun.add(compile_key(metadata))
                self.look_at(metadata, getattr(record, "payload", None))
        except Exception as error:  # noqa: BLE001 - see the class
            self.failures[type(error).__name__] += 1

    def look_at(self, metadata: dict[str, Any], payload: str | None) -> None:
        """Look at what a record says of itself, and at its payload."""
        raise NotImplementedError

    def is_over_limit(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a ``compilation_metrics`` record is about a frame that hit its recompile limit.

        It has no ``dynamo_start`` record, a name or guarded code
        (``torch/_dynamo/convert_frame.py``, 2.13).
        """
        metrics = metadata["compilation_metrics"]
        is_compiled = metrics.get("has_guarded_code") or metrics.get("co_name") is not None
        return (
            metrics.get("is_forward") is not False
            and not is_compiled
            and compile_key(metadata) not in self._begun
        )

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Listen while the context lasts."""
        listen(self)
        try:
            yield
        finally:
            torch_api.trace_logger().removeHandler(self)


def _trace_files() -> list[logging.Handler]:
    return [
        handler for handler in torch_api.trace_logger().handlers if hasattr(handler, "root_dir")
    ]


def write_trace_to(folder: str) -> None:
    """Write the trace log to another folder than ``TORCH_TRACE`` named; the file is opened for the
    first record.
    """
    for handler in _trace_files():
        vars(handler)["root_dir"] = folder


def add_trace_to(folder: str) -> None:
    """Have the trace go to a folder too, whatever the program did to ``TORCH_TRACE``."""
    if all(vars(handler)["root_dir"] != folder for handler in _trace_files()):
        handler = import_module(_INTERNAL).LazyTraceHandler(folder)
        handler.setFormatter(import_module(_INTERNAL).TorchLogsFormatter(trace=True))
        torch_api.trace_logger().addHandler(handler)


def after_log_setup(callback: Callable[[], None]) -> Undo:
    """Call back whenever torch has set up its loggers again, as ``torch._logging.set_logs`` does
    (2.13).
    """
    return look_on(import_module(_INTERNAL), "_init_logs", after=lambda *_: callback())


def begin_log_anew() -> None:
    """In a forked process: let go of the parent's open log, and of the strings that only the
    parent's log defines.

    torch's handler of 2.13 does by itself; that of 2.11 has no ``_pid``. The loop can go when 2.13
    is the oldest torch.
    """
    interned().clear()
    for handler in _trace_files():
        if not hasattr(handler, "_pid"):
            vars(handler)["stream"] = None


def _writer_to(folder: str | None = None) -> logging.Handler | None:
    """The handler that writes the trace to a folder, or first; also where the program has taken it
    off the logger.

    ``LOG_TRACE_HANDLER``: ``torch/_logging/_internal.py``, 2.11 to 2.15.
    """
    for handler in (
        *torch_api.trace_logger().handlers,
        getattr(import_module(_INTERNAL), "LOG_TRACE_HANDLER", None),
    ):
        found = getattr(handler, "root_dir", None)
        if found and folder in (None, found):
            return handler
    return None


@contextlib.contextmanager
def trace_files_paused() -> Iterator[None]:
    """Write nothing to the trace log while the context lasts; other handlers continue."""
    paused = _trace_files()
    for handler in paused:
        handler.addFilter(_refuse)
    known = len(interned())
    try:
        yield
    finally:
        missed = dict(list(interned().items())[known:])
        for handler in paused:
            handler.removeFilter(_refuse)
            if vars(handler)["root_dir"] is not None:
                define_strings(handler, missed)


def compile_key(metadata: Mapping[str, Any]) -> tuple[object, object]:
    """The compile that a record belongs to, among those of one process."""
    return metadata.get("frame_id"), metadata.get("frame_compile_id")


def compile_id(metadata: Mapping[str, Any]) -> str | None:
    """Such as ``0/1``; None outside any compile."""
    frame, count = compile_key(metadata)
    return None if frame is None or count is None else f"{frame}/{count}"


def _refuse(_record: logging.LogRecord) -> bool:
    return False


def interned() -> dict[str, int]:
    """Strings that ``str`` records defined, with their numbers (``torch/_logging/structured.py``,
    2.11 to 2.15).
    """
    table: dict[str, int] = getattr(import_module("torch._logging.structured"), "INTERN_TABLE", {})
    return table


def interned_by_number() -> dict[int, str]:
    """The same the other way round."""
    return {number: text for text, number in interned().items()}


def define_strings(handler: logging.Handler, strings: Mapping[str, int]) -> None:
    """Have one handler write the definitions that it missed."""
    for text, number in strings.items():
        record = logging.LogRecord(
            torch_api.TRACE_LOGGER_NAME, logging.DEBUG, __file__, 0, "", (), None
        )
        record.metadata, record.payload = {"str": [text, number]}, None
        handler.handle(record)


@contextlib.contextmanager
def interned_forgotten() -> Iterator[None]:
    """Forget the strings that are defined meanwhile: a trace that is written later lacks their
    definitions.
    """
    known = len(interned())
    try:
        yield
    finally:
        for text in list(interned())[known:]:
            del interned()[text]


class TraceKeeper:
    """Knows the two handlers that a recording needs: torch's, which writes to ``folder`` or first,
    and then ours.
    """

    def __init__(self, listener: logging.Handler, folder: str | None = None) -> None:
        self._listener, self._folder = listener, folder
        self.begin_anew()

    def begin_anew(self) -> None:
        """No compile has begun so far: at the start, and in a forked process."""
        writer = _writer_to(self._folder)
        self._kept = [handler for handler in (writer, self._listener) if handler is not None]
        self._begun = 0
        self.write_error: OSError | None = None
        """Why the log ends early; None while it's written."""
        if writer is not None:
            writer.handleError = partial(self._end_log, writer)  # type: ignore[method-assign]

    def install(self) -> Undo:
        """Look after the handlers before each compile.

        Raises:
            AttributeError, ImportError, KeyError: This torch lacks the place of the hook.
        """
        self.restore()
        # ``get_compile_id``: ``torch/_dynamo/convert_frame.py``, 2.11 to 2.15.
        return look_on(
            import_module("torch._dynamo.convert_frame"),
            "get_compile_id",
            before=lambda *_: self._begin(),
        )

    def _begin(self) -> None:
        """A compile is about to write its first record; one that is part of another doesn't
        count.
        """
        self._begun += torch_api.current_compile_id() is None
        self.restore()

    def _end_log(self, writer: logging.Handler, _record: logging.LogRecord) -> None:
        """Write no more after an error, which ``logging`` would print for every record."""
        error = sys.exception()
        if not isinstance(error, OSError):
            return
        self.write_error = error
        # Not off the logger: ``logging`` is going through its handlers, and would miss the next.
        writer.addFilter(_refuse)
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
        places = [
            logger.handlers.index(handler) for handler in self._kept if handler in logger.handlers
        ]
        if len(places) < len(self._kept) or places != sorted(places):
            others = [handler for handler in logger.handlers if handler not in self._kept]
            # In front: torch's own handler removes itself from the list if it has no folder
            # (``listen``).
            logger.handlers[:] = [*self._kept, *others]

    def lost_count(self, finished: int) -> int:
        """How many compiles began whose last record never came."""
        return max(0, self._begun - finished)
