"""The user's calls, made one after the other until one fails, and what is asked for after them."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ...facts.recording import CallError
from ...facts.trials import Replay
from ..record import reports
from ..record.describe import arguments_text
from ..record.errors import TargetError, described_error, message_of, own_traceback_text
from ..record.streams import kept_texts, silence
from ..replay.trial import Trial
from ..target.targets import Call
from ..torch_private import torch_api
from .attacking import Attacking
from .lanes import Lanes
from .measurements import measure
from .vary import Varying
from .workload import Workload

Kept = Callable[[Iterator[Call]], Iterator[Call]]
"""Calls, of which something is kept."""


def run(workload: Workload, kept: Kept | None = None) -> bool:
    """Make the calls, and everything that is asked for after them; whether every call that was made
    came back.
    """
    workload.warm_up()
    graphs = workload.graphs
    lanes = Lanes(workload, graphs) if workload.request["lanes"] and graphs is not None else None
    with contextlib.nullcontext() if lanes is None else contextlib.closing(lanes):
        return _run(workload, lanes, kept)


def _run(workload: Workload, lanes: Lanes | None, kept: Kept | None) -> bool:
    request, events, trial = workload.request, workload.events, workload.trial
    varying = Varying(workload) if request["vary"] else None
    attacks = None if trial is None else trial.plan.get("attacks")
    attacking = None if attacks is None else Attacking(workload, attacks)
    has_kernels = request["kernels"] or request["stages"] or request["profile"] is not None
    config = reports.report_config(events, has_kernels=has_kernels)
    # What a trial's program writes is a result; a plain run's goes where it always goes.
    with contextlib.nullcontext(dict) if trial is None else kept_texts() as texts:
        calls = workload.calls()
        for keeping in (varying, attacking):
            calls = calls if keeping is None else keeping.kept(calls)
        calls = calls if kept is None else kept(calls)
        is_complete = make_calls(workload, calls, lanes)
    reports.report_config(events, config, has_kernels=has_kernels)
    found = compare(workload, trial, texts()) if is_complete and trial is not None else None
    if is_complete and varying is not None:
        with silence():
            varying.run()
    workload.report_unrecorded()
    if is_complete:
        measure(workload, lanes)
    if workload.cuda_graphs is not None:
        workload.cuda_graphs.report(events)
    reports.report_float32_precision(events)
    # Last: what it compiles for other inputs would count in what is measured.
    if attacking is not None and found is not None:
        attacking.run(found)
    workload.hooks.report_failures()
    return is_complete


def compare(workload: Workload, trial: Trial, texts: Mapping[str, str]) -> Replay:
    """Compare what the calls returned and wrote before any is repeated."""
    workload.events.phase("comparing results")
    found = trial.finish(texts)
    workload.events.write("trial", found)
    return found


def make_calls(workload: Workload, calls: Iterator[Call], lanes: Lanes | None = None) -> bool:
    """Make calls in order, until one fails; whether none failed."""
    for index in itertools.count(1):
        workload.events.phase("making the inputs of call {index}", index=index)
        if (call := next(calls, None)) is None:
            break
        if lanes is not None:
            lanes.keep(call)
        workload.events.phase("call {index}", index=index)
        workload.mark("start", index, inputs=arguments_text(*call))
        workload.switches.look(index)
        # The target's file: the call may never end.
        workload.listener.write_sources()
        started = time.perf_counter()
        error: BaseException | None = None
        try:
            with contextlib.nullcontext() if lanes is None else lanes.watched():
                workload.call(call, draw=index - 1)
        except (TargetError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:  # noqa: BLE001 - the user's program may raise anything
            error = raised
        duration_s = time.perf_counter() - started
        workload.switches.look(index)
        if lanes is not None:
            lanes.write()
        # Not while it is being handled: the traceback of the same call without torch.compile would
        # include it.
        if error is not None:
            _report_failed(workload, call, index, error, duration_s)
            return False
        workload.mark("end", index, outcome="ok", duration_s=duration_s)
        workload.durations_s.append(duration_s)
        workload.listener.write_sources()
        workload.keep_results()
    return True


def _report_failed(
    workload: Workload, call: Call, index: int, error: BaseException, duration_s: float
) -> None:
    events, complain = workload.events, workload.complain
    raised: dict[str, Any] = {
        **described_error(error),
        "from_compiler": torch_api.is_compiler_error(error),
    }
    if raised["from_compiler"]:
        complain(raised["traceback"])
    # Before the trial: that may hang or crash.
    workload.mark("end", index, outcome="error", duration_s=duration_s, error=CallError(**raised))
    workload.listener.write_sources()
    events.write("call_failed", index=index, **raised)
    events.phase("trying call {index} without torch.compile", index=index)
    with silence():
        eager = workload.error_of(call, is_eager=True)
    tried: dict[str, Any] = {"eager": "ok" if eager is None else type(eager).__qualname__}
    if eager is not None and torch_api.is_compiler_error(eager):
        # `torch.cond` compiles itself in eager mode too, so what eager mode would do isn't known.
        tried = {"eager": None}
    elif eager is not None:
        tried["eager_message"] = message_of(eager)
        changes = {name: workload.request[name] for name in ("dtype", "batch")}
        is_changed = any(value is not None for value in changes.values())
        if raised["from_compiler"]:
            if is_changed:
                events.write("call_failed", index=index, **raised, **changes)
        else:
            # Dynamo's error is about its own tracing; this one is the program's.
            own = described_error(eager) | {"traceback": own_traceback_text(eager)}
            events.write(
                "call_failed", index=index, **own, from_compiler=False, is_eager=True, **changes
            )
    if not raised["from_compiler"] and tried["eager"] in (None, "ok"):
        complain(raised["traceback"])
    workload.mark(
        "end", index, outcome="error", duration_s=duration_s, error=CallError(**raised, **tried)
    )
