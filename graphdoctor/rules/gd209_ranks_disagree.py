"""GD209: a function that some ranks recompiled and others didn't."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

from graphdoctor.diagnosis.frames import described, frame_entry
from graphdoctor.diagnosis.recompile_wording import GUIDE
from graphdoctor.diagnosis.rule import RecordingRule, RecordingView, RuleMatch
from graphdoctor.diagnosis.suggestions import setting
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.recording import Compile, Frame

_MAIN = "rank0"


class RanksDisagree(RecordingRule):
    """A function that the ranks of a distributed run compiled a different number of times.

    ## What it finds
    In a recording of several ranks, a function that some ranks compiled more often than others, because they saw
    different sizes or values.

    ## Why it costs
    While one rank compiles, the others wait in the next collective, up to its timeout. If the graphs differ between
    ranks, their collectives can be in a different order, and the run hangs.

    ## Example
    ```python
    # torchrun --nproc-per-node 2 train.py
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")
    rank = dist.get_rank()

    @torch.compile(backend="eager")
    def forward(x):
        return x.sin() + 1

    for step in range(3):
        forward(torch.ones(4 + rank * step, 8))
    ```

    ## Use instead
    ```python
    # torchrun --nproc-per-node 2 train.py
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")

    @torch.compile(backend="eager")
    def forward(x):
        return x.sin() + 1

    for step in range(3):
        forward(torch.ones(8, 8))
    ```

    ## Fix safety
    The setting keeps results the same: the ranks agree on which sizes to make dynamic.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/config.py`, 2.13 (`enable_compiler_collectives`).
    """

    code: ClassVar = "GD209"
    name: ClassVar = "ranks-disagree"
    severity: ClassVar = "warning"

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        """One for each function that ranks compiled a different number of times."""
        compiles = [item for item in view.recording.compiles if item.outcome == "compiled"]
        has_ranks = any((item.process or "").startswith("rank") for item in view.recording.compiles)
        ranks = {rank for item in compiles if (rank := _rank(item, has_ranks=has_ranks)) is not None}
        if len(ranks) < 2:
            return ()
        frames = {frame.frame_id: frame for frame in view.recording.frames}
        by_function: dict[tuple[str, int, str], list[tuple[str, Compile, Frame]]] = {}
        for item in compiles:
            frame, rank = frames.get(item.frame_id), _rank(item, has_ranks=has_ranks)
            if frame is not None and rank is not None:
                by_function.setdefault((frame.file, frame.line, frame.code_name), []).append((rank, item, frame))
        return tuple(match for items in by_function.values() if (match := _match(items, ranks)) is not None)


def _rank(item: Compile, *, has_ranks: bool) -> str | None:
    """The rank that a compile belongs to, or None. In a run with ranks, the main process is the lowest rank."""
    if item.process is not None:
        return item.process if item.process.startswith("rank") else None
    return _MAIN if has_ranks else None


def _match(items: list[tuple[str, Compile, Frame]], ranks: set[str]) -> RuleMatch | None:
    counts = Counter(dict.fromkeys(sorted(ranks), 0))
    counts.update(rank for rank, _, _ in items)
    if len(set(counts.values())) == 1:
        return None
    most, least = max(counts.values()), min(counts.values())
    frame = items[0][2]
    shown = ", ".join(f"{rank} {count}" for rank, count in counts.items())
    return RuleMatch(
        entry=frame_entry(frame),
        message=f"`{described(frame)}` was compiled {most} times on one rank and {least} on another ({shown})",
        count=most - least,
        compile_ids=tuple(item.compile_id for rank, item, _ in items if counts[rank] == most),
        fixes=(
            setting(
                "enable_compiler_collectives",
                "Let the ranks agree on which sizes are dynamic",
                is_safe=True,
                source=GUIDE,
            ),
            Fix(title="Give all ranks the same sizes, with padding if needed", kind="call", source=GUIDE),
        ),
    )
