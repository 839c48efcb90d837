"""GD201: a function over its recompile limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from graphdoctor.facts.command import command_line
from graphdoctor.facts.recording import Compile
from graphdoctor.rules.toolkit import (
    Matches,
    RecompileEvent,
    RecordingRule,
    RecordingView,
    RuleMatch,
    call_fix,
    counted,
    distinct_values,
    grouped,
    hidden_change_count,
    quoted,
    setting,
)

_MAX_CAUSES = 4
_NEVER_DYNAMIC = frozenset(
    {"length", "keys", "type", "identity", "text", "flag", "none", "attribute"}
)
RAISED = {"recompile_limit": 64, "accumulated_recompile_limit": 512}
"""Above torch's defaults, 8 and 256 (``torch/_dynamo/config.py``, 2.13)."""


class RecompileLimit(RecordingRule, severity="error"):
    """A function that torch no longer compiles because it recompiled too often.

    ## What it finds
    A function that hit `torch.compiler.config.recompile_limit` (8) or `accumulated_recompile_limit`
    (256).

    ## Why it costs
    From then on, a call that matches none of the compiled versions runs eagerly, without a warning,
    until the process ends.

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
    def forward(x, length):
        return x.sin() * length

    def inputs():
        return [(torch.ones(4, 8), torch.tensor(float(length))) for length in range(1, 12)]
    ```
    Find the value that changes from call to call, in the other GD2 findings of the function, and
    make it dynamic. Raise the limit only if the number of variants is bounded.

    ## Fix safety
    A higher limit keeps results the same. It costs compile time and guard checks.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/convert_frame.py`, 2.13
    (`exceeds_recompile_limit`).
    """

    def findings(self, view: RecordingView) -> Matches:
        versions = grouped(
            (each.frame_id, each) for each in view.recording.compiles if each.outcome == "compiled"
        )
        earlier = grouped(
            (each.frame.frame_id, each) for each in view.events if not each.is_over_limit
        )
        for event in _over_limit(view):
            number = event.frame.frame_id
            yield _match(event, view, versions.get(number, ()), earlier.get(number, ()))


def _over_limit(view: RecordingView) -> Iterator[RecompileEvent]:
    """The first call of each function over its limit, then those that no event tells of."""
    reported: set[int] = set()
    for event in view.events:
        if event.is_over_limit and event.frame.frame_id not in reported:
            yield event
            reported |= {frame.frame_id for frame in event.frames}
    causeless = {
        compile_.frame_id: compile_
        for compile_ in reversed(view.recording.compiles)
        if compile_.outcome == "limit" and compile_.frame_id not in reported
    }
    for frame_id, compile_ in causeless.items():
        if (frame := view.frames.get(frame_id)) is not None:
            yield RecompileEvent(frame, (compile_,), (frame,))


def _match(
    event: RecompileEvent,
    view: RecordingView,
    versions: Sequence[Compile],
    earlier: Sequence[RecompileEvent],
) -> RuleMatch:
    """A function over its limit.

    Args:
        event: The first call over it.
        view: The recording.
        versions: Compiles of the function.
        earlier: Its recompiles until then.
    """
    frame, limit = event.frame, event.compiles[0]
    since = "" if limit.call_index is None else f" from call {limit.call_index} on"
    others = dict.fromkeys(item.described for item in event.frames[1:])
    with_it = f", together with {', '.join(f'`{name}`' for name in others)}" if others else ""
    filled = _filled_by(earlier)
    by = f"; causes: {', '.join(filled)}" if filled else ""
    name = limit.failure.limit if limit.failure and limit.failure.limit else "recompile_limit"
    command = command_line(view.recording.target, "recompiles", "--what-if")
    what_if = f"`{command}`" if command is not None else "graphdoctor recompiles --what-if"
    raised = "Raise the limit if the number of variants is bounded"
    return RuleMatch(
        entry=frame.entry,
        # A call that a compiled version accepts still runs that; one that none accepts runs eagerly
        # or raises.
        message=f"`{frame.described}` is no longer compiled for new values{since}{with_it}: it hit torch's {name} "
        f"after {counted(len(versions), 'compile')}{by}",
        count=1,
        of=event.compiles,
        changes=distinct_values(change for item in earlier for change in item.changes),
        hidden_change_count=hidden_change_count(earlier),
        reasons=limit.failure.chain if limit.failure else (),
        user_stack=versions[0].stack if versions else (),
        fixes=(
            call_fix(_advice(earlier, what_if)),
            setting(name, raised, value=RAISED[name], is_safe=True),
        ),
    )


def _advice(earlier: Iterable[RecompileEvent], what_if: str) -> str:
    """What to do about the value that changes most often; the length of a list, say, can't be
    dynamic.
    """
    counts = Counter(
        (change.kind, change.expression) for event in earlier for change in set(event.changes)
    )
    kind, expression = next((most for most, _ in counts.most_common(1)), ("unknown", ""))
    if kind in _NEVER_DYNAMIC:
        return f"Keep {quoted(expression)} from changing: its own finding says how"
    return f"Make the value that changes most often dynamic; {what_if} tries it"


def _filled_by(earlier: Iterable[RecompileEvent]) -> list[str]:
    """The values that made the function recompile before it hit the limit, most frequent first."""
    names = (dict.fromkeys(change.expression for change in event.changes) for event in earlier)
    counts = Counter(name for changed in names for name in changed)
    return [f"{quoted(name)} ({count})" for name, count in counts.most_common(_MAX_CAUSES)]
