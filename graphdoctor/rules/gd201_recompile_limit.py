"""GD201: a function over its recompile limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from graphdoctor.diagnosis.frames import described, frame_entry
from graphdoctor.diagnosis.recompile_wording import GUIDE
from graphdoctor.diagnosis.recompiles import RecompileEvent, distinct_values, hidden_change_count
from graphdoctor.diagnosis.rule import RecordingRule, RecordingView, RuleMatch
from graphdoctor.diagnosis.suggestions import setting
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.recording import Compile

_MAX_CAUSES = 4
_RAISED = {"recompile_limit": 16, "accumulated_recompile_limit": 512}
"""Twice torch's defaults (``torch/_dynamo/config.py``, 2.13)."""


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
        """One for each function over its limit, at the first call that found it so."""
        first: dict[int, RecompileEvent] = {}
        told: set[int] = set()
        for event in view.events:
            if event.is_over_limit and event.frame.frame_id not in told:
                first[event.frame.frame_id] = event
                told |= {frame.frame_id for frame in event.frames}
        causeless = {
            compile_.frame_id: compile_
            for compile_ in reversed(view.recording.compiles)
            if compile_.outcome == "limit" and compile_.frame_id not in told
        }
        frames = {frame.frame_id: frame for frame in view.recording.frames}
        events = [
            *first.values(),
            *(
                RecompileEvent(frames[frame_id], (compile_,), (frames[frame_id],))
                for frame_id, compile_ in causeless.items()
                if frame_id in frames
            ),
        ]
        return tuple(_match(event, view) for event in events)


def _match(event: RecompileEvent, view: RecordingView) -> RuleMatch:
    frame, limit = event.frame, event.compiles[0]
    versions = [
        item for item in view.recording.compiles if item.frame_id == frame.frame_id and item.outcome == "compiled"
    ]
    since = "" if limit.call_index is None else f" since call {limit.call_index}"
    others = [described(item) for item in event.frames[1:]]
    with_it = f", and with it {', '.join(f'`{name}`' for name in dict.fromkeys(others))}" if others else ""
    earlier = [item for item in view.events if item.frame.frame_id == frame.frame_id and not item.is_over_limit]
    filled = _filled_by(earlier)
    by = f"; the cache was filled by {', '.join(filled)}" if filled else ""
    name = _limit_name(limit)
    compiled = "once" if len(versions) == 1 else f"{len(versions)} times"
    return RuleMatch(
        entry=frame_entry(frame),
        message=f"`{described(frame)}` runs eagerly{since}{with_it}: compiled {compiled}, it hit torch's {name}{by}",
        count=1,
        compile_ids=tuple(compile_.compile_id for compile_ in event.compiles),
        changes=distinct_values(change for item in earlier for change in item.changes),
        hidden_change_count=hidden_change_count(earlier),
        reasons=limit.failure.chain if limit.failure else (),
        user_stack=versions[0].stack if versions else (),
        fixes=(
            Fix(
                title="Make the value that changes most dynamic: see the recompiles of this function; "
                "graphdoctor recompiles --what-if tries it",
                kind="call",
                source=GUIDE,
            ),
            setting(
                name,
                "Raise the limit if the number of variants is bounded",
                value=_RAISED[name],
                is_safe=True,
                source=GUIDE,
            ),
        ),
    )


def _limit_name(limit: Compile) -> str:
    """Which of torch's two limits it was (``exceeds_recompile_limit``, ``torch/_dynamo/cache_size.py``, 2.13)."""
    words = limit.failure.message if limit.failure else ""
    return "accumulated_recompile_limit" if "accumulated_recompile_limit" in words else "recompile_limit"


def _filled_by(earlier: Iterable[RecompileEvent]) -> list[str]:
    """The values that made torch compile the function again before the limit, most frequent first."""
    counts: Counter[str] = Counter()
    for event in earlier:
        counts.update(dict.fromkeys((change.expression for change in event.changes), 1))
    return [
        f"{expression if ' ' in expression else f'`{expression}`'} ({count})"
        for expression, count in counts.most_common(_MAX_CAUSES)
    ]
