"""Hooks on calls of compiled functions, for a program that is run as it is: private names, as in ``torch_api``.

torch calls each of ``_TorchDynamoContext.enter_exit_hooks`` before a compiled call, and what that returns after it,
also if an exception leaves the call (``torch/_dynamo/eval_frame.py``, 2.11 to 2.15). So nothing of ours is between the
program and its function. Seen on 2.13.0.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from importlib import import_module
from types import CodeType, FrameType
from typing import Any

from ..torch_private import torch_api
from .imports import hide_caller
from .replacing import Undo, look_on, put_in_place, undone
from .torch_kernels import quick_range

Enter = Callable[[], Callable[[], object]]
"""Called before a call; returns what is called after it."""

_GRAPH_GLOBAL = "__compiled_fn"


class CompiledCalls:
    """Knows the contexts that torch.compile made, and those that are on the stack."""

    def __init__(self) -> None:
        self._codes: set[CodeType] = set()

    def install(self, callback: Callable[[Any, Any], None]) -> Undo:
        """Call back with each context that torch.compile makes, and with what it compiles.

        ``OptimizeContext.__call__``: ``torch/_dynamo/eval_frame.py``, 2.13; inherited in 2.11. For a module it calls
        itself again with the module's bound method.
        """
        kind = import_module("torch._dynamo.eval_frame").OptimizeContext
        owner = next(base for base in kind.__mro__ if "__call__" in vars(base))
        compile_function = owner.__call__
        seen = threading.local()

        def call(context: Any, function: Any) -> Any:  # noqa: ANN401
            depth = seen.depth = getattr(seen, "depth", 0) + 1
            try:
                compiled = compile_function(context, function)
            except BaseException as error:
                hide_caller(error)
                raise
            finally:
                seen.depth = depth - 1
            if isinstance(code := getattr(compiled, "__code__", None), CodeType):
                self._codes.add(code)
            if depth == 1 and isinstance(context, kind):
                _outside_dynamo(callback, context, function)
            return compiled

        # Compiled autograd calls torch.compile while Dynamo compiles every function that is called.
        torch_api.keep_from_compiling(call)
        torch_api.keep_all_from_compiling(_outside_dynamo)
        return put_in_place(owner, "__call__", wraps(compile_function)(call))

    def frames(self) -> Iterator[FrameType]:
        """The frames of compiled calls on the stack, innermost first; the local ``self`` of each is its context."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            if frame.f_code in self._codes:
                yield frame
            frame = frame.f_back


def _outside_dynamo(callback: Callable[[Any, Any], None], context: Any, function: Any) -> None:  # noqa: ANN401
    """Call back without Dynamo's looking on; an error of ours is an extra that is lost."""
    with contextlib.suppress(Exception):
        callback(context, function)


def is_inside_compile() -> bool:
    """Whether torch is compiling or tracing in this thread."""
    return import_module("torch._guards").TracingContext.try_get() is not None


def replace_call_hook(context: Any, old: Enter | None, new: Enter) -> None:  # noqa: ANN401
    """Have a context call ``new`` before each call, in the place of ``old``."""
    hooks: list[Enter] = context.enter_exit_hooks
    if old is not None and old in hooks:
        hooks[hooks.index(old)] = new
    else:
        hooks.append(new)


