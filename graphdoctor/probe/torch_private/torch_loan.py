"""torch in a process that isn't ours: borrowed for a while, and returned as it was, 2.13 and 2.15.

What is changed and restored: two loggers, a trace file of our own, the strings that the trace has
defined, and Dynamo's marks and counts. A trace that the process writes anyway (``TORCH_TRACE``)
continues and gets none of our records.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from ..wire import ARTIFACT_PREFIX
from . import torch_api, torch_trace


class BusyError(Exception):
    """torch is already being recorded in this process."""


class TraceFile(logging.FileHandler):
    """Writes torch's trace to one file, as ``LazyTraceHandler`` does, without its ``torch_version``
    record for all.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(
            folder / f"dedicated_log_torch_trace_{os.getpid()}.log",
            encoding="utf-8",
            errors="replace",
        )
        self.root_dir = str(folder)
        """Marks a trace file (``torch_trace.trace_files_paused``)."""
        self.setFormatter(import_module("torch._logging._internal").TorchLogsFormatter(trace=True))
        self._pid = os.getpid()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless a forked process makes it: the file isn't its own."""
        if os.getpid() == self._pid:
            super().emit(record)


@contextlib.contextmanager
def borrowed(folder: Path) -> Iterator[None]:
    """Have torch write its trace, with records of ours in it, while the context lasts.

    Raises:
        BusyError: A recorder of ours already works in this process, such as that of ``graphdoctor
            run``.
    """
    logger = torch_api.trace_logger()
    # By name: a recorder that came with the program's start has classes of its own.
    if any(type(handler).__name__ in ("TraceFile", "TraceListener") for handler in logger.handlers):
        raise BusyError
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as restoring:
        loggers = _Loggers()
        restoring.callback(loggers.restore)
        others = [
            handler for handler in logger.handlers if getattr(handler, "root_dir", "") is not None
        ]
        if not others:
            restoring.enter_context(torch_trace.interned_forgotten())
        for handler in logger.handlers:
            handler.addFilter(_is_torchs_own)
            restoring.callback(handler.removeFilter, _is_torchs_own)
        file = TraceFile(folder)
        restoring.callback(file.close)
        restoring.callback(logger.removeHandler, file)
        torch_trace.define_strings(file, torch_trace.interned())
        # Before all others: torch's own handler removes itself from the list while it handles a
        # first record that nobody wants (``LazyTraceHandler.emit``,
        # ``torch/_logging/_internal.py``, 2.13), and the next one misses it.
        logger.handlers.insert(0, file)
        loggers.borrow()
        restoring.callback(torch_trace.after_log_setup(loggers.borrow_again))
        yield


def _is_torchs_own(record: logging.LogRecord) -> bool:
    metadata = getattr(record, "metadata", None)
    artifact = metadata.get("artifact") if isinstance(metadata, dict) else None
    return not (
        isinstance(artifact, dict) and str(artifact.get("name")).startswith(ARTIFACT_PREFIX)
    )


class _Loggers:
    def __init__(self) -> None:
        self._before = self._look()

    def borrow(self) -> None:
        torch_api.record_skipped_frames()
        torch_api.keep_trace_enabled()

    def borrow_again(self) -> None:
        """Torch has set up all its loggers again (``torch._logging.set_logs``): return them in that
        state.
        """
        self._before = self._look()
        self.borrow()

    def restore(self) -> None:
        """Restore them, except for the trace logger's handlers, which others restore."""
        for logger, state in self._before:
            vars(logger).pop("isEnabledFor", None)
            logger.setLevel(state.pop("level"))
            logger.handlers[:] = state.pop("handlers", logger.handlers)
            vars(logger).update(state)

    def _look(self) -> list[tuple[logging.Logger, dict[str, Any]]]:
        names = ("level", "propagate", "disabled", "isEnabledFor")
        found = []
        for logger in torch_api.switched_loggers():
            state = {name: vars(logger)[name] for name in names if name in vars(logger)}
            handlers = (
                {} if logger is torch_api.trace_logger() else {"handlers": list(logger.handlers)}
            )
            found.append((logger, state | handlers))
        return found


_TABLES = (
    "torch._dynamo.eval_frame.always_optimize_code_objects",
    "torch._dynamo.utils.CleanupManager.instance",
)
"""``ExactWeakKeyDictionary`` objects (``torch/_dynamo/utils.py``, 2.13): keys by number in
``refs``, and ``values``."""


@contextlib.contextmanager
def fresh_dynamo() -> Iterator[None]:
    """A Dynamo that has compiled nothing, while the context lasts and after it; its statistics are
    restored.

    ``torch.compiler.reset`` leaves counts behind, marks of functions
    (``always_optimize_code_objects``, ``torch/_dynamo/eval_frame.py``, 2.13), and what Dynamo put
    into globals (``CleanupManager``, ``_dynamo/utils.py``, 2.13).
    """
    torch.compiler.reset()
    counters = torch_api.counters()
    counted = copy.deepcopy(dict(counters))
    counters.clear()
    tables = [
        (table, dict(table.refs)) for table in map(torch_api.lookup, _TABLES) if table is not None
    ]
    put = _globals_of_dynamo().keys()
    try:
        yield
    finally:
        torch.compiler.reset()
        counters.clear()
        counters.update(counted)
        for table, known in tables:
            for number in [
                number for number, key in table.refs.items() if known.get(number) is not key
            ]:
                kept = table.values.pop(number)
                # ``CleanupHook`` objects wait for compiled code to go, which a resume function
                # keeps alive.
                for hook in kept if isinstance(kept, list) else ():
                    with contextlib.suppress(KeyError):
                        hook()
                del table.refs[number]
        for key, scope in _globals_of_dynamo().items():
            if key not in put:
                del scope[key[1]]


def _globals_of_dynamo() -> dict[tuple[int, str], dict[str, Any]]:
    """What Dynamo put into the globals of modules and never removes, by the globals' identity and
    name.

    ``OutputGraph.install_global`` of restarted compiles, and ``import_source``
    (``symbolic_convert.py``), 2.13.
    """
    scopes = [
        vars(module) for module in list(sys.modules.values()) if isinstance(module, ModuleType)
    ]
    return {
        (id(scope), name): scope
        for scope in scopes
        for name in list(scope)
        if name[:2] == "__" and name.startswith(("__builtins_dict__", "__import_"))
    }
