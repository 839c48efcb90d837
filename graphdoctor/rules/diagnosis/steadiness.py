"""Steadiness of a program's compiles: a recording with its recompile events in, a ``Steadiness``
out.
"""

from __future__ import annotations

from collections import Counter
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
    watch, repeats = recording.watch, recording.repeats
    calls = () if watch is not None else recording.calls
    counts = [call.compile_count for call in calls]
    if watch is None and (not counts or None in counts):
        return None
    state, frame, again = _unsettled(recording)
    if watch is not None and state is None:
        return _of_script(watch)
    if state is None and (not counts[-1] or (len(counts) == 1 and repeats is not None)):
        state = "settled"
    elif state is None and len(counts) > 1:
        state = "compiling"
    limited = next((compile_ for compile_ in again if compile_.outcome == "limit"), None)
    to_limit = (
        compile_
        for compile_ in recording.compiles
        if limited and compile_.outcome == "compiled" and compile_.frame_id == limited.frame_id
    )
    return Steadiness(
        state=state,
        compiles_per_call=tuple(count for count in counts if count is not None),
        compiles_repeated=_repeated(recording),
        function=frame.described if frame else None,
        changing=tuple(change.expression for change in _always_changing(again)),
        compiles_to_limit=sum(1 for _ in to_limit) if limited else None,
        limit_call=limited.call_index if limited and watch is None else None,
    )


def _repeated(recording: Recording) -> tuple[int, ...] | None:
    if (repeats := recording.repeats) is None:
        return None
    compiled = Counter(
        compile_.call_index for compile_ in recording.compiles if compile_.outcome == "compiled"
    )
    made = len(recording.calls)
    return tuple(compiled[made + number] for number in range(1, repeats.count + 1))


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
    state, frame, again = _unsettled(recording)
    return (frame, _always_changing(again)) if state == "never" else (None, ())


def _unsettled(recording: Recording) -> tuple[SteadyState | None, Frame | None, list[Compile]]:
    """Return the state of a program that doesn't settle, with one function that shows it, and its
    recompiles: of one that never does those in the repeats, which differ in nothing else.
    """
    repeats, call_count = recording.repeats, len(recording.calls)
    compiles: Sequence[Compile] = recording.compiles
    shown = [compile_ for compile_ in compiles if compile_.outcome == "limit"]
    state: SteadyState | None = "over_limit" if shown else None
    if repeats is not None:
        again = [compile_ for compile_ in compiles if (compile_.call_index or 0) > call_count]
        has_hit = any(compile_.outcome == "limit" for compile_ in again)
        if has_hit or not repeats.is_steady:
            state, compiles = "never", again
            shown = [
                compile_
                for compile_ in again
                if compile_.is_recompile or compile_.outcome == "limit"
            ]
    # A function that hit the limit says more than one that only recompiled; the first of them is
    # the outermost.
    frames = {frame.frame_id: frame for frame in recording.frames}
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
