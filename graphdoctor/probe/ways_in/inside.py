"""Explains a call in the process that asks for it, and leaves nothing behind.

Comes in: a live function and one call of it. Goes out: the recording that a child process would make of them. What the
calls change is put back: the target's state and the arguments (``snapshot.State``), random numbers, torch and Dynamo
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
from ..steps import sequence as steps
from ..steps.lanes import Lanes
from ..steps.workload import Workload
from ..target.errors import TargetError
from ..target.snapshot import RandomState, State
from ..target.targets import Call, Calls, Target, plain_function, refuse_unfinished
from ..torch_private import torch_api
from ..torch_private.torch_loan import borrowed, fresh_dynamo


def live_target(function: Any) -> Target:  # noqa: ANN401
    """A module or function as a target; of what torch.compile made the original.

    Raises:
        TargetError: Calling it says nothing about a compile.
    """
    function = torch_api.original_callable(function)
    if isinstance(function, type):
        raise TargetError(f"{function.__qualname__} is a class", f"Make one first: {function.__name__}(...).")
    if not callable(function):
        raise TargetError(
            f"An object of type {type(function).__qualname__} cannot be called", "Give a torch module or a function."
        )
    is_module = isinstance(function, torch.nn.Module)
    named = type(function) if is_module else plain_function(function) or type(function)
    name = str(getattr(named, "__qualname__", type(function).__qualname__))
    if not is_module:
        refuse_unfinished(name, function)
    module = sys.modules.get(getattr(named, "__module__", None) or "")
    return Target(function, name, "module" if is_module else "function", module, None)


def explain(
    request: dict[str, Any], target: Target, call: Call, recording: Path, *, complain: Callable[[str], object]
) -> None:
    """Compile a target and make its call; the recording is complete when this returns.

    Args:
        request: How to compile and call it, in the form of ``graphdoctor.capture``.
        target: What to compile.
        call: Its arguments.
        recording: The recording's folder.
        complain: Shows the traceback of a call that failed.

    Raises:
        TargetError: The request does not fit.
        BusyError: A recorder of ours is at work in this process.
    """
    with contextlib.ExitStack() as left_behind:
        left_behind.enter_context(borrowed(recording / "trace"))
        events = left_behind.enter_context(contextlib.closing(EventFile(recording / "probe.jsonl")))
        events.write("process", pid=os.getpid())
        # Files may have been edited and imported again since they were read.
        linecache.checkcache()
        state = State(target.function, call)
        left_behind.callback(_put_back, state, RandomState(), events)
        if isinstance(target.function, torch.nn.Module):
            torch_api.as_not_compiled_in_place(target.function)
        left_behind.enter_context(fresh_dynamo())
        steps.tell_environment(events, device_name())
        workload = Workload(request, events, target, Calls(lambda: iter((call,)), "the caller"))
        left_behind.callback(workload.close)
        events.write("target", **workload.description)
        lanes: Lanes | None = None
        if request["lanes"]:
            lanes = Lanes(workload, events)
            left_behind.callback(lanes.close)
        steps.tell_config(events)
        is_complete = steps.make_calls(workload, events, complain=complain, lanes=lanes)
        if (untold := workload.untold()) is not None:
            events.write("gap", message=untold)
        if is_complete:
            steps.measure(workload, request, events, lanes=lanes)
        steps.tell_failures(workload.listener, workload.recompiles, events)
        events.write("finished", is_complete=is_complete)


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
        events.write("gap", message=f"The calls changed {state.refusals} tensors that could not be put back.")
    if state.is_cut:
        events.write("gap", message="The target holds too many objects to put back all that the calls changed in them.")
    if state.used_up:
        kinds = ", ".join(sorted(set(state.used_up)))
        events.write("gap", message=f"The target holds what cannot be put back after the calls: {kinds}.")
