"""GD200: a function that was compiled again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.expressions import expression
from graphdoctor.model.recording import Compile, Frame
from graphdoctor.rules.base import RecordingRule, RecordingView, RuleMatch
from graphdoctor.rules.sites import frame_entry, frame_name
from graphdoctor.rules.wording import setting

_SIZE = re.compile(r"tensor '(.+?)' size mismatch at index (\d+)\. expected (\d+), actual (\d+)")
_TENSOR = re.compile(r"^tensor '(.+?)' ([^']+)$")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_GUIDE = "PyTorch user guide: torch.compile, recompilation"
_MAX_SHOWN = 3


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


@dataclass
class _Change:
    """Reasons of one kind: the same guard, whatever the values."""

    text: str
    count: int
    fix: Fix


def _match(frame: Frame, again: list[Compile]) -> RuleMatch:
    changes = _changes(again, frame)
    times = "once more" if len(again) == 1 else f"{len(again)} times more"
    if len(changes) == 1:
        what = f": {changes[0].text}"
    else:
        shown = [f"{change.text} ({change.count} of {len(again)})" for change in changes[:_MAX_SHOWN]]
        more = [f"{len(changes) - _MAX_SHOWN} other kinds"] if len(changes) > _MAX_SHOWN else []
        what = ": " + ", ".join([*shown, *more]) if changes else ""
    return RuleMatch(
        entry=frame_entry(frame),
        message=f"`{described(frame)}` was compiled {times}{what}",
        count=len(again),
        compile_ids=tuple(compile_.compile_id for compile_ in again),
        torch_reason="\n".join(compile_.recompile_reasons[0] for compile_ in again if compile_.recompile_reasons)
        or None,
        user_stack=again[0].stack,
        fixes=tuple(dict.fromkeys(change.fix for change in changes)),
    )


def _changes(again: list[Compile], frame: Frame) -> list[_Change]:
    """The kinds of reasons, the most frequent first; of each compile the reason of the newest cache entry."""
    kinds: dict[str, _Change] = {}
    for compile_ in again:
        if not compile_.recompile_reasons:
            continue
        guard = _guard(compile_.recompile_reasons[0])
        kind = _NUMBER.sub("…", guard)
        if kind in kinds:
            kinds[kind].count += 1
        else:
            kinds[kind] = _Change(_in_words(guard, frame), 1, _fix(compile_.recompile_reasons[0]))
    return sorted(kinds.values(), key=lambda change: -change.count)


def _guard(reason: str) -> str:
    """The failed guard without the cache entry's id before it and torch's comment behind it."""
    return re.split(r"\s{2,}#|\n", re.sub(r"^\d+/\d+: ", "", reason), maxsplit=1)[0].strip()


def _in_words(guard: str, frame: Frame) -> str:
    size = _SIZE.search(guard)
    if size:
        name = expression(size[1], frame.resumes_at)
        return f"`{name}.shape[{size[2]}]` changed from {size[3]} to {size[4]}"
    tensor = _TENSOR.match(guard)
    if tensor:
        return f"tensor `{expression(tensor[1], frame.resumes_at)}`: {tensor[2]}"
    return f"`{expression(guard, frame.resumes_at)}` no longer held"


def _fix(reason: str) -> Fix:
    size = _SIZE.search(reason)
    if size:
        return Fix(
            title="Make the dim dynamic before the first call, or compile with dynamic=True",
            kind="call",
            snippet=f"torch._dynamo.mark_dynamic({size[1]}, {size[2]})",
            source=_GUIDE,
        )
    if "allow_unspec_int_on_nn_module" in reason:
        return setting(
            "allow_unspec_int_on_nn_module", "Let torch make the module's int dynamic", source="torch's hint"
        )
    return Fix(
        title="Keep the value the same from call to call, or pass it as a tensor",
        kind="call",
        source=_GUIDE,
    )


def described(frame: Frame) -> str:
    """The frame as people call it, with the line that a resume function goes on after."""
    place = "" if frame.resumes_at is None else f" from line {frame.resumes_at}"
    return f"{frame_name(frame)}{place}"
