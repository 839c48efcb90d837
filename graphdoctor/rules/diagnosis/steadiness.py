"""Whether a program stops compiling: a recording with its recompile events in, a ``Steadiness``
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphdoctor.facts.counts import CallWatch, Steadiness, SteadyState
from graphdoctor.facts.guards import GuardChange, distinct_values
from graphdoctor.facts.recording import Compile, Frame, Recording
from graphdoctor.rules.diagnosis.sites import RecordingView

_COMPILING_CALLS = 3
"""A script is still compiling if the last calls of a function, at least as many, all compiled
something."""


def steadiness_of(view: RecordingView) -> Steadiness | None:
    """Whether the calls of a recording stop compiling; None for a program whose own calls weren't
    watched.
    """
    recording = view.recording
    watch, settling = recording.watch, recording.settling
    per_call = [] if watch is not None else [call.compile_count for call in recording.calls]
    if watch is None and (not per_call or None in per_call):
        return None
    state, frame, again = _unsettled(recording)
    if watch is not None and state is None:
        return _of_script(watch)
    limited = next((found for found in again if found.outcome == "limit"), None)
    return Steadiness(
        state=state or _settled(recording),
        compiles_per_call=tuple(count for count in per_call if count is not None),
        compiles_repeated=settling.compiles if settling and watch is None else None,
        function=frame.described if frame else None,
        changing=tuple(change.expression for change in _always_changing(again)),
        compiles_to_limit=_compile_count(recording, limited.frame_id) if limited else None,
        limit_call=limited.call_index if limited and watch is None else None,
    )


def _of_script(watch: CallWatch) -> Steadiness:
    """What is certain about a script without a function over its limit, which may merely have ended
    early.
    """
    for found in watch.own:
        has_compiled_on = found.is_settled is False and found.compiling_calls >= _COMPILING_CALLS
        if has_compiled_on and found.not_covered != "raised":
            return Steadiness(
                state="compiling",
                compiles_per_call=(),
                function=found.compiled,
                compiling_calls=found.compiling_calls,
            )
    has_settled = bool(watch.own) and all(found.is_settled for found in watch.own)
    return Steadiness(state="settled" if has_settled else None, compiles_per_call=())


def unsettled(recording: Recording) -> tuple[Frame | None, tuple[GuardChange, ...]]:
    """The function that never settles, with what differs each time the last call is repeated.

    None and nothing if the call settles; None alone if torch didn't name the function.
    """
    settling = recording.settling
    if settling is None or settling.is_settled:
        return None, ()
    _, frame, again = _unsettled(recording)
    return frame, _always_changing(again)


def _settled(recording: Recording) -> SteadyState | None:
    """The state of a program that has no function over its limit."""
    *_, last = recording.calls
    if not last.compile_count:
        return "settled"
    if len(recording.calls) > 1:
        return "compiling"
    return "settled" if recording.settling is not None else None


def _unsettled(recording: Recording) -> tuple[SteadyState | None, Frame | None, list[Compile]]:
    """The state of a program that doesn't settle, with one function that shows it, and its
    recompiles.
    """
    state: SteadyState
    settling = recording.settling
    if settling is not None and not settling.is_settled:
        state, shown = "never", list(settling.recompiles)
    else:
        state, shown = (
            "over_limit",
            [found for found in recording.compiles if found.outcome == "limit"],
        )
        if not shown:
            return None, None, []
    frames = {
        frame.frame_id: frame
        for frame in (*recording.frames, *(settling.frames if settling else ()))
    }
    # A function that hit the limit says more than one that only recompiled; the first of them is
    # the outermost.
    shown.sort(key=lambda found: (found.outcome != "limit", found.frame_id))
    chosen = next((found.frame_id for found in shown if found.frame_id in frames), None)
    among = settling.recompiles if settling is not None and state == "never" else recording.compiles
    again = [found for found in among if found.frame_id == chosen and found.is_recompile]
    return state, frames.get(chosen) if chosen is not None else None, again


def _always_changing(again: Sequence[Compile]) -> tuple[GuardChange, ...]:
    """The values that differed in all of some recompiles; if none did, those that were new each
    time they differed.

    Where layers share a function, what one layer changes alternates with what differs between them.
    """
    changes = [found.cause.changes if found.cause else () for found in again]
    everything = [change for found in changes for change in found if change.kind != "unknown"]
    each = [
        change
        for change in distinct_values(everything)
        if all(_of(change, found) for found in changes)
    ]
    return tuple(
        each
        or (
            change
            for change in distinct_values(everything)
            if _is_always_new(_of(change, everything))
        )
    )


def _of(change: GuardChange, changes: Iterable[GuardChange]) -> list[GuardChange]:
    """The changes of the same value."""
    return [found for found in changes if found.key == change.key]


def _is_always_new(changes: Sequence[GuardChange]) -> bool:
    values = {change.new for change in changes}
    return len(changes) > 1 and None not in values and len(values) == len(changes)


def _compile_count(recording: Recording, frame_id: int) -> int:
    """How many versions of a function torch compiled, those in repetitions of the last call too."""
    again = recording.settling.recompiles if recording.settling else ()
    return sum(
        found.outcome == "compiled"
        for found in (*recording.compiles, *again)
        if found.frame_id == frame_id
    )
