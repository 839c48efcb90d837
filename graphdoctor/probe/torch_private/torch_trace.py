"""Handlers of torch's structured trace, what keeps it going in a program that changes its logger,
and torch borrowed for a while in a process that isn't ours.

A handler that writes the trace to a file, torch's ``LazyTraceHandler`` or ours, has a ``root_dir``
(``torch/_logging/_internal.py``, 2.11 to 2.15). Clearing handlers, a level, ``dictConfig`` and
``set_logs`` all end or change the trace, and torch says nothing: ``TraceKeeper`` restores it before
each compile, and counts those lost.

``borrowed`` and ``fresh_dynamo`` (2.13 and 2.15) change and restore two loggers, a trace file of
our own, the strings that the trace has defined, and Dynamo's marks and counts. A trace that the
process writes anyway (``TORCH_TRACE``) continues and gets none of our records.
"""

from __future__ import annotations

import copy
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from importlib import import_module
from logging import Handler, LogRecord
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch._logging import _internal, structured

from ...facts.base import Fields
from ..wire import ARTIFACT_PREFIX
from .torch_api import Failures, Undo, counters, current_compile_id, look_on, trace_logger

_FRAME_SKIPS = logging.getLogger("torch._dynamo.convert_frame.__graph_breaks")
"""``torch/_dynamo/convert_frame.py``, 2.13: the record of a frame skipped outside symbolic
execution is only written while this artifact logger is enabled for DEBUG."""


def _keep_trace_enabled() -> None:
    """Have torch write its trace, records of skipped frames included, and undo what a program does
    to all loggers: ``logging.config.dictConfig`` and ``logging.disable``.

    Since 2.13 torch itself keeps its trace logger out of ``logging.disable``
    (``torch/_logging/_internal.py``, ``_init_logs``): the override can go when that is the oldest
    torch.
    """

    def is_enabled(logger: logging.Logger, level: int) -> bool:
        # Asked before each record is made; the program may have configured logging in between.
        logger.disabled = False
        return level >= logger.getEffectiveLevel()

    if not _FRAME_SKIPS.isEnabledFor(logging.DEBUG):
        _FRAME_SKIPS.setLevel(logging.DEBUG)
        _FRAME_SKIPS.propagate = False
        if not _FRAME_SKIPS.handlers:
            _FRAME_SKIPS.addHandler(logging.NullHandler())
    for logger in (trace_logger(), _FRAME_SKIPS):
        logger.disabled = False
        logger.isEnabledFor = partial(is_enabled, logger)  # type: ignore[method-assign]


def listen(handler: Handler) -> None:
    """Insert a handler after those that write the trace, and before one that will remove itself.

    ``LazyTraceHandler.emit`` without a folder does at the first record, for which ``logging`` skips
    the next (2.13).
    """
    handlers = trace_logger().handlers
    folders = [getattr(other, "root_dir", "") for other in handlers]
    handlers.insert(folders.index(None) if None in folders else len(handlers), handler)


