"""GD210: recompiles that happen each time the program starts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from graphdoctor.facts.base import sum_of_known
from graphdoctor.facts.expressions import is_carried, size_dim
from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.recording import Graph
from graphdoctor.rules.toolkit import (
    Fixes,
    Matches,
    RecompileEvent,
    RecordingRule,
    RecordingView,
    RuleMatch,
    config_fix,
    counted,
    distinct_values,
    hidden_change_count,
    names,
    sources_setting,
)


class ColdStart(RecordingRule, severity="info"):
    """Recompiles that only make dims dynamic, and that happen each time the program starts.

    ## What it finds
    Recompiles whose only effect is that a static dim became dynamic: torch compiles a dim as static
    until it sees a second size.

    ## Why it costs
    Each new process starts over, so each of these functions compiles twice.

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
    def inputs():
        calls = [(torch.ones(4, 8),), (torch.ones(6, 8),)]
        for (x,) in calls:
            torch._dynamo.mark_dynamic(x, 0)
        return calls
    ```
    Or set `torch.compiler.config.dynamic_sources = "L['x']"`, which names the sources that are
    dynamic from the start; the environment variable `TORCH_COMPILE_DYNAMIC_SOURCES` does the same.
    With `TORCH_COMPILE_JOB_ID`, torch remembers dynamic dims from run to run.

    ## Fix safety
    A dynamic dim keeps results the same.

    ## Source
    `torch/compiler/config.py`, 2.13 (`dynamic_sources`, `job_id`).
    """

    guide = "PyTorch user guide: torch.compile, dynamic shapes, profile-guided optimization"

    def findings(self, view: RecordingView) -> Matches:
        learned = [event for event in view.events if _only_generalized(event, view.graphs)]
        if not learned:
            return
        changes = distinct_values(change for event in learned for change in event.changes)
        compiles = [item for event in learned for item in event.compiles]
        seconds = sum_of_known(event.cost_s for event in learned)
        cost = "" if seconds is None else f" ({seconds:.2f} s)"
        values, count = (
            names(change.expression for change in changes),
            counted(len(compiles), "recompile"),
        )
        yield RuleMatch(
            entry=learned[0].frame.entry,
            message=f"each start of the program costs {count}{cost} to make {values} dynamic",
            of=compiles,
            changes=changes,
            hidden_change_count=hidden_change_count(learned),
            fixes=_fixes(changes),
        )


def _only_generalized(event: RecompileEvent, graphs: Mapping[str | None, Graph]) -> bool:
    """Whether only sizes changed, all to dynamic ones, and the new graph has more of these than the
    nearest entry's.
    """
    cause = event.compiles[0].cause
    if (
        event.is_over_limit
        or cause is None
        or any(change.kind != "size" for change in event.changes)
    ):
        return False
    old, new = (_sizes(graphs.get(id_)) for id_ in (cause.nearest, event.compiles[0].compile_id))
    # Where the code makes a constant of a size, the next one compiles again, whatever else is
    # dynamic.
    dims = [(change.source or "", size_dim(change.expression)) for change in event.changes]
    before, now = (sum(isinstance(size, str) for size in sizes.values()) for sizes in (old, new))
    return bool(old) and before < now and not any(isinstance(new.get(dim), int) for dim in dims)


def _sizes(graph: Graph | None) -> dict[tuple[str, int | None], int | str]:
    """The size of each dim of each input, which has a source or else a name."""
    inputs = (graph and graph.inputs) or ()
    return {
        (item.source or item.name, dim): size
        for item in inputs
        for dim, size in enumerate(item.shape or ())
    }


def _fixes(changes: Sequence[GuardChange]) -> Fixes:
    # A value that torch carried over a break has no name that stays the same.
    named_ones = (
        change.source for change in changes if change.source and not is_carried(change.source)
    )
    sources = dict.fromkeys(re.sub(r"\.size\(\)\[\d+\]$", "", source) for source in named_ones)
    if sources:
        yield sources_setting(
            "dynamic_sources", list(sources), "Name what is dynamic from the start"
        )
    how = "set the environment variable TORCH_COMPILE_JOB_ID to a name of the job"
    yield config_fix(f"Let torch remember dynamic dims from run to run: {how}", is_safe=True)
