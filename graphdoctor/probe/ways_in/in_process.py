"""Records in the process that asks for it, a call or a block of code, and leaves nothing behind.

``explain`` makes one call of a live function, as a child process would. What the call changes is
restored: the target's state and the arguments (``snapshot.State``), random numbers, torch and
Dynamo (``torch_trace``).

``recorded`` watches a block's own calls of ``torch.compile``, as ``recorder.py`` does for a whole
program: they and their arguments stay as they are, and nothing of ours runs in a call that is
compiled already. What the program compiled stays compiled; every hook is removed again.

A test gets a Dynamo and config values of its own while it runs (``isolated``).
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch.nn import Module

from ...facts.shared import FROM_CALLER
from ..events import EventFile
from ..record import reports
from ..record.errors import TargetError, described_error
from ..record.files import ProgramFiles
from ..record.listener import TraceListener, compile_call, compiled_root
from ..steps.calls import run
from ..steps.workload import Complain, Workload
from ..target.options import set_config
from ..target.snapshot import RandomState, State
from ..target.targets import Call, Calls, Target, plain_function, refuse_unfinished
from ..torch_private import torch_api
from ..torch_private.torch_config import config_kept
from ..torch_private.torch_hooks import watch_compile_calls
from ..torch_private.torch_trace import borrowed, fresh_dynamo
from ..wire import EVENTS_FILE, TRACE_FOLDER, ProbeRequest


def live_target(function: Any) -> Target:
    """Make a target of a module or function; of the original, where torch.compile has compiled it
    already.
    """
    function = torch_api.original_callable(function)
    kind = type(function)
    if isinstance(function, type):
        hint = f"Make one first: {function.__name__}(...)."
        raise TargetError(f"{function.__qualname__} is a class", hint)
    if not callable(function):
        hint = "Pass a torch module or a function."
        raise TargetError(f"An object of type {kind.__qualname__} can't be called", hint)
    is_module = isinstance(function, Module)
    named = kind if is_module else plain_function(function) or kind
    name = str(getattr(named, "__qualname__", kind.__qualname__))
    if not is_module:
        refuse_unfinished(name, function)
    module = sys.modules.get(getattr(named, "__module__", None) or "")
    return Target(function, name, "module" if is_module else "function", module, None)


def explain(
    request: ProbeRequest, target: Target, call: Call, recording: Path, *, complain: Complain
) -> None:
    """Compile a target and make its call; the recording is complete when this returns."""
    with ExitStack() as restoring:
        events = _begin(recording, restoring)
        state = State(target.function, call)
        restoring.callback(state.report_lost, events, "after the calls")
        restoring.enter_context(RandomState())
        restoring.callback(state.restore)
        if isinstance(target.function, Module):
            torch_api.as_not_compiled_in_place(target.function)
        restoring.enter_context(fresh_dynamo())
        reports.report_environment(events, reports.device_name(), request["own"])
        calls = Calls(lambda: iter((call,)), FROM_CALLER)
        workload = Workload(request, events, complain, target, calls)
        restoring.callback(workload.close)
        events.write("finished", is_complete=run(workload))


def _begin(recording: Path, restoring: ExitStack) -> EventFile:
    restoring.enter_context(borrowed(recording / TRACE_FOLDER))
    events = restoring.enter_context(closing(EventFile(recording / EVENTS_FILE)))
    events.write("process", pid=os.getpid())
    # Files may have been edited and imported again since they were read.
    linecache.checkcache()
    return events


@contextmanager
def recorded(recording: Path, *, outside: Collection[FrameType], is_reset: bool) -> Iterator[None]:
    """Record while the context lasts."""
    with ExitStack() as restoring:
        events = _begin(recording, restoring)
        if is_reset:
            torch.compiler.reset()

        def on_compile(compile_id: str | None) -> None:
            if compile_id is None:
                listener.write_sources()

        def on_compile_call(frame: FrameType) -> None:
            call = compile_call(frame)
            listener.add_root(compiled_root(frame, call))
            hooks.keeper.restore()
            listener.write_compile_call(call)

        listener = TraceListener(on_compile, ProgramFiles(next(iter(sys.argv), None)), outside)
        hooks = reports.Hooks(events, listener)
        restoring.callback(hooks.close)
        hooks.install()
        with reports.hooking(events, "where torch.compile was called"):
            restoring.callback(watch_compile_calls(on_compile_call))
        switches = reports.CompileSwitches(events)
        switches.look()
        counted = dict(torch_api.counters().get("unimplemented", {}))
        try:
            yield
        except BaseException as error:
            events.write("ended", error=described_error(error))
            raise
        finally:
            listener.write_sources()
            switches.look()
            reports.report_environment(events, reports.device_name())
            reports.report_config(events)
            reports.report_float32_precision(events)
            hooks.report_failures()
            if reasons := torch_api.unrecorded_breaks(counted):
                events.gap(*reports.unrecorded_gap(reasons))


# What the API and tests need of torch.


def uncompiled(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function of ours as Python does, also where a function that calls it is being
    compiled; what it compiles itself is compiled.
    """
    return torch.compiler.disable(_call)(function, args, kwargs)


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


@contextmanager
def isolated(config: Mapping[str, object]) -> Iterator[None]:
    """Start with nothing compiled, and leave nothing behind: Dynamo's caches, counts, marks,
    torch's config values.

    Raises:
        RequestError: There is no such setting of ``torch._dynamo.config``, or it takes another
            type.
    """
    with fresh_dynamo(), config_kept():
        for name, value in config.items():
            set_config(f"torch._dynamo.config.{name}", value)
        yield


def compiled(function: Any, arguments: Mapping[str, Any]) -> Any:
    """Call ``torch.compile`` with these arguments."""
    __tracebackhide__ = True
    return torch.compile(function, **arguments)


def is_grad_enabled() -> bool:
    """Return whether a call made now would record for autograd."""
    return torch.is_grad_enabled()