class TraceLooker(Handler):
    """A handler that looks at each structured record; no error of its own reaches the program that
    is compiled.
    """

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.failures = Failures()
        self._begun: set[str | None] = set()

    def emit(self, record: LogRecord) -> None:
        """Look at one record."""
        metadata = getattr(record, "metadata", None)
        with self.failures.survived():
            if isinstance(metadata, dict):
                if "dynamo_start" in metadata:
                    self._begun.add(compile_id(metadata))
                self.look_at(metadata, getattr(record, "payload", None))

    def look_at(self, metadata: Fields, payload: str | None) -> None:
        """Look at what a record says of itself, and at its payload."""
        raise NotImplementedError

    def is_over_limit(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether a ``compilation_metrics`` record's frame hit its recompile limit.

        It has no ``dynamo_start`` record, a name or guarded code
        (``torch/_dynamo/convert_frame.py``, 2.13).
        """
        metrics = metadata["compilation_metrics"]
        is_compiled = metrics.get("has_guarded_code") or metrics.get("co_name") is not None
        is_begun = compile_id(metadata) in self._begun
        return metrics.get("is_forward") is not False and not is_compiled and not is_begun


def _trace_files() -> list[Handler]:
    return [handler for handler in trace_logger().handlers if hasattr(handler, "root_dir")]


def write_trace_to(folder: str) -> None:
    """Write the trace log to another folder than ``TORCH_TRACE`` named; the file is opened for the
    first record.
    """
    for handler in _trace_files():
        vars(handler)["root_dir"] = folder


def add_trace_to(folder: str) -> None:
    """Have the trace go to a folder too, whatever the program did to ``TORCH_TRACE``."""
    if all(vars(handler)["root_dir"] != folder for handler in _trace_files()):
        handler = _internal.LazyTraceHandler(folder)
        handler.setFormatter(_internal.TorchLogsFormatter(trace=True))
        trace_logger().addHandler(handler)


def after_log_setup(callback: Callable[[], None]) -> Undo:
    """Call back whenever torch has set up its loggers again, as ``torch._logging.set_logs`` does
    (2.13).
    """
    return look_on(_internal, "_init_logs", after=lambda *_: callback())


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


@contextmanager
def trace_files_paused() -> Iterator[None]:
    """Write nothing to the trace log while the context lasts; other handlers continue."""
    paused = _trace_files()
    for handler in paused:
        handler.addFilter(_refuse)
    count = len(interned())
    try:
        yield
    finally:
        missed = dict(list(interned().items())[count:])
        for handler in paused:
            handler.removeFilter(_refuse)
            if vars(handler)["root_dir"] is not None:
                _define_strings(handler, missed)


def _refuse(_record: LogRecord) -> bool:
    return False


def compile_id(metadata: Mapping[str, Any]) -> str | None:
    """Return such as ``0/1``; None outside any compile."""
    frame = metadata.get("frame_id")
    count = metadata.get("frame_compile_id")
    return None if frame is None or count is None else f"{frame}/{count}"


def interned() -> dict[str, int]:
    """Return the strings that ``str`` records defined, with their numbers (2.11 to 2.15)."""
    return structured.INTERN_TABLE


def _define_strings(handler: Handler, strings: Mapping[str, int]) -> None:
    """Have one handler write the definitions that it missed."""
    for text, number in strings.items():
        record = LogRecord(trace_logger().name, logging.DEBUG, __file__, 0, "", (), None)
        record.metadata = {"str": [text, number]}
        record.payload = None
        handler.handle(record)


class TraceKeeper:
    """Keeps the two handlers that a recording needs: torch's, which writes to ``folder`` or first,
    and then ours.
    """

    def __init__(self, listener: Handler, folder: str | None = None) -> None:
        self._listener = listener
        self._folder = folder
        self.begin_anew()

    def begin_anew(self) -> None:
        """Begin with no compile: at the start, and in a forked process."""
        # Also where the program has taken it off the logger (``LOG_TRACE_HANDLER``, 2.11 to 2.15).
        handlers = (*trace_logger().handlers, _internal.LOG_TRACE_HANDLER)
        folders = ((handler, getattr(handler, "root_dir", None)) for handler in handlers)
        accepted = (handler for handler, it in folders if it and self._folder in (None, it))
        writer = next(accepted, None)
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
        module = import_module("torch._dynamo.convert_frame")
        return look_on(module, "get_compile_id", before=lambda *_: self._begin())

    def _begin(self) -> None:
        """A compile is about to write its first record; one that is part of another doesn't
        count.
        """
        self._begun += current_compile_id() is None
        self.restore()

    def _end_log(self, writer: Handler, _record: LogRecord) -> None:
        """Write no more after an error, which ``logging`` would print for every record."""
        error = sys.exception()
        if not isinstance(error, OSError):
            return
        self.write_error = error
        # Not off the logger: ``logging`` is going through its handlers, and would miss the next.
        writer.addFilter(_refuse)
        stream = getattr(writer, "stream", None)
        if stream is not None:
            writer.stream = None  # type: ignore[attr-defined]
            # What it holds can't be written, and closing it would try again.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            with suppress(OSError, ValueError):
                os.dup2(nowhere, stream.fileno(), inheritable=False)
                stream.close()
            os.close(nowhere)

    def restore(self) -> None:
        """Put back what the program took away."""
        logger = trace_logger()
        _keep_trace_enabled()
        # torch's own level, whatever the handlers want (``torch/_logging/_internal.py``, 2.13).
        logger.setLevel(logging.DEBUG)
        for handler in self._kept:
            handler.setLevel(logging.NOTSET)
        if [handler for handler in logger.handlers if handler in self._kept] != self._kept:
            others = [handler for handler in logger.handlers if handler not in self._kept]
            # In front: torch's own handler removes itself from the list if it has no folder
            # (``listen``).
            logger.handlers[:] = [*self._kept, *others]

    def lost_count(self, finished: int) -> int:
        """Count the compiles that began whose last record never came."""
        return max(0, self._begun - finished)


# torch in a process that isn't ours.


class BusyError(Exception):
    """torch is already being recorded in this process."""


class TraceFile(logging.FileHandler):
    """Writes torch's trace to one file, as ``LazyTraceHandler`` does, without its ``torch_version``
    record for all.
    """

    def __init__(self, folder: Path) -> None:
        self._pid = os.getpid()
        path = folder / f"dedicated_log_torch_trace_{self._pid}.log"
        super().__init__(path, encoding="utf-8", errors="replace")
        self.root_dir = str(folder)
        """Marks a trace file (``trace_files_paused``)."""
        self.setFormatter(_internal.TorchLogsFormatter(trace=True))

    def emit(self, record: LogRecord) -> None:
        """Write a record, unless a forked process makes it: the file isn't its own."""
        if os.getpid() == self._pid:
            super().emit(record)


@contextmanager
def borrowed(folder: Path) -> Iterator[None]:
    """Have torch write its trace, with records of ours in it, while the context lasts.

    Raises:
        BusyError: A recorder of ours already works in this process, such as that of ``graphdoctor
            run``.
    """
    logger = trace_logger()
    # By name: a recorder that came with the program's start has classes of its own.
    if any(type(handler).__name__ in ("TraceFile", "TraceListener") for handler in logger.handlers):
        raise BusyError
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as restoring:
        states = _logger_states()

        def borrow_again() -> None:
            """Torch has set up all its loggers again (``torch._logging.set_logs``): return them in
            that state.
            """
            states[:] = _logger_states()
            _keep_trace_enabled()

        restoring.callback(_restore, states)
        if all(getattr(handler, "root_dir", "") is None for handler in logger.handlers):
            restoring.callback(_forget_interned, len(interned()))
        for handler in logger.handlers:
            handler.addFilter(_is_torchs_own)
            restoring.callback(handler.removeFilter, _is_torchs_own)
        file = TraceFile(folder)
        restoring.callback(file.close)
        restoring.callback(logger.removeHandler, file)
        _define_strings(file, interned())
        # Before all others: torch's own handler removes itself from the list while it handles a
        # first record that nobody wants (``LazyTraceHandler.emit``,
        # ``torch/_logging/_internal.py``, 2.13), and the next one misses it.
        logger.handlers.insert(0, file)
        _keep_trace_enabled()
        restoring.callback(after_log_setup(borrow_again))
        yield


def _forget_interned(count: int) -> None:
    """Forget the strings that were defined since: a trace that is written later lacks their
    definitions.
    """
    for text in list(interned())[count:]:
        del interned()[text]


def _is_torchs_own(record: LogRecord) -> bool:
    metadata = getattr(record, "metadata", None)
    artifact = metadata.get("artifact") if isinstance(metadata, dict) else None
    name = artifact.get("name") if isinstance(artifact, dict) else None
    return not str(name).startswith(ARTIFACT_PREFIX)


_LoggerState = tuple[logging.Logger, Fields]


def _logger_states() -> list[_LoggerState]:
    """State to restore of two loggers, except for the trace logger's handlers, which others
    restore.
    """
    names = ("level", "propagate", "disabled", "isEnabledFor")
    loggers = (trace_logger(), _FRAME_SKIPS)
    states = [
        {name: vars(logger)[name] for name in names if name in vars(logger)} for logger in loggers
    ]
    states[1]["handlers"] = list(_FRAME_SKIPS.handlers)
    return list(zip(loggers, states, strict=True))


def _restore(states: list[_LoggerState]) -> None:
    for logger, state in states:
        vars(logger).pop("isEnabledFor", None)
        logger.setLevel(state.pop("level"))
        logger.handlers[:] = state.pop("handlers", logger.handlers)
        vars(logger).update(state)


@contextmanager
def fresh_dynamo() -> Iterator[None]:
    """Have a Dynamo that has compiled nothing, while the context lasts and after it; its statistics
    are restored.

    ``torch.compiler.reset`` leaves counts behind, marks of functions
    (``always_optimize_code_objects``, ``torch/_dynamo/eval_frame.py``, 2.13), and what Dynamo put
    into globals (``CleanupManager``, ``_dynamo/utils.py``, 2.13): ``ExactWeakKeyDictionary``
    objects, with keys by number in ``refs``, and ``values``.
    """
    torch.compiler.reset()
    counts = counters()
    counted = copy.deepcopy(dict(counts))
    counts.clear()
    marks = torch._dynamo.eval_frame.always_optimize_code_objects
    tables: list[Any] = [marks, torch._dynamo.utils.CleanupManager.instance]
    before = [dict(table.refs) for table in tables]
    put = _globals_of_dynamo().keys()
    try:
        yield
    finally:
        torch.compiler.reset()
        counts.clear()
        counts.update(counted)
        for table, refs in zip(tables, before, strict=True):
            for number, key in list(table.refs.items()):
                if refs.get(number) is key:
                    continue
                kept = table.values.pop(number)
                # ``CleanupHook`` objects wait for compiled code to go, which a resume function
                # keeps alive.
                for hook in kept if isinstance(kept, list) else ():
                    with suppress(KeyError):
                        hook()
                del table.refs[number]
        for key, scope in _globals_of_dynamo().items():
            if key not in put:
                del scope[key[1]]


def _globals_of_dynamo() -> dict[tuple[int, str], Fields]:
    """Return what Dynamo left in modules' globals for good, by the globals' identity and name.

    ``OutputGraph.install_global`` of restarted compiles, and ``import_source``
    (``symbolic_convert.py``), 2.13.
    """
    modules = (module for module in list(sys.modules.values()) if isinstance(module, ModuleType))
    return {
        (id(vars(module)), name): vars(module)
        for module in modules
        for name in list(vars(module))
        if name[:2] == "__" and name.startswith(("__builtins_dict__", "__import_"))
    }
