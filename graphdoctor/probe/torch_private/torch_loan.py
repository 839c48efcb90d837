"""torch in a process that is not ours: borrowed for a while, and given back as it was found.

What is set for the time of the loan, and put back after it: the handlers, levels and switches of two loggers, a trace
file of our own, the strings that the trace has defined, and Dynamo's marks and counts. A trace that the process writes
anyway (``TORCH_TRACE``) goes on and gets every record of torch's own, and none of ours. Private names of torch, as in
``torch_api``; seen on 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from ..wire import ARTIFACT_PREFIX
from . import torch_api, torch_hooks, torch_trace


class BusyError(Exception):
    """torch is being recorded in this process already."""


class TraceFile(logging.FileHandler):
    """Writes torch's structured trace to one file, as ``LazyTraceHandler`` does.

    Without torch's own ``torch_version`` record, which would go to every other handler too.

    Args:
        folder: Where to make the file.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / f"dedicated_log_torch_trace_{os.getpid()}.log", encoding="utf-8", errors="replace")
        self.root_dir = str(folder)
        """Marks a trace file (``torch_trace.trace_files_paused``)."""
        self.setFormatter(import_module("torch._logging._internal").TorchLogsFormatter(trace=True))
        self._pid = os.getpid()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, unless a forked process makes it: the file is not that one's."""
        if os.getpid() == self._pid:
            super().emit(record)


@contextlib.contextmanager
def borrowed(folder: Path) -> Iterator[None]:
    """Have torch write its trace, with records of ours in it, while the context lasts.

    Args:
        folder: Where the trace file is made.

    Raises:
        BusyError: A recorder of ours is at work in this process, such as that of ``graphdoctor run``.
    """
    logger = torch_api.trace_logger()
    # By name: a recorder that came with the program's start has classes of its own.
    if any(type(handler).__name__ in ("TraceFile", "TraceListener") for handler in logger.handlers):
        raise BusyError
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as given_back:
        loggers = _Loggers()
        given_back.callback(loggers.give_back)
        others = [handler for handler in logger.handlers if getattr(handler, "root_dir", "") is not None]
        if not others:
            given_back.enter_context(torch_trace.interned_forgotten())
        for handler in logger.handlers:
            handler.addFilter(_is_torchs_own)
            given_back.callback(handler.removeFilter, _is_torchs_own)
        file = TraceFile(folder)
        given_back.callback(file.close)
        given_back.callback(logger.removeHandler, file)
        torch_trace.define_strings(file, torch_trace.interned())
        # First of all: torch's own handler takes itself off the list while it handles a first record that nobody
        # wants (``LazyTraceHandler.emit``, ``torch/_logging/_internal.py``, 2.13), and the next one misses that record.
        logger.handlers.insert(0, file)
        loggers.borrow()
        given_back.callback(torch_hooks.after_log_setup(loggers.borrow_again))
        yield


def _is_torchs_own(record: logging.LogRecord) -> bool:
    """A filter: what is no artifact of ours."""
    metadata = getattr(record, "metadata", None)
    artifact = metadata.get("artifact") if isinstance(metadata, dict) else None
    return not (isinstance(artifact, dict) and str(artifact.get("name")).startswith(ARTIFACT_PREFIX))


class _Loggers:
    """The loggers that the trace needs switched on, as they were."""

    def __init__(self) -> None:
        self._before = self._look()

    def borrow(self) -> None:
        """Switch them on."""
        torch_api.record_skipped_frames()
        torch_api.keep_trace_enabled()

    def borrow_again(self) -> None:
        """Torch has set up all its loggers anew (``torch._logging.set_logs``): that is how they are given back."""
        self._before = self._look()
        self.borrow()

    def give_back(self) -> None:
        """Make them what they were; the trace logger's handlers are others' affair."""
        for logger, state in self._before:
            vars(logger).pop("isEnabledFor", None)
            handlers = state.pop("handlers", None)
            if handlers is not None:
                logger.handlers[:] = handlers
            logger.setLevel(state.pop("level"))
            vars(logger).update(state)

    def _look(self) -> list[tuple[logging.Logger, dict[str, Any]]]:
        found = []
        for logger in torch_api.switched_loggers():
            names = ("level", "propagate", "disabled", "isEnabledFor")
            state = {name: vars(logger)[name] for name in names if name in vars(logger)}
            if logger is not torch_api.trace_logger():
                state["handlers"] = list(logger.handlers)
            found.append((logger, state))
        return found


@contextlib.contextmanager
def fresh_dynamo() -> Iterator[None]:
    """A Dynamo that has compiled nothing, while the context lasts and after it; its statistics stay as they were.

    ``torch.compiler.reset`` leaves behind the counts, which functions are compiled whatever file they are in
    (``always_optimize_code_objects``, ``torch/_dynamo/eval_frame.py``, 2.13), and, where a graph broke, what Dynamo has
    put into the globals of the functions that it compiled (``CleanupManager``, ``torch/_dynamo/utils.py``, 2.13).
    """
    torch.compiler.reset()
    counters = torch_api.counters()
    counted = copy.deepcopy(dict(counters))
    counters.clear()
    marks: Any = getattr(import_module("torch._dynamo.eval_frame"), "always_optimize_code_objects", None)
    marked = dict(getattr(marks, "refs", {}))
    cleanups: Any = getattr(getattr(import_module("torch._dynamo.utils"), "CleanupManager", None), "instance", None)
    cleaned = dict(getattr(cleanups, "refs", {}))
    put = _globals_of_dynamo().keys()
    try:
        yield
    finally:
        torch.compiler.reset()
        counters.clear()
        counters.update(counted)
        for number in _added(marks, marked):
            del marks.refs[number], marks.values[number]
        for number in _added(cleanups, cleaned):
            _run_all(cleanups.values.pop(number))
            del cleanups.refs[number]
        for (number, name), scope in _globals_of_dynamo().items():
            if (number, name) not in put:
                del scope[name]


def _added(table: Any, before: dict[int, Any]) -> list[int]:  # noqa: ANN401
    """Keys of an ``ExactWeakKeyDictionary`` (``torch/_dynamo/utils.py``, 2.13) that were not there before."""
    return [number for number, key in getattr(table, "refs", {}).items() if before.get(number) is not key]


def _run_all(hooks: list[Callable[[], None]]) -> None:
    """Run the ``CleanupHook`` s that wait for a compiled code to go, which a resume function keeps."""
    for hook in hooks:
        with contextlib.suppress(KeyError):
            hook()


def _globals_of_dynamo() -> dict[tuple[int, str], dict[str, Any]]:
    """What Dynamo has put into the globals of modules and never takes out, by the globals' identity and name.

    Of a compile that was begun again (``OutputGraph.install_global``, ``torch/_dynamo/output_graph.py``, 2.13), and its
    own modules (``import_source``, ``torch/_dynamo/symbolic_convert.py``, 2.13).
    """
    scopes = [vars(module) for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
    return {
        (id(scope), name): scope
        for scope in scopes
        for name in list(scope)
        if name[:2] == "__" and name.startswith(("__builtins_dict__", "__import_"))
    }
