"""GD201: a function over its recompile limit."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.recording import Compile, Frame
from graphdoctor.rules.base import RecordingRule, RecordingView, RuleMatch
from graphdoctor.rules.gd200_recompile import described
from graphdoctor.rules.sites import frame_entry

_GUIDE = "PyTorch user guide: torch.compile, recompilation"


class RecompileLimit(RecordingRule):
    """A function that torch compiles no more because it was compiled too often.

    ## What it finds
    A function that hit `torch._dynamo.config.recompile_limit` (8) or the accumulated limit.

    ## Why it costs
    From then on a call that fits none of the compiled versions runs eagerly, without a word, for the rest of the
    process.

    ## Example
    ```python
    import torch

    def forward(x, name):
        return x.sin() * len(name)

    def inputs():
        return [(torch.ones(4, 8), "n" * length) for length in range(1, 12)]
    ```

    ## Use instead
    ```python
    import torch

    def forward(x, length):
        return x.sin() * length

    def inputs():
        return [(torch.ones(4, 8), torch.tensor(float(length))) for length in range(1, 12)]
    ```
    Find the value that changes from call to call (GD200) and make it dynamic. Raise the limit only where the number of
    variants is bounded.

    ## Fix safety
    A higher limit keeps results; it costs compile time and guard checks.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/convert_frame.py`, 2.13 (`exceeds_recompile_limit`).
    """

    code: ClassVar = "GD201"
    name: ClassVar = "recompile-limit"
    severity: ClassVar = "error"

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        """One for each frame over its limit."""
        frames = {frame.frame_id: frame for frame in view.recording.frames}
        first: dict[int, Compile] = {}
        for compile_ in view.recording.compiles:
            if compile_.outcome == "limit" and compile_.frame_id in frames:
                first.setdefault(compile_.frame_id, compile_)
        return tuple(
            _match(frames[frame_id], compile_, view.recording.compiles) for frame_id, compile_ in first.items()
        )


def _match(frame: Frame, limit: Compile, compiles: tuple[Compile, ...]) -> RuleMatch:
    versions = [item for item in compiles if item.frame_id == frame.frame_id and item.outcome == "compiled"]
    since = "" if limit.call_index is None else f" since call {limit.call_index}"
    return RuleMatch(
        entry=frame_entry(frame),
        message=f"`{described(frame)}` runs eagerly{since}: compiled {len(versions)} times, it hit torch's limit",
        count=1,
        compile_ids=(limit.compile_id,),
        reasons=limit.failure.chain if limit.failure else (),
        user_stack=versions[0].stack if versions else (),
        fixes=(
            Fix(title="Make the value that changes dynamic: see GD200 for this function", kind="call", source=_GUIDE),
            Fix(
                title="Raise the limit if the number of variants is bounded",
                kind="config",
                snippet=f"torch._dynamo.config.recompile_limit = {max(2 * len(versions), 16)}",
                is_safe=True,
                source=_GUIDE,
            ),
        ),
    )
