"""GD210: recompiles that each start of the program repeats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from graphdoctor.diagnosis.frames import frame_entry
from graphdoctor.diagnosis.recompile_wording import names
from graphdoctor.diagnosis.recompiles import RecompileEvent, distinct_values, hidden_change_count
from graphdoctor.diagnosis.rule import RecordingRule, RecordingView, RuleMatch
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.recompiles import GuardChange
from graphdoctor.model.recording import Graph

_SOURCE = "PyTorch user guide: torch.compile, dynamic shapes, profile-guided optimization"


class ColdStart(RecordingRule):
    """Recompiles that only made dims dynamic, and that each start of the program repeats.

    ## What it finds
    Compiles whose one effect was that a dim which torch took to be fixed became dynamic: torch learned at the second
    size what the first could not tell.

    ## Why it costs
    Every new process learns it again: each function compiles twice.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.sin() + 1

    def inputs():
        return [(torch.ones(4, 8),), (torch.ones(6, 8),)]
    ```

    ## Use instead
    ```python
    import torch

    def forward(x):
        return x.sin() + 1

    def inputs():
        calls = [(torch.ones(4, 8),), (torch.ones(6, 8),)]
        for (x,) in calls:
            torch._dynamo.mark_dynamic(x, 0)
        return calls
    ```
    Without an edit: `TORCH_COMPILE_DYNAMIC_SOURCES="L['x']"` names the sources that are dynamic from the start, and
    `TORCH_COMPILE_JOB_ID` lets torch keep what it learned from run to run.

    ## Fix safety
    A dynamic dim keeps results.

    ## Source
    `torch/compiler/config.py`, 2.13 (`dynamic_sources`, `job_id`).
    """

    code: ClassVar = "GD210"
    name: ClassVar = "cold-start-recompile"
    severity: ClassVar = "info"

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        """One for the whole recording: one setting cures them all."""
        graphs = {graph.compile_id: graph for graph in view.recording.graphs}
        learned = [event for event in view.events if _only_generalised(event, graphs)]
        if not learned:
            return ()
        changes = distinct_values(change for event in learned for change in event.changes)
        compile_ids = tuple(item.compile_id for event in learned for item in event.compiles)
        costs = [event.cost_s for event in learned if event.cost_s is not None]
        cost = f", {sum(costs):.2f} s" if costs else ""
        values = names(tuple(change.expression for change in changes))
        count = "1 compile" if len(compile_ids) == 1 else f"{len(compile_ids)} compiles"
        return (
            RuleMatch(
                entry=frame_entry(learned[0].frame),
                message=f"Each start of the program repeats {count}{cost}, to learn that {values} "
                f"{'is' if len(changes) == 1 else 'are'} dynamic",
                count=len(compile_ids),
                compile_ids=compile_ids,
                changes=changes,
                hidden_change_count=hidden_change_count(learned),
                fixes=_fixes(changes),
            ),
        )


def _only_generalised(event: RecompileEvent, graphs: dict[str, Graph]) -> bool:
    """Sizes alone changed, and the new graph has a dim for them that the nearest entry's had not."""
    cause = event.compiles[0].cause
    if event.is_over_limit or cause is None or any(change.kind != "size" for change in event.changes):
        return False
    old, new = _dynamic_dims(graphs.get(cause.nearest or "")), _dynamic_dims(graphs.get(event.compiles[0].compile_id))
    return old is not None and new is not None and new > old


def _dynamic_dims(graph: Graph | None) -> int | None:
    if graph is None or graph.inputs is None:
        return None
    return sum(isinstance(size, str) for item in graph.inputs for size in item.shape or ())


def _fixes(changes: Sequence[GuardChange]) -> tuple[Fix, ...]:
    sources = dict.fromkeys(re.sub(r"\.size\(\)\[\d+\]$", "", change.source) for change in changes if change.source)
    keep = Fix(
        title="Let torch keep from run to run what it learned",
        kind="config",
        snippet="TORCH_COMPILE_JOB_ID=my-model python train.py",
        is_safe=True,
        source=_SOURCE,
    )
    if not sources:
        return (keep,)
    named = Fix(
        title="Name what is dynamic when the program starts",
        kind="config",
        snippet=f'TORCH_COMPILE_DYNAMIC_SOURCES="{",".join(sources)}"',
        is_safe=True,
        source=_SOURCE,
    )
    return (named, keep)
