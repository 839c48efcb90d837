"""GD303: a guard on a value that keeps changing."""

from __future__ import annotations

from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.recording import Compile, Frame
from graphdoctor.rules.toolkit import (
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    call_fix,
    grouped,
    quoted,
    without_middle,
)

_MIN_TIMES = 3
_MAX_VALUES = 4


class GuardOnChangingValue(RecordingRule):
    """A guard on a value that keeps changing from call to call.

    ## What it finds
    A guarded value that differed in three or more recompiles of a function. `graphdoctor guards`
    reports it; `graphdoctor recompiles` shows each recompile.

    ## Why it costs
    The function keeps recompiling, and torch first checks every cache entry in vain. After the
    recompile limit, the function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x, name):
        return x.sin() * len(name)

    def inputs():
        return [(torch.ones(256, 256), "n" * length) for length in range(1, 6)]
    ```

    ## Use instead
    ```python
    def forward(x, length):
        return x.sin() * length

    def inputs():
        return [(torch.ones(256, 256), torch.tensor(float(length))) for length in range(1, 6)]
    ```

    ## Fix safety
    A tensor instead of a number keeps results the same, except for the dtype. torch doesn't
    specialize on a value that is read outside the compiled function.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13.
    """

    def findings(self, view: RecordingView) -> Matches:
        changes = grouped(
            ((compile_.frame_id, change.expression), (compile_, change))
            for compile_ in (view.recording.compiles if view.recording.guards is not None else ())
            for change in (
                compile_.cause.changes if compile_.cause and compile_.outcome == "compiled" else ()
            )
        )
        for (frame_id, _), found in changes.items():
            if len(found) >= _MIN_TIMES and (frame := view.frames.get(frame_id)) is not None:
                yield _match(frame, found)


def _match(frame: Frame, found: list[tuple[Compile, GuardChange]]) -> RuleMatch:
    first = found[0][1]
    known = (value for _, change in found for value in (change.old, change.new))
    values = list(dict.fromkeys(value for value in known if value is not None))
    shown = ", ".join(map(without_middle, values[:_MAX_VALUES])) + (
        ", …" if len(values) > _MAX_VALUES else ""
    )
    return RuleMatch(
        entry=first.guard_location or frame.entry,
        message=f"{quoted(first.expression)} differed in {len(found)} recompiles of `{frame.name}`"
        + (f": {shown}" if values else ""),
        of=[compile_ for compile_, _ in found],
        changes=(first,),
        torch_reason=first.guard,
        user_stack=found[0][0].stack,
        fixes=(
            call_fix(
                f"Keep {quoted(first.expression)} from changing: graphdoctor recompiles says how"
            ),
        ),
    )
