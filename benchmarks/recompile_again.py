"""Compiles a target anew with its recompiles attributed and without in turn: ``recompile_again.py
TARGET N``.

Both sides write torch's trace; only the record of causes differs. Then a steady call of the target,
compiled under the whole recorder, against one compiled without any of it. Run with TORCH_TRACE set.
Prints one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import torch
from torch._dynamo import convert_frame

from graphdoctor.probe.record.files import ProgramFiles
from graphdoctor.probe.record.graphs import GraphRecorder
from graphdoctor.probe.record.guards import RecompileRecorder
from graphdoctor.probe.record.listener import TraceListener
from graphdoctor.probe.torch_private import torch_api

_HOOKS = ("CheckFunctionManager", "get_and_maybe_log_recompilation_reasons")
"""What ``torch_guards.watch_guards`` replaces."""
_STEADY_CALLS = 400


def main(path: str, rounds: int) -> None:
    spec = spec_from_file_location("target", path)
    assert spec is not None and spec.loader is not None
    target = module_from_spec(spec)
    spec.loader.exec_module(target)
    calls = target.changing_inputs()
    listener = TraceListener(lambda _compile_id: None, ProgramFiles(path))
    bare = {name: getattr(convert_frame, name) for name in _HOOKS}
    write = partial(torch_api.write_artifact, "graphdoctor_recompile")
    RecompileRecorder(listener, write).install()
    attributed = {name: getattr(convert_frame, name) for name in _HOOKS}
    torch_api.trace_logger().addHandler(listener)
    cpu_s: dict[str, list[float]] = {"without": [], "with": []}
    for index in range(rounds + 1):
        for side, hooks in (("without", bare), ("with", attributed)):
            _use(hooks)
            seconds = _compile(target.model, calls)
            # The first round of each imports what later ones find imported.
            if index:
                cpu_s[side].append(seconds)
    print(
        json.dumps({"cpu_s": cpu_s, "steady_us": _steady(target.model, calls[0], bare, attributed)})
    )


def _use(hooks: dict[str, Any]) -> None:
    for name, function in hooks.items():
        setattr(convert_frame, name, function)


def _compile(model: Any, calls: list[tuple[Any, ...]]) -> float:
    torch._dynamo.reset()
    torch._dynamo.utils.clear_compilation_metrics()
    compiled = torch.compile(model, backend="eager")
    # The thread's own time: what else the machine does is no part of it.
    started = time.thread_time()
    for arguments in calls:
        compiled(*arguments)
    seconds = time.thread_time() - started
    assert len(torch._dynamo.utils.get_compilation_metrics()) > 1, "nothing was compiled again"
    return seconds


def _steady(
    model: Any, arguments: tuple[Any, ...], *sides: dict[str, Any]
) -> dict[str, list[float]]:
    """Microseconds of a steady call, in turn, each the mean of a batch."""
    torch._dynamo.reset()

    # Two functions: torch keeps compiled code by code object.
    def plain(*args: Any) -> Any:
        return model(*args)

    def recorded(*args: Any) -> Any:
        return model(*args)

    compiled = [torch.compile(function, backend="eager") for function in (plain, recorded)]
    for function, hooks in zip(compiled, sides, strict=True):
        _use(hooks)
        with contextlib.ExitStack() as recording:
            if function is compiled[-1]:
                recording.callback(GraphRecorder(lambda _file: None).install())
            function(*arguments)
    times: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(40):
        for side, function in zip(times, compiled, strict=True):
            function(*arguments)
            started = time.thread_time()
            for _ in range(_STEADY_CALLS):
                function(*arguments)
            times[side].append((time.thread_time() - started) / _STEADY_CALLS * 1e6)
    return {side: values[1:] for side, values in times.items()}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
