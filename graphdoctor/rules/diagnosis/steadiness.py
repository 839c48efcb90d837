"""Steadiness of a program's compiles: a recording with its recompile events in, a ``Steadiness``
out.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphdoctor.facts.base import grouped
from graphdoctor.facts.counts import CallWatch, Steadiness, SteadyState
from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.recording import Compile, Frame, Recording
from graphdoctor.rules.diagnosis.sites import RecordingView

_COMPILING_CALLS = 3
"""A script is still compiling if the last calls of a function, at least as many, all compiled
something."""


def steadiness_of(view: RecordingView) -> Steadiness | None:
    """Return whether the calls of a recording stop compiling; None for a program whose own calls
    weren't watched.
    """
    recording = view.recording
    watch, settling = recording.watch, recording.settling
    calls = () if watch is not None else recording.calls
    counts = [call.compile_count for call in calls]
    if watch is None and (not counts or None in counts):
        return None
    state, frame, again = _unsettled(recording)
    if watch is not None and state is None:
        return _of_script(watch)
    if state is None and (not counts[-1] or (len(counts) == 1 and settling is not None)):
        state = "settled"
    elif state is None and len(counts) > 1:
        state = "compiling"
    limited = next((compile_ for compile_ in again if compile_.outcome == "limit"), None)
    compiles = (*recording.compiles, *(settling.recompiles if settling else ()))
    to_limit = (
        compile_
        for compile_ in compiles
        if limited and compile_.outcome == "compiled" and compile_.frame_id == limited.frame_id
    )
    return Steadiness(
        state=state,
        compiles_per_call=tuple(count for count in counts if count is not None),
        compiles_repeated=settling.compiles if settling and watch is None else None,
        function=frame.described if frame else None,
        changing=tuple(change.expression for change in _always_changing(again)),
        compiles_to_limit=sum(1 for _ in to_limit) if limited else None,
        limit_call=limited.call_index if limited and watch is None else None,
    )


def _of_script(watch: CallWatch) -> Steadiness:
    """Return what is certain about a script without a function over its limit, which may merely
    have ended early.
    """
    for function in watch.own:
        is_compiling = function.is_settled is False and function.not_covered != "raised"
        if is_compiling and function.compiling_calls >= _COMPILING_CALLS:
            return Steadiness(
                state="compiling",
                compiles_per_call=(),
                function=function.compiled,
                compiling_calls=function.compiling_calls,
            )
    has_settled = bool(watch.own) and all(function.is_settled for function in watch.own)
    return Steadiness(state="settled" if has_settled else None, compiles_per_call=())


def unsettled(recording: Recording) -> tuple[Frame | None, tuple[GuardChange, ...]]:
    """Return the function that never settles, with what differs each time the last call is
    repeated.

    None and nothing if the call settles; None alone if torch didn't name the function.
    """
    if recording.settling is None or recording.settling.is_settled:
        return None, ()
    _, frame, again = _unsettled(recording)
    return frame, _always_changing(again)


def _unsettled(recording: Recording) -> tuple[SteadyState | None, Frame | None, list[Compile]]:
    """Return the state of a program that doesn't settle, with one function that shows it, and its
    recompiles.
    """
    settling = recording.settling
    state: SteadyState = "over_limit"
    frames = {frame.frame_id: frame for frame in recording.frames}
    compiles: Sequence[Compile] = recording.compiles
    shown = [compile_ for compile_ in compiles if compile_.outcome == "limit"]
    if settling is not None:
        frames |= {frame.frame_id: frame for frame in settling.frames}
    if settling is not None and not settling.is_settled:
        state, compiles, shown = "never", settling.recompiles, [*settling.recompiles]
    elif not shown:
        return None, None, []
    # A function that hit the limit says more than one that only recompiled; the first of them is
    # the outermost.
    shown.sort(key=lambda compile_: (compile_.outcome != "limit", compile_.frame_id))
    chosen = next((compile_.frame_id for compile_ in shown if compile_.frame_id in frames), None)
    again = [
        compile_ for compile_ in compiles if compile_.frame_id == chosen and compile_.is_recompile
    ]
    return state, frames.get(chosen) if chosen is not None else None, again


def _always_changing(again: Sequence[Compile]) -> tuple[GuardChange, ...]:
    """Return the values that differed in all of some recompiles; if none did, those that were new
    each time they differed.

    Where layers share a function, what one layer changes alternates with what differs between them.
    """
    by_value = grouped(
        (change.key, (number, change))
        for number, compile_ in enumerate(again)
        for change in (compile_.cause.changes if compile_.cause else ())
        if change.kind != "unknown"
    )
    always, always_new = [], []
    for pairs in by_value.values():
        _, first = pairs[0]
        new = {change.new for _, change in pairs}
        if len({number for number, _ in pairs}) == len(again):
            always.append(first)
        if len(pairs) > 1 and None not in new and len(new) == len(pairs):
            always_new.append(first)
    return tuple(always or always_new)
