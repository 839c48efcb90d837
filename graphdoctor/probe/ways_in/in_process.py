"""Records in the process that asks for it, a call or a block of code, and leaves nothing behind.

``explain`` makes one call of a live function, as a child process would. What the call changes is
restored: the target's state and the arguments (``snapshot.State``), random numbers, torch and
    Dynamo (``torch_loan``).

``recorded`` watches a block's own calls of ``torch.compile``, as ``script.py`` does for a whole
program: they and their arguments stay as they are, and nothing of ours runs in a call that is
    compiled already. What the program compiled stays
compiled; every hook is removed again.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from collections.abc import Collection, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from ...facts.shared import FROM_CALLER
from ..events import EventFile
from ..record import reports
from ..record.compile_calls import compile_call, compiled_root
from ..record.errors import TargetError, described_error
from ..record.files import ProgramFiles
from ..record.hooks import Hooks
from ..record.listener import TraceListener
from ..record.reports import CompileSwitches, hooking, unrecorded_gap
from ..steps.calls import run
from ..steps.workload import Complain, Workload
from ..target.snapshot import RandomState, State
from ..target.targets import Call, Calls, Target, plain_function, refuse_unfinished
from ..torch_private import torch_api, torch_hooks
from ..torch_private.torch_loan import borrowed, fresh_dynamo
from ..wire import EVENTS_FILE, TRACE_FOLDER, ProbeRequest


def live_target(function: Any) -> Target:
    """A module or function as a target; the original, where torch.compile has compiled it
    already.
    """
    function = torch_api.original_callable(function)
    if isinstance(function, type):
        raise TargetError(
            f"{function.__qualname__} is a class", f"Make one first: {function.__name__}(...)."
        )
    if not callable(function):
        raise TargetError(
            f"An object of type {type(function).__qualname__} can't be called",
            "Pass a torch module or a function.",
        )
    is_module = isinstance(function, torch.nn.Module)
    named = type(function) if is_module else plain_function(function) or type(function)
    name = str(getattr(named, "__qualname__", type(function).__qualname__))
    if not is_module:
        refuse_unfinished(name, function)
    module = sys.modules.get(getattr(named, "__module__", None) or "")
    return Target(function, name, "module" if is_module else "function", module, None)


def explain(
    request: ProbeRequest, target: Target, call: Call, recording: Path, *, complain: Complain
) -> None:
    """Compile a target and make its call; the recording is complete when this returns."""
    with contextlib.ExitStack() as left_behind:
        events = _begun(recording, left_behind)
        left_behind.callback(_put_back, State(target.function, call), RandomState(), events)
        if isinstance(target.function, torch.nn.Module):
            torch_api.as_not_compiled_in_place(target.function)
        left_behind.enter_context(fresh_dynamo())
        reports.report_environment(events, reports.device_name(), request["own"])
        workload = Workload(
            request, events, complain, target, Calls(lambda: iter((call,)), FROM_CALLER)
        )
        left_behind.callback(workload.close)
        events.write("finished", is_complete=run(workload))


def _begun(recording: Path, left_behind: contextlib.ExitStack) -> EventFile:
    left_behind.enter_context(borrowed(recording / TRACE_FOLDER))
    events = left_behind.enter_context(contextlib.closing(EventFile(recording / EVENTS_FILE)))
    events.write("process", pid=os.getpid())
    # Files may have been edited and imported again since they were read.
    linecache.checkcache()
    return events


def _put_back(state: State, random: RandomState, events: EventFile) -> None:
    state.restore()
    random.restore()
    state.report_lost(events, "after the calls")


@contextlib.contextmanager
def recorded(recording: Path, *, outside: Collection[FrameType], is_reset: bool) -> Iterator[None]:
    """Record while the context lasts."""
    with contextlib.ExitStack() as left_behind:
        events = _begun(recording, left_behind)
        if is_reset:
            torch.compiler.reset()
        recorder = _BlockRecorder(events, outside, left_behind)
        try:
            yield
        except BaseException as error:
            events.write("ended", error=described_error(error))
            raise
        finally:
            recorder.end()


class _BlockRecorder:
    def __init__(
        self, events: EventFile, outside: Collection[FrameType], left_behind: contextlib.ExitStack
    ) -> None:
        self._events = events
        self._listener = TraceListener(
            self._on_compile, ProgramFiles(next(iter(sys.argv), None)), outside
        )
        self._hooks = Hooks(events, self._listener)
        left_behind.callback(self._hooks.close)
        self._hooks.install()
        with hooking(events, "where torch.compile was called"):
            left_behind.callback(torch_hooks.watch_compile_calls(self._write_compile_call))
        self._switches = CompileSwitches(events)
        self._switches.look()
        self._counted = dict(torch_api.counters().get("unimplemented", {}))

    def _on_compile(self, compile_id: str | None) -> None:
        if compile_id is None:
            self._listener.write_sources()

    def _write_compile_call(self, frame: FrameType) -> None:
        call = compile_call(frame)
        self._listener.roots.add(compiled_root(frame, call))
        self._hooks.keeper.restore()
        torch_api.write_artifact("graphdoctor_compile_call", call)
        self._listener.want_file(call.file)

    def end(self) -> None:
        self._listener.write_sources()
        self._switches.look()
        reports.report_environment(self._events, reports.device_name())
        reports.report_config(self._events)
        reports.report_float32_precision(self._events)
        self._hooks.report_failures()
        if reasons := torch_api.unrecorded_breaks(self._counted):
            self._events.gap(*unrecorded_gap(reasons))
