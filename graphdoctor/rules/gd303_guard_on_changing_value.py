"""GD303: a guard on a value that changes again and again."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.diagnosis.frames import frame_entry, frame_name
from graphdoctor.diagnosis.rule import RecordingRule, RecordingView, RuleMatch
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.recompiles import GuardChange
from graphdoctor.model.recording import Compile, Frame

_MIN_TIMES = 3
_MAX_VALUES = 4
_GUIDE = "PyTorch user guide: torch.compile, recompilation"


class GuardOnChangingValue(RecordingRule):
    """A guard on a value that is another one in call after call.

    ## What it finds
    A value that torch guards on and that differed at three recompiles of a function or more. Told by
    `graphdoctor guards`; `graphdoctor recompiles` shows each recompile by itself.

    ## Why it costs
    Such a guard never holds for long: the function is compiled again and again, every entry made so far is checked in
    vain first, and at the recompile limit it runs eagerly.

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
    import torch

    def forward(x, length):
        return x.sin() * length

    def inputs():
        return [(torch.ones(256, 256), torch.tensor(float(length))) for length in range(1, 6)]
    ```

    ## Fix safety
    A tensor in place of a number keeps results up to its dtype; a value that is read outside the compiled function is
    no longer specialised on.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13.
    """

    code: ClassVar = "GD303"
    name: ClassVar = "guard-on-changing-value"
    severity: ClassVar = "warning"

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        """One for each function and value."""
        recording = view.recording
        if recording.guards is None:
            return ()
        frames = {frame.frame_id: frame for frame in recording.frames}
        changes: dict[tuple[int, str], list[tuple[Compile, GuardChange]]] = {}
        for compile_ in recording.compiles:
            for change in compile_.cause.changes if compile_.cause and compile_.outcome == "compiled" else ():
                changes.setdefault((compile_.frame_id, change.expression), []).append((compile_, change))
        return tuple(
            _match(frames[frame_id], found)
            for (frame_id, _), found in changes.items()
            if len(found) >= _MIN_TIMES and frame_id in frames
        )


def _match(frame: Frame, found: list[tuple[Compile, GuardChange]]) -> RuleMatch:
    first = found[0][1]
    values = list(
        dict.fromkeys(value for _, change in found for value in (change.old, change.new) if value is not None)
    )
    shown = ", ".join(values[:_MAX_VALUES]) + (", …" if len(values) > _MAX_VALUES else "")
    return RuleMatch(
        entry=first.guard_location or frame_entry(frame),
        message=f"`{first.expression}` was another one at {len(found)} recompiles of `{frame_name(frame)}`"
        + (f": {shown}" if values else ""),
        count=len(found),
        compile_ids=tuple(compile_.compile_id for compile_, _ in found),
        torch_reason=first.guard,
        user_stack=found[0][0].stack,
        fixes=_fixes(first),
    )


def _fixes(change: GuardChange) -> tuple[Fix, ...]:
    """What stops the value from being guarded on, by what about it changed."""
    outside = Fix(
        title="Read it outside the compiled function, or keep it the same from call to call", kind="code", source=_GUIDE
    )
    match change.kind:
        case "size":
            title = (
                "Make the dim dynamic before the first call: torch._dynamo.mark_dynamic, or compile with dynamic=True"
            )
            return (Fix(title=title, kind="call", source=_GUIDE),)
        case "number" | "module_number" | "text" | "value" | "length" | "flag":
            title = f"Pass what is computed from `{change.expression}` as a tensor, so that torch does not guard on it"
            return (Fix(title=title, kind="code", source=_GUIDE), outside)
        case "identity":
            return (Fix(title=f"Make `{change.expression}` once and use it in every call", kind="code", source=_GUIDE),)
        case _:
            return (outside,)
