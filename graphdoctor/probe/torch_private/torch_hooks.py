"""Hooks on torch's own path, for a program that is run as it is: private names of torch, as in ``torch_api``.

A hook changes nothing that torch returns or raises, no call that is compiled already reaches one, and installing one
returns what removes it. Where this torch lacks the name, installing the hook raises ``AttributeError``, ``ImportError``
or ``KeyError``. Seen on 2.13.0 and 2.15.0.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import FrameType
from typing import Any

import torch

from ..wire import GraphArtifact
from . import torch_api, torch_trace
from .imports import hide_caller
from .replacing import Undo, look_on, put_in_place


def write_trace_to(folder: str) -> None:
    """Have the structured trace go to a folder, whatever the program did to ``TORCH_TRACE``.

    ``LazyTraceHandler`` and ``TorchLogsFormatter``: ``torch/_logging/_internal.py``, 2.13.
    """
    logger = torch_api.trace_logger()
    if any(getattr(handler, "root_dir", None) == folder for handler in logger.handlers):
        return
    internal = import_module("torch._logging._internal")
    handler = internal.LazyTraceHandler(folder)
    handler.setFormatter(internal.TorchLogsFormatter(trace=True))
    logger.addHandler(handler)


def after_log_setup(callback: Callable[[], None]) -> Undo:
    """Call back whenever torch has set up its loggers again: ``torch._logging.set_logs`` puts new handlers last.

    ``_init_logs``: ``torch/_logging/_internal.py``, 2.13.
    """
    return look_on(import_module("torch._logging._internal"), "_init_logs", after=lambda *_: callback())


def begin_log_anew() -> None:
    """In a forked process: let go of the parent's open log, and of the strings that only the parent's log defines.

    torch's handler of 2.13 sees the new process id by itself and closes what it inherited; that of 2.11 has no
    ``_pid`` and would write on into the parent's log. The loop can go when 2.13 is the oldest torch.
    """
    torch_trace.interned().clear()
    for handler in torch_api.trace_logger().handlers:
        if hasattr(handler, "root_dir") and not hasattr(handler, "_pid"):
            handler.stream = None  # type: ignore[attr-defined]


def watch_compile_calls(callback: Callable[[FrameType], None]) -> Undo:
    """Call back at each ``torch.compile(…)`` with its Python frame, whose locals are the arguments.

    ``torch.compile`` itself stays as it is: on its way it asks ``CompilerBisector.get_backend`` for a backend
    (``torch/__init__.py``, 2.13 and 2.15), at a place where its arguments are its locals.
    """
    bisector = import_module("torch._inductor.compiler_bisector").CompilerBisector
    ask = bisector.__dict__["get_backend"].__func__
    code = torch.compile.__code__

    def get_backend(cls: type) -> Any:  # noqa: ANN401
        frame = sys._getframe(1)
        if frame.f_code is code:
            with contextlib.suppress(Exception):  # an extra; torch.compile must go on
                callback(frame)
        return ask(cls)

    torch_api.keep_from_compiling(get_backend)
    return put_in_place(bisector, "get_backend", classmethod(get_backend))


def compile_frame() -> FrameType | None:
    """The frame of ``torch.compile`` that this is called in; None outside it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not torch.compile.__code__:
        frame = frame.f_back
    return frame


def watch_graphs(*, before: Callable[[Any], GraphArtifact], after: Callable[[GraphArtifact], None]) -> Undo:
    """Watch each graph on its way to the backend, whichever it is.

    ``OutputGraph.call_user_compiler``: ``torch/_dynamo/output_graph.py``, 2.13 and 2.15.

    Args:
        before: Called with the graph before the backend gets it; describes it.
        after: Called with that and ``backend``, ``backend_s`` and, when the backend raised, ``backend_error``.
    """
    output_graph = import_module("torch._dynamo.output_graph").OutputGraph
    call_backend = output_graph.call_user_compiler

    @wraps(call_backend)
    def call_user_compiler(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        artifact = GraphArtifact(backend=None)
        with contextlib.suppress(Exception):
            artifact["backend"] = _backend_name(self.compiler_fn)
            artifact.update(before(gm))
        started = time.perf_counter()
        try:
            compiled = call_backend(self, gm, *args, **kwargs)
        except BaseException as error:
            raised = getattr(error, "inner_exception", error)
            artifact["backend_error"] = f"{type(raised).__qualname__}: {raised}"[:20_000]
            _finish(artifact, started, after)
            hide_caller(error)
            raise
        _finish(artifact, started, after)
        return compiled

    return put_in_place(output_graph, "call_user_compiler", call_user_compiler)


def _finish(artifact: GraphArtifact, started: float, after: Callable[[GraphArtifact], None]) -> None:
    artifact["backend_s"] = time.perf_counter() - started
    with contextlib.suppress(Exception):
        after(artifact)


def _backend_name(compiler: Any) -> str:  # noqa: ANN401
    """``__name__`` of Dynamo's wrapper is the backend's (``WrapBackendDebug``, ``repro/after_dynamo.py``, 2.13)."""
    return str(getattr(compiler, "compiler_name", None) or getattr(compiler, "__name__", type(compiler).__qualname__))
