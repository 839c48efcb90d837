"""Explains a call in the process that asks for it, and leaves nothing behind.

Comes in: a live function and one call of it. Goes out: the recording that a child process would make of them. What the
calls change is restored: the target's state and the arguments (``snapshot.State``), random numbers, torch and Dynamo
(``torch_loan``). Dynamo is reset before and after.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ..events import EventFile
from ..steps import reports
from ..steps.calls import make_calls
from ..steps.lanes import Lanes
from ..steps.measurements import measure
from ..steps.workload import Workload
from ..target.errors import TargetError
from ..target.snapshot import RandomState, State
from ..target.targets import Call, Calls, Target, plain_function, refuse_unfinished
from ..torch_private import torch_api
from ..torch_private.torch_loan import borrowed, fresh_dynamo
from ..wire import EVENTS_FILE, TRACE_FOLDER, FinishedEvent, ProbeRequest, ProcessEvent


def live_target(function: Any) -> Target:  # noqa: ANN401
    """A module or function as a target; the original, where torch.compile has compiled it already.

    Raises:
        TargetError: There is nothing to compile in it.
    """
    function = torch_api.original_callable(function)
    if isinstance(function, type):
        raise TargetError(f"{function.__qualname__} is a class", f"Make one first: {function.__name__}(...).")
    if not callable(function):
        raise TargetError(
            f"An object of type {type(function).__qualname__} can't be called", "Pass a torch module or a function."
        )
    is_module = isinstance(function, torch.nn.Module)
    named = type(function) if is_module else plain_function(function) or type(function)
    name = str(getattr(named, "__qualname__", type(function).__qualname__))
    if not is_module:
        refuse_unfinished(name, function)
    module = sys.modules.get(getattr(named, "__module__", None) or "")
    return Target(function, name, "module" if is_module else "function", module, None)


def explain(
    request: ProbeRequest, target: Target, call: Call, recording: Path, *, complain: Callable[[str], object]
) -> None:
    """Compile a target and make its call; the recording is complete when this returns.

    Raises:
        TargetError: The request doesn't fit the target.
        BusyError: A recorder of ours already works in this process.
    """
    with contextlib.ExitStack() as left_behind:
        left_behind.enter_context(borrowed(recording / TRACE_FOLDER))
        events = left_behind.enter_context(contextlib.closing(EventFile(recording / EVENTS_FILE)))
        events.write(ProcessEvent(event="process", pid=os.getpid()))
        # Files may have been edited and imported again since they were read.
        linecache.checkcache()
        state = State(target.function, call)
        left_behind.callback(_put_back, state, RandomState(), events)
        if isinstance(target.function, torch.nn.Module):
            torch_api.as_not_compiled_in_place(target.function)
        left_behind.enter_context(fresh_dynamo())
        reports.report_environment(events, device_name())
        workload = Workload(request, events, target, Calls(lambda: iter((call,)), "the caller"))
        left_behind.callback(workload.close)
        events.write(workload.description)
        lanes: Lanes | None = None
        if request["lanes"]:
            lanes = Lanes(workload, events)
            left_behind.callback(lanes.close)
        reports.report_config(events)
        is_complete = make_calls(workload, events, complain=complain, lanes=lanes)
        if (unrecorded := workload.unrecorded()) is not None:
            events.write(unrecorded)
        if is_complete:
            measure(workload, request, events, lanes=lanes)
        workload.report_cuda_graphs()
        reports.report_float32_precision(events)
        reports.report_failures(workload.listener, workload.recompiles, workload.keeper, events)
        events.write(FinishedEvent(event="finished", is_complete=is_complete))


def device_name() -> str | None:
    """The first CUDA device's name where the process uses CUDA already: asking starts it."""
    with contextlib.suppress(RuntimeError):  # a device that was lost has no name
        if torch.cuda.is_initialized():
            return str(torch.cuda.get_device_name(0))
    return None


def _put_back(state: State, random: RandomState, events: EventFile) -> None:
    state.restore()
    random.restore()
    if state.refusals:
        events.gap("not_put_back", f"The calls changed {state.refusals} tensors that could not be restored.")
    if state.is_cut:
        message = "The target holds too many objects to restore everything that the calls changed in them."
        events.gap("not_put_back", message)
    if state.used_up:
        kinds = ", ".join(sorted(set(state.used_up)))
        events.gap("not_put_back", f"The target holds objects that can't be restored after the calls: {kinds}.")
