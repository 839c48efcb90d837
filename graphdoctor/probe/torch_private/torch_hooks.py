"""Hooks on torch's own path, for a program that is run as it is, 2.13 and 2.15.

A hook changes nothing that torch returns or raises; installing one returns what removes it, or
raises ``AttributeError``, ``ImportError`` or ``KeyError`` where this torch lacks the name.

torch calls each of ``_TorchDynamoContext.enter_exit_hooks`` before a compiled call, and what that
returns after it (``torch/_dynamo/eval_frame.py``, 2.11 to 2.15), so nothing of ours is between the
program and its function.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from time import perf_counter
from traceback import FrameSummary
from types import CodeType, FrameType
from typing import Any

import torch

from .torch_api import Function, Undo, frames_outwards, look_on, stance, survived, wrap
from .torch_kernels import quick_range

_EVAL_FRAME = "torch._dynamo.eval_frame"


def watch_compile_calls(callback: Callable[[FrameType], None]) -> Undo:
    """Call back at each ``torch.compile(…)`` with its Python frame, whose locals are the arguments.

    On its way it asks ``CompilerBisector.get_backend`` for a backend (``torch/__init__.py``, 2.13
    and 2.15).
    """

    def get_backend(ask: Function, *args: Any) -> Any:
        frame = sys._getframe(2)
        if frame.f_code is torch.compile.__code__:
            survived(callback, frame)
        return ask(*args)

    bisector = import_module("torch._inductor.compiler_bisector").CompilerBisector
    return wrap(bisector, "get_backend", get_backend, is_traced=True)


def compile_frame() -> FrameType | None:
    """Find the frame of ``torch.compile`` that this is called in; None outside it."""
    code = torch.compile.__code__
    return next((frame for frame in frames_outwards() if frame.f_code is code), None)


def watch_graphs(
    *, before: Callable[[Any], dict[str, Any]], after: Callable[[dict[str, Any]], None]
) -> Undo:
    """Watch each graph on its way to the backend (``torch/_dynamo/output_graph.py``, 2.13 and
    2.15).

    ``before`` gets the graph and describes it; ``after`` gets that with ``backend``, ``backend_s``
    and, when the backend raised, ``backend_error``.
    """

    def call(original: Function, self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        artifact: dict[str, Any] = {"backend": None}
        with suppress(Exception):
            compiler = self.compiler_fn
            # Dynamo's wrapper has the backend's ``__name__`` (``WrapBackendDebug``,
            # ``repro/after_dynamo.py``, 2.13).
            name = getattr(compiler, "compiler_name", None)
            name = name or getattr(compiler, "__name__", type(compiler).__qualname__)
            artifact["backend"] = str(name)
            artifact.update(before(gm))
        started = perf_counter()
        try:
            return original(self, gm, *args, **kwargs)
        except BaseException as error:
            raised = getattr(error, "inner_exception", error)
            artifact["backend_error"] = f"{type(raised).__qualname__}: {raised}"[:20_000]
            raise
        finally:
            artifact["backend_s"] = perf_counter() - started
            survived(after, artifact)

    return wrap(import_module("torch._dynamo.output_graph").OutputGraph, "call_user_compiler", call)


def watch_ignored_caches(callback: Callable[[FrameSummary, str], None]) -> Undo:
    """Call back with the line and the function of each call of an ``lru_cache`` whose tensors
    Dynamo computes itself.

    It traces the function inside, whatever the cache holds, but for torch's own
    (``WrapperUserFunctionVariable`` of ``torch/_dynamo/variables/functions.py``, 2.11 to 2.15).
    """
    functions = import_module("torch._dynamo.variables.functions")
    tensor = import_module("torch._dynamo.variables.tensor").TensorVariable

    def look(result: Any, variable: Any, tx: Any, *_: object) -> None:
        cached = variable.wrapper_obj
        if hasattr(cached, "cache_info") and str(cached.__module__).partition(".")[0] != "torch":
            items = vars(result).get("items")
            parts = items if isinstance(items, list) else [result]
            if any(isinstance(part, tensor) for part in parts):
                callback(tx.frame_summary(), str(cached.__qualname__))

    return look_on(functions.WrapperUserFunctionVariable, "call_function", after=look)


# Calls of compiled functions.

Enter = Callable[[], Callable[[], object]]
"""Called before a call; returns what is called after it."""


class CompiledCalls:
    """The contexts that torch.compile made, and those that are on the stack."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()

    def install(self, callback: Callable[[Any, Any], None]) -> Undo:
        """Call back with each context that torch.compile makes, and with what it compiles.

        What compiles a function or a module is ``OptimizeContext.__call__`` (inherited in 2.11).
        Compiled autograd calls torch.compile while Dynamo compiles every function that is called.
        """
        kind = import_module(_EVAL_FRAME).OptimizeContext
        seen = threading.local()

        def call(compile_function: Function, context: Any, function: Any) -> Any:
            # For a module it calls itself again with the module's bound method.
            depth = seen.depth = getattr(seen, "depth", 0) + 1
            try:
                compiled = compile_function(context, function)
            finally:
                seen.depth = depth - 1
            if isinstance(code := getattr(compiled, "__code__", None), CodeType):
                self._codes.add(code)
            if depth == 1 and isinstance(context, kind):
                survived(callback, context, function)
            return compiled

        owner = next(base for base in kind.__mro__ if "__call__" in vars(base))
        return wrap(owner, "__call__", call, is_traced=True)

    def frames(self) -> Iterator[FrameType]:
        """Yield the frames of compiled calls on the stack, innermost first; the local ``self`` of
        each is its context.
        """
        return (frame for frame in frames_outwards() if frame.f_code in self._codes)