class GraphGlobals:
    """The globals under which Dynamo's code finds the compiled graphs, so that they can be replaced during a call."""

    def __init__(self) -> None:
        self._graphs: dict[str, tuple[dict[str, Any], int, int]] = {}
        self._latest: tuple[int, int] | None = None
        import_module("torch._dynamo.eval_frame").skip_code(_marked(lambda: None, "", [], 0, 0).__code__)

    def install(self) -> Undo:
        """See each graph's global as Dynamo makes it.

        ``OutputGraph.install_global_unsafe``: ``torch/_dynamo/output_graph.py``, 2.11 to 2.15.
        """
        owner = import_module("torch._dynamo.output_graph").OutputGraph
        return look_on(owner, "install_global_unsafe", after=self._note)

    def _note(self, _result: None, graph: Any, name: str, *_: object) -> None:  # noqa: ANN401
        if name.startswith(_GRAPH_GLOBAL) and self._latest is not None:
            self._graphs[name] = (graph.global_scope, *self._latest)

    def add(self, index: int, tensor_ops: int) -> None:
        """A backend has compiled a graph, whose global comes next."""
        self._latest = index, tensor_ops

    @contextlib.contextmanager
    def marked(self, prefix: str) -> Iterator[list[int]]:
        """Put runs of graphs in this thread into profiler ranges while the context lasts.

        Yields:
            The tensor operations of each run.
        """
        runs: list[int] = []
        replaced: list[tuple[dict[str, Any], str, Any, Any]] = []
        thread = threading.get_ident()
        for name, (scope, index, tensor_ops) in list(self._graphs.items()):
            graph = scope.get(name)
            if graph is None:  # Dynamo has dropped the code that calls it
                self._graphs.pop(name, None)
                continue
            scope[name] = marked = _marked(graph, f"{prefix}{index}", runs, tensor_ops, thread)
            replaced.append((scope, name, graph, marked))
        try:
            yield runs
        finally:
            for scope, name, graph, marked in replaced:
                if scope.get(name) is marked:
                    scope[name] = graph


def _marked(graph: Callable[..., Any], range_name: str, runs: list[int], tensor_ops: int, thread: int) -> Any:  # noqa: ANN401
    """A graph in a range of its own. Dynamo skips its code, and everything that it calls itself is in C."""

    def run(*args: Any) -> Any:  # noqa: ANN401
        if get_ident() != thread:
            return graph(*args)
        runs.append(tensor_ops)
        try:
            with quick(range_name):
                return graph(*args)
        except BaseException as error:
            if error.__traceback__ is not None:
                error.__traceback__ = error.__traceback__.tb_next  # as ``hide_caller`` does
            raise

    get_ident, quick = threading.get_ident, _fast_range()
    return run


def _fast_range() -> Callable[[str], Any]:
    return type(quick_range(""))


def watch_profilers(callback: Callable[[], None]) -> Undo:
    """Call back before a ``torch.profiler`` of any kind begins, ours too.

    ``profile._prepare_trace``, and ``_run_on_profiler_start`` for ``emit_nvtx`` and ``emit_itt``:
    ``torch/autograd/profiler.py``, 2.11 to 2.15.
    """
    module: Any = import_module("torch.autograd.profiler")
    places = ((module.profile, "_prepare_trace"), (module, "_run_on_profiler_start"))
    return undone(*(look_on(owner, name, before=lambda *_: callback()) for owner, name in places))


def is_any_profiler_on() -> bool:
    """A ``torch.profiler`` runs in some thread."""
    return bool(getattr(import_module("torch.autograd.profiler"), "_is_profiler_enabled", False))


def compile_inside_ddp() -> Undo:
    """Have torch.compile of a DDP compile ``ddp.module``, and return the DDP.

    ``OptimizeContext.__call__`` gets what torch.compile gets; ``Module.compile()`` compiles ``_call_impl``
    (``torch/_dynamo/eval_frame.py`` and ``torch/nn/modules/module.py``, 2.11 to 2.15).
    """
    from torch.nn.parallel import DistributedDataParallel

    kind = import_module("torch._dynamo.eval_frame").OptimizeContext
    owner = next(base for base in kind.__mro__ if "__call__" in vars(base))
    compile_function = owner.__call__

    def call(context: Any, function: Any) -> Any:  # noqa: ANN401
        called = getattr(function, "__self__", function)
        if not isinstance(called, DistributedDataParallel):
            return compile_function(context, function)
        if function is called or getattr(function, "__name__", "") == "_call_impl":
            called.module = compile_function(context, called.module)
        return function

    torch_api.keep_from_compiling(call)
    return put_in_place(owner, "__call__", wraps(compile_function)(call))
