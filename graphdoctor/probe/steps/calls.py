"""The calls of a run, and what is asked for after them.

One plan for all commands and trials: the user's calls, one after the other until one fails, then
repeats of the last one until it is steady, or plainly never is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, nullcontext
from time import perf_counter
from typing import Any

from ...facts.base import Fields
from ...facts.recording import CallError, Repeats
from ...facts.trials import Replay
from ..record import reports
from ..record.describe import arguments_text
from ..record.errors import TargetError, described_error, message_of, traceback_text, type_name
from ..record.streams import kept_texts, silence
from ..replay.trial import Trial
from ..target.snapshot import State
from ..target.targets import Call
from ..torch_private.torch_api import is_compiler_error
from .attacks import Attacking
from .inputs import Varying
from .measurements import Lanes, measure
from .workload import Workload

Keep = Callable[[Iterator[Call]], Iterator[Call]]
"""Passes calls on, and keeps something of them."""


MAX_REPEATS = 24
"""Three times torch's default recompile limit: a function that compiles each time is over it by
then, and so are those that torch compiles once that one runs eagerly."""


def run(workload: Workload, keep: Keep | None = None) -> bool:
    """Make the calls, and everything that is asked for after them; returns whether every call that
    was made came back.
    """
    workload.warm_up()
    request = workload.request
    events = workload.events
    trial = workload.trial
    graphs = workload.graphs
    lanes = Lanes(workload, graphs) if request["lanes"] and graphs is not None else None
    with nullcontext() if lanes is None else closing(lanes):
        varying = Varying(workload) if request["vary"] else None
        attacks = None if trial is None else trial.plan.get("attacks")
        attacking = None if attacks is None else Attacking(workload, attacks)
        has_kernels = request["kernels"] or request["stages"] or request["profile"] is not None
        config = reports.report_config(events, has_kernels=has_kernels)
        # What a trial's program writes is a result; a plain run's goes where it always goes.
        with nullcontext(dict) if trial is None else kept_texts() as texts:
            calls = workload.calls()
            for keeping in (varying, attacking):
                calls = calls if keeping is None else keeping.kept(calls)
            is_complete = make_calls(workload, calls if keep is None else keep(calls), lanes)
        reports.report_config(events, config, has_kernels=has_kernels)
        replay = compare(workload, trial, texts()) if is_complete and trial is not None else None
        if is_complete and workload.is_compiled:
            repeat(workload)
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
        if attacking is not None and replay is not None:
            attacking.run(replay)
        workload.hooks.report_failures()
        return is_complete


def compare(workload: Workload, trial: Trial, texts: Mapping[str, str]) -> Replay:
    """Compare what the calls returned and wrote before any is repeated."""
    workload.events.phase("comparing results")
    replay = trial.finish(texts)
    workload.events.write("trial", replay)
    return replay


def make_calls(workload: Workload, calls: Iterator[Call], lanes: Lanes | None = None) -> bool:
    """Make calls in order, until one fails; returns whether none failed, other than where that is a
    result.
    """
    for index in itertools.count(1):
        workload.events.phase("making the inputs of call {index}", index=index)
        if (call := next(calls, None)) is None:
            break
        workload.events.phase("call {index}", index=index)
        workload.mark("start", index, inputs=arguments_text(*call))
        workload.switches.look(index)
        # The target's file: the call may never end.
        workload.listener.write_sources()
        started = perf_counter()
        error = None
        try:
            watched = nullcontext() if lanes is None else lanes.watched()
            with watched, workload.watched(index) as eager_because:
                workload.call(call, draw=index - 1)
        except (TargetError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:  # noqa: BLE001 - the user's program may raise anything
            error = raised
        duration_s = perf_counter() - started
        workload.switches.look(index)
        if lanes is not None:
            lanes.write()
        # Not while it is being handled: the traceback of the same call without torch.compile would
        # include it.
        if error is not None and workload.trial is not None and workload.trial.has_forms:
            workload.end_by_raising(error)
            described = described_error(error)
            failed = CallError(**described, from_compiler=is_compiler_error(error))
            workload.mark("end", index, outcome="error", duration_s=duration_s, error=failed)
            break
        if error is not None:
            _report_failed(workload, call, index, error, duration_s)
            return False
        ended = {"duration_s": duration_s, "eager_because": eager_because}
        workload.mark("end", index, outcome="ok", **ended)
        workload.durations_s.append(duration_s)
        workload.listener.write_sources()
        workload.keep_results()
    return True


def repeat(workload: Workload) -> None:
    """Repeat the last call until it is steady: torch compiles nothing, and no function hits its
    recompile limit, after which torch runs it eagerly without a word.
    """
    events = workload.events
    call = workload.last_call
    if call is None:
        return
    events.phase("repeating the last call")
    count = 0
    is_steady = False
    try:
        while not is_steady and count < MAX_REPEATS:
            before = workload.activity
            count = count + 1
            index = len(workload.durations_s) + count
            arguments = State(None, call)
            with silence(), workload.marked(index, is_repeat=True):
                workload.make_again(call)
            is_steady = workload.activity == before
        if is_steady and arguments.is_changed():
            workload.restore = arguments.restore
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an extra; its failure must not lose the report
        # Coverage, which needs the same call, reports why it is unknown.
        if not workload.request["coverage"]:
            raised = f"repeating the last call raised {type_name(error)}"
            events.gap("unsettled", f"Whether the calls get steady is unknown: {raised}.")
        return
    workload.repeats = Repeats(count=count, is_steady=is_steady)
    events.write("repeats", workload.repeats)
    if not is_steady:
        why = f"the last call compiled something each of the {count} times it was repeated"
        events.gap("unsettled", f"Coverage and the cost of breaks are unknown: {why}.")


def _report_failed(
    workload: Workload, call: Call, index: int, error: BaseException, duration_s: float
) -> None:
    events = workload.events
    from_compiler = is_compiler_error(error)
    raised: Fields = {**described_error(error), "from_compiler": from_compiler}

    def mark(**tried: Any) -> None:
        failed = CallError(**raised, **tried)
        workload.mark("end", index, outcome="error", duration_s=duration_s, error=failed)

    if from_compiler:
        workload.complain(raised["traceback"])
    # Before the trial: that may hang or crash.
    mark()
    workload.listener.write_sources()
    events.write("call_failed", index=index, **raised)
    events.phase("trying call {index} without torch.compile", index=index)
    with silence():
        eager = workload.error_of(call, is_eager=True)
    tried: Fields = {"eager": "ok" if eager is None else type(eager).__qualname__}
    if eager is not None and is_compiler_error(eager):
        # `torch.cond` compiles itself in eager mode too, so eager mode's outcome is unknown.
        tried = {"eager": None}
    elif eager is not None:
        tried["eager_message"] = message_of(eager)
        changes = {name: workload.request[name] for name in ("dtype", "batch")}
        if not from_compiler:
            # Dynamo's error is about its own tracing; this one is the program's.
            changes["is_eager"] = True
            without_packages = traceback_text(eager, has_packages=False)
            described = described_error(eager) | {"traceback": without_packages}
            events.write("call_failed", index=index, **described, from_compiler=False, **changes)
        elif any(value is not None for value in changes.values()):
            events.write("call_failed", index=index, **raised, **changes)
    if not from_compiler and tried["eager"] in (None, "ok"):
        workload.complain(raised["traceback"])
    mark(**tried)