def is_inside_compile() -> bool:
    """Return whether torch is compiling or tracing in this thread."""
    return import_module("torch._guards").TracingContext.try_get() is not None


def watch_lookups(callback: Callable[[bool], None]) -> Undo:
    """Call back after each search of Dynamo's for compiled code of a frame that has some, with
    whether it found any (``set_guard_complete_hook``, 2.8 to 2.15); a program's own hook answers
    first.
    """
    set_hook = import_module("torch._C._dynamo.eval_frame").set_guard_complete_hook

    def look(is_found: bool) -> bool:
        if before is not None:
            is_found = before(is_found)
        survived(callback, is_found)
        return is_found

    before = set_hook(None)
    set_hook(look)

    def undo() -> None:
        if (now := set_hook(before)) is not look:
            set_hook(now)  # the program has set one since

    return undo


def watch_stances(callback: Callable[[str, str], None]) -> Undo:
    """Call back with the stance that there was and the one that comes, before it's set
    (``torch/_dynamo/decorators.py``, 2.6 to 2.15).
    """
    decorators = import_module("torch._dynamo.decorators")

    def before(coming: Any) -> None:
        callback(stance(), coming.stance)

    return look_on(decorators, "_set_stance", before=before, is_traced=True)


def replace_call_hook(context: Any, old: Enter | None, new: Enter) -> None:
    """Have a context call ``new`` before each call, in the place of ``old``."""
    hooks = context.enter_exit_hooks
    if old is not None and old in hooks:
        hooks[hooks.index(old)] = new
    else:
        hooks.append(new)


GRAPH_RANGE = "graphdoctor_graph "
"""Profiler ranges of compiled graphs, each followed by the graph's index."""

WatchedRun = tuple[int, int, float, float, int]
"""A run of a graph: its index and tensor operations, start and end by ``time.perf_counter``, and
its thread."""

LatestGraph = Callable[[], tuple[int, int] | None]
"""Index and tensor operations of the graph that a backend compiled last."""


class GraphGlobals:
    """The globals under which Dynamo's code finds the compiled graphs, so that they can be replaced
    during a call; the one of the ``latest`` graph comes next.
    """

    def __init__(self, latest: LatestGraph) -> None:
        self._graphs: dict[str, tuple[dict[str, Any], int, int]] = {}
        self._latest = latest
        self._noted: tuple[int, int] | None = None
        self._runs: list[WatchedRun] | None = None
        self._replaced: list[tuple[dict[str, Any], str, Any, Any]] = []
        import_module(_EVAL_FRAME).skip_code(_watched(lambda: None, 0, 0, []).__code__)
        # As Dynamo makes them (``torch/_dynamo/output_graph.py``, 2.11 to 2.15).
        owner = import_module("torch._dynamo.output_graph").OutputGraph
        self.close: Undo = look_on(owner, "install_global_unsafe", after=self._note)

    def _note(self, _result: None, graph: Any, name: str, *_: object) -> None:
        latest = self._latest()
        # From 2.15 on, a graph without operations has a global, too, but never reaches a backend.
        if name.startswith("__compiled_fn") and latest is not None and latest is not self._noted:
            self._noted = latest
            self._graphs[name] = (graph.global_scope, *latest)
            self._replace(name)

    def _replace(self, name: str) -> None:
        scope, index, tensor_ops = self._graphs[name]
        if (graph := scope.get(name)) is None:  # Dynamo has dropped the code that calls it
            del self._graphs[name]
        elif self._runs is not None:
            scope[name] = watched = _watched(graph, index, tensor_ops, self._runs)
            self._replaced.append((scope, name, graph, watched))

    @contextmanager
    def watched(self) -> Iterator[list[WatchedRun]]:
        """Put runs of graphs into profiler ranges, and yield those that have ended."""
        runs: list[WatchedRun] = []
        self._runs = runs
        for name in list(self._graphs):
            self._replace(name)
        try:
            yield runs
        finally:
            self._runs = None
            for scope, name, graph, watched in self._replaced:
                if scope.get(name) is watched:
                    scope[name] = graph
            self._replaced.clear()


def _watched(graph: Function, index: int, tensor_ops: int, runs: list[WatchedRun]) -> Any:
    """A graph in a range of its own. Dynamo skips its code, and everything that it calls itself is
    in C.
    """

    def run(*args: Any) -> Any:
        started = clock()
        try:
            with quick(range_name):
                output = graph(*args)
        except BaseException as error:
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next  # as ``hide_callers`` does
            raise
        runs.append((index, tensor_ops, started, clock(), get_ident()))
        return output

    clock = perf_counter
    get_ident = threading.get_ident
    range_name = f"{GRAPH_RANGE}{index}"
    quick: Any = type(quick_range(""))
    return run


def watch_profilers(callback: Callable[[], None]) -> None:
    """Call back before a ``torch.profiler`` of any kind begins, ours too.

    The second is of ``emit_nvtx`` and ``emit_itt``: ``torch/autograd/profiler.py``, 2.11 to 2.15.
    """
    module = import_module("torch.autograd.profiler")
    for owner, name in ((module.profile, "_prepare_trace"), (module, "_run_on_profiler_start")):
        look_on(owner, name, before=lambda *_: callback())


def is_any_profiler_on() -> bool:
    """Return whether a ``torch.profiler`` runs in some thread."""
    return bool(getattr(import_module("torch.autograd.profiler"), "_is_profiler_enabled", False))
