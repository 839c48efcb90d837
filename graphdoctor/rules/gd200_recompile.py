"""GD200: a function that was compiled again."""

from __future__ import annotations

import re
from typing import ClassVar

from graphdoctor.model.diagnosis import Effects, Fix
from graphdoctor.model.expressions import expression
from graphdoctor.model.recording import Compile, Frame, StackEntry
from graphdoctor.rules.base import RecordingRule, RecordingView, RuleMatch
from graphdoctor.rules.sites import frame_name

_SIZE = re.compile(r"tensor '(.+?)' size mismatch at index (\d+)\. expected (\d+), actual (\d+)")
_GUIDE = "PyTorch user guide: torch.compile, recompilation"


class Recompile(RecordingRule):
    """A function that torch compiled again because a guard failed.

    ## What it finds
    Compiles of a function that had compiled code already: a value that this code was specialised on has changed.

    ## Why it costs
    Each one takes as long as the first compile, in the middle of a call, and after `recompile_limit` of them (8) torch
    stops compiling the function without a word.

    ## Example
    ```python
    import torch

    def forward(x, scale):
        return x.sin() * scale if scale > 0 else x.cos()

    def inputs():
        return [(torch.randn(4, 8), 2), (torch.randn(4, 8), -2)]
    ```

    ## Use instead
    ```python
    import torch

    def forward(x, scale):
        return torch.where(scale > 0, x.sin() * scale, x.cos())

    def inputs():
        return [(torch.randn(4, 8), torch.tensor(2)), (torch.randn(4, 8), torch.tensor(-2))]
    ```

    ## Fix safety
    Dynamic shapes and tensors in place of numbers keep results; code specialised on a value can be faster than general
    code.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13 (`recompile_reasons`).
    """

    code: ClassVar = "GD200"
    name: ClassVar = "recompile"
    severity: ClassVar = "warning"

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        """One for each frame that was compiled again."""
        matches = []
        for frame in view.recording.frames:
            again = [
                compile_
                for compile_ in view.recording.compiles
                if compile_.frame_id == frame.frame_id and compile_.is_recompile and compile_.outcome == "compiled"
            ]
            if again:
                matches.append(_match(frame, again))
        return tuple(matches)


def _match(frame: Frame, again: list[Compile]) -> RuleMatch:
    reasons = list(dict.fromkeys(_plain(reason) for compile_ in again for reason in compile_.recompile_reasons[:1]))
    first = again[0].recompile_reasons[0] if again[0].recompile_reasons else None
    times = "once more" if len(again) == 1 else f"{len(again)} times more"
    what = f": {_changed(reasons[0], frame)}" if reasons else ""
    more = f" (and {len(reasons) - 1} other reasons)" if len(reasons) > 1 else ""
    return RuleMatch(
        entry=frame_entry(frame),
        message=f"`{described(frame)}` was compiled {times}{what}{more}",
        count=len(again),
        compile_ids=tuple(compile_.compile_id for compile_ in again),
        torch_reason=first,
        effects=Effects(),
        user_stack=again[0].stack,
        fixes=_fixes(reasons),
    )


def frame_entry(frame: Frame) -> StackEntry:
    """A frame's definition as a place."""
    return StackEntry(
        file=frame.file,
        line=frame.line,
        function=frame.function,
        qualname=frame.qualname,
        origin=frame.origin,
        package=frame.package,
    )


def described(frame: Frame) -> str:
    """The frame as people call it, with the line that a resume function goes on after."""
    place = "" if frame.resumes_at is None else f" from line {frame.resumes_at}"
    return f"{frame_name(frame)}{place}"


def _plain(reason: str) -> str:
    """Torch's reason without the cache entry's id before it."""
    return re.sub(r"^\d+/\d+: ", "", reason)


def _changed(reason: str, frame: Frame) -> str:
    """A size mismatch in words; another reason with its sources in the user's words."""
    size = _SIZE.search(reason)
    if size:
        name = expression(size[1] if size[1].startswith("L[") else f"L['{size[1]}']", frame.resumes_at)
        return f"`{name}.shape[{size[2]}]` changed from {size[3]} to {size[4]}"
    return expression(reason, frame.resumes_at)


def _fixes(reasons: list[str]) -> tuple[Fix, ...]:
    if reasons and _SIZE.search(reasons[0]):
        return (
            Fix(
                title="Compile with dynamic shapes",
                kind="call",
                snippet="torch.compile(…, dynamic=True)",
                source=_GUIDE,
            ),
            Fix(
                title="Mark the dim before the first call",
                kind="call",
                snippet=f"torch._dynamo.mark_dynamic(x, {_size_index(reasons[0])})",
                source=_GUIDE,
            ),
        )
    return (
        Fix(
            title="Pass the value that changes as a tensor, or keep it the same from call to call",
            kind="call",
            source=_GUIDE,
        ),
    )


def _size_index(reason: str) -> str:
    match = _SIZE.search(reason)
    return match[2] if match else "0"
