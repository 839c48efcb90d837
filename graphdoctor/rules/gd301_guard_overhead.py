"""GD301: guard checks that take a large share of a steady call."""

from __future__ import annotations

from graphdoctor.facts.guards import Guards, GuardSet
from graphdoctor.rules.toolkit import (
    SKIP_ALL,
    SKIP_INBUILT,
    Fixes,
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    code_fix,
    guard_filter,
    percent,
)

_MIN_SHARE = 0.1
_MIN_PART = 0.2
_MAX_PARTS = 3


class GuardOverhead(RecordingRule):
    """Guard checks that take a large share of a steady call.

    ## What it finds
    A steady call that spends 10% or more of its time on guard checks, as torch.profiler times them
    in the call, less the profiler's own time. If no profiler could run, they are repeated with warm
    caches, and the share is a lower bound.

    ## Why it costs
    torch checks all guards on the CPU before each run of the compiled code, while the device waits.
    The share depends on the backend: a faster one shortens the rest of the call, but not the
    checks.

    ## Example
    ```python
    import torch

    def forward(x, table):
        return x.tan() * sum(table.values())

    def inputs():
        return (torch.ones(16, 16), {f"weight {index}": index for index in range(1500)})
    ```

    ## Use instead
    ```python
    def forward(x, total):
        return x.tan() * total

    def inputs():
        return (torch.ones(16, 16), torch.tensor(float(sum(range(1500)))))
    ```
    Pass only what the function needs, and do the rest before the call. `graphdoctor guards` shows
    which argument or module the checks belong to.

    ## Fix safety
    The guard filters of `torch.compiler` are unsafe: torch doesn't notice changes of what it no
    longer checks, and the compiled code then silently gives wrong results.

    ## Source
    `torch/compiler/__init__.py`, 2.13 and 2.15 (guard filters); PyTorch user guide, "Reducing guard
    overhead".
    """

    def findings(self, view: RecordingView) -> Matches:
        guards = view.recording.guards
        share = guards.known_share if guards else None
        run = [found for found in guards.sets if found.known_share] if guards else []
        if guards is None or share is None or share < _MIN_SHARE or not run:
            return
        costliest = max(run, key=lambda found: found.known_share or 0)
        least = "at least " if guards.share is None else ""
        frame = view.frame(costliest.compile_id)
        if frame is None:
            return
        most = f", most of it in `{frame.name}`" if len(run) > 1 else ""
        yield RuleMatch(
            entry=frame.entry,
            message=f"guard checks take {least}{percent(share)} of a steady call{most}{_parts(costliest)}",
            count=sum(found.runs_per_call or 0 for found in run),
            of=run,
            fixes=_fixes(guards),
        )


def _parts(found: GuardSet) -> str:
    """The parts that cost most, without parts of these parts."""
    if not found.check_us:
        return ""
    named: list[str] = []
    for part in sorted(found.bill, key=lambda part: -(part.check_us or 0)):
        share = (part.check_us or 0) / found.check_us
        if share < _MIN_PART or len(named) == _MAX_PARTS:
            break
        if not any(part.path.startswith(path) for path in named):
            named.append(part.path)
    return f": mostly {', '.join(f'`{path}`' for path in named)}" if named else ""


def _fixes(guards: Guards) -> Fixes:
    nodes = [node for each in guards.sets for node in each.nodes]
    if sum(node.is_module_internal for node in nodes) * 2 >= sum(
        each.guard_count for each in guards.sets
    ):
        yield from (SKIP_INBUILT, SKIP_ALL)
        return
    # Tensors alone are as little as it can need.
    if any("." in (node.path or "") or "[" in (node.path or "") for node in nodes):
        yield code_fix(
            "Pass only what the function needs: tensors instead of large dicts, lists and objects",
            "PyTorch user guide: torch.compile, guard overhead",
        )
    yield guard_filter("keep_tensor_guards_unsafe", "torch only checks tensors")
