"""A program as its user runs it, to be timed: plain ``torch.compile``, nothing of ours in the
compile or the call.

A ``workload``, which is recorded, makes the first round of its calls instead, if there is one; from
then on nothing of ours is in a call of it either.

When its calls compile nothing any more it writes ``BenchStart`` to a socket. Each line of JSON
``{"seconds": …}`` is answered by a ``BenchTurn``, so that several programs take turns and share the
machine's noise, and ``{"floor": true}`` and ``{"device": true}`` by a ``BenchTime``, until the
socket closes.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from functools import partial
from time import perf_counter
from typing import Any

import torch

from ..events import EventFile
from ..measure.timing import (
    BLOCK_S,
    ROW_S,
    Block,
    PeakMemory,
    answer,
    peak_resident_bytes,
    questions,
    time_block,
    time_calls,
)
from ..record.describe import arguments_text
from ..replay.trial import Trial
from ..target.options import compile_target
from ..target.snapshot import State, restorer, seed_everything
from ..target.targets import Call, Calls, Target, backward, forget_gradients, forward, items_in
from ..torch_private.torch_api import cache_counts, on_compile, synchronize, tensors_in
from ..torch_private.torch_kernels import awaits_backward
from ..wire import BenchStart, BenchTime, BenchTurn, ProbeRequest
from .workload import Workload

_QUIET_PASSES = 3
"""Passes without a compile: CUDA graphs run once to warm up, and are recorded in the next run
(torch 2.13)."""

_MAX_PASSES = 12
"""More than torch's default recompile limit of 8."""

_FLOOR_S = 0.05
_FLOOR_CALLS = 100
"""Of the shortest compiled call, that are timed together."""


class Benched:
    """The program, compiled or not, and its calls."""

    def __init__(
        self,
        request: ProbeRequest,
        events: EventFile,
        target: Target,
        calls: Calls,
        workload: Workload | None = None,
    ) -> None:
        self._request = request
        self._events = events
        self._function = target.function
        self._calls = calls
        self._trial = Trial(request["trial"] or {}, target.function)
        self._trial.prepare(events)
        self._workload = workload
        self._compiled: Any = None if workload is None else workload.compiled
        self._compiles = 0
        self._last_call: Call | None = None
        self._states: dict[int, State] = {}
        self._output: object = None

    def kept(self, calls: Iterator[Call]) -> Iterator[Call]:
        """Keep what the workload's calls may change in their arguments."""
        for number, call in enumerate(calls):
            self._states[number] = State(None, call)
            yield call

    def run(self, compile_s: float = 0.0) -> None:
        """Serve the socket until it is closed.

        ``compile_s``: seconds that ``torch.compile`` itself took the workload.
        """
        is_eager = not self._trial.is_compiled
        with socket.socket(fileno=int(self._request["timing"])) as connection:
            if self._workload is None:
                started = perf_counter()
                self._compiled = self._function if is_eager else self._compile()
                compile_s = perf_counter() - started
            self._events.phase("making the calls")
            passes, is_steady = self._settle()
            steady = [min(times) for times in zip(*passes[-_QUIET_PASSES:], strict=True)]
            call = self._last_call
            restore = None
            if call is not None and is_steady:
                restore = restorer(call, partial(self._make, call))
            uses_cuda = torch.cuda.is_initialized()
            answer(
                connection,
                BenchStart(
                    is_steady=is_steady,
                    excess_s=compile_s + sum(map(sum, passes)) - len(passes) * sum(steady),
                    passes=len(passes),
                    call_count=len(steady),
                    inputs=None if call is None else arguments_text(*call),
                    items=None if call is None else items_in(call, self._output),
                    cache=None if is_eager else cache_counts(),
                    uses_cuda=uses_cuda,
                    peak_memory_bytes=peak_resident_bytes(),
                ),
            )
            if call is None or not is_steady:
                return
            self._output = None
            self._events.phase("timing the last call")
            make = partial(self._make, call)
            block = Block(steady[-1], restore, least_s=ROW_S if uses_cuda else BLOCK_S)
            alone = Block(steady[-1], restore, least_s=0.0)
            memory = PeakMemory()
            for question in map(json.loads, questions(connection)):
                if "floor" in question:
                    answer(connection, BenchTime(us=_floor_us(call), awaits_backward=False))
                elif "device" in question:
                    from ..measure.kernels import device_us

                    us = device_us(make, restore, steady[-1])
                    answer(connection, BenchTime(us=us, awaits_backward=awaits_backward()))
                else:
                    seconds = float(question["seconds"])
                    times = time_block(make, block, seconds=seconds)
                    is_apart = uses_cuda and block.number > 1
                    turn = BenchTurn(
                        times_us=times,
                        calls=block.number,
                        alone_us=time_block(make, alone, seconds=seconds / 4) if is_apart else [],
                        peak_memory_bytes=memory.bytes(),
                    )
                    answer(connection, turn)

    def _compile(self) -> Any:
        """Return the target under ``torch.compile``, which imports Dynamo here as it does in the
        user's program.
        """
        function, _ = compile_target(self._function, self._request)

        def count() -> None:
            self._compiles += 1

        on_compile(count)
        return function

    def _settle(self) -> tuple[list[list[float]], bool]:
        """Make all calls again and again; seconds of each call of each pass, and whether the last
        ones were steady.
        """

        def compile_count() -> int:
            return self._compiles if self._workload is None else self._workload.activity.compiles

        passes = [] if self._workload is None else [self._workload.durations_s]
        quiet = 0
        while quiet < _QUIET_PASSES and len(passes) < _MAX_PASSES:
            before = compile_count()
            passes.append(self._pass())
            quiet = quiet + 1 if compile_count() == before and len(passes) > 1 else 0
        return passes, quiet >= _QUIET_PASSES

    def _pass(self) -> list[float]:
        times: list[float] = []
        for _ in range(self._request["calls"]):
            for original in self._calls.rounds():
                seed_everything(self._request["seed"])
                call = self._trial.changed(original)
                # What an earlier pass changed: ``example_inputs()`` may return what it made before.
                if (number := len(times)) in self._states:
                    self._states[number].restore()
                else:
                    self._states[number] = State(None, call)
                synchronize()
                started = perf_counter()
                self._make(call)
                synchronize()
                times.append(perf_counter() - started)
                self._last_call = call
        return times

    def _make(self, call: Call) -> None:
        self._output = forward(self._compiled, call, no_grad=self._request["no_grad"])
        if self._request["backward"]:
            backward(self._output)
            forget_gradients(self._function)
            for leaf in tensors_in(call):
                if leaf.is_leaf:
                    leaf.grad = None


def _floor_us(call: Call) -> float | None:
    """Return the least that a compiled call takes: one that adds 1 to a number in a tensor of the
    call's device.
    """
    tensors = tensors_in(call)
    least = torch.zeros(1, device=tensors[0].device if tensors else None)
    try:
        function = torch.compile(lambda x: x + 1, backend="eager")
        with torch.no_grad():
            function(least)
            seconds = time_calls(lambda: function(least), seconds=_FLOOR_S, number=_FLOOR_CALLS)
    except Exception:  # noqa: BLE001 - an extra: settings of the program's may make torch refuse it
        return None
    return 1e6 * min(seconds)
