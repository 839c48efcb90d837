"""GD209: a function that some ranks recompiled and others didn't."""

from __future__ import annotations

from collections import Counter

from graphdoctor.facts.job import Aspect, Job, JobFinding
from graphdoctor.facts.recording import Compile
from graphdoctor.rules.diagnosis.findings import digest
from graphdoctor.rules.toolkit import (
    Fixes,
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    call_fix,
    compile_argument,
    ranks_text,
    setting,
    times,
)

_MAIN = "rank0"
_BY_VALUES: frozenset[Aspect] = frozenset({"presence", "sizes", "causes"})
"""In what ranks differ if they saw other sizes or values."""


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

    `dynamic=True` in the call of torch.compile helps too: no rank then recompiles alone. Where all ranks compile at the
    same time, each for its own sizes, `torch._dynamo.config.enable_compiler_collectives = True` has them agree on which
    sizes to make dynamic.

    ## Fix safety
    Equal sizes and `dynamic=True` keep results the same. Compiler collectives are unsafe where a rank compiles alone:
    it then waits for the others, which are in another collective, and the job fails or hangs. In torch 2.13 they need
    an accelerator.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/config.py`, 2.13 (`enable_compiler_collectives`).
    """

    def findings(self, view: RecordingView) -> Matches:
        has_ranks = any((item.process or "").startswith("rank") for item in view.recording.compiles)
        ranks: set[str] = set()
        by_function: dict[tuple[str, int, str], list[tuple[str, Compile]]] = {}
        for item in view.recording.compiles:
            rank, frame = _rank(item, has_ranks=has_ranks), view.frames.get(item.frame_id)
            if item.outcome == "compiled" and rank is not None:
                ranks.add(rank)
                if frame is not None:
                    by_function.setdefault((frame.file, frame.line, frame.code_name), []).append((rank, item))
        for items in by_function.values() if len(ranks) > 1 else ():
            counts = Counter(dict.fromkeys(sorted(ranks), 0))
            counts.update(rank for rank, _ in items)
            most, least = max(counts.values()), min(counts.values())
            if most == least:
                continue
            frame = view.frames[items[0][1].frame_id]
            shown = ", ".join(f"{rank} {count}" for rank, count in counts.items())
            often = f"{times(most)} on one rank and {times(least)} on another"
            yield RuleMatch(
                entry=frame.entry,
                message=f"`{frame.described}` was compiled {often} ({shown})",
                count=most - least,
                of=[item for rank, item in items if counts[rank] == most],
                fixes=_fixes(is_together=False),
            )


def _rank(item: Compile, *, has_ranks: bool) -> str | None:
    """The rank that a compile belongs to, or None. In a run with ranks, the main process is the lowest rank."""
    if item.process is not None:
        return item.process if item.process.startswith("rank") else None
    return _MAIN if has_ranks else None


def _fixes(*, is_together: bool) -> Fixes:
    """What helps.

    Args:
        is_together: All ranks compiled the function, each for its own sizes.
    """
    same = call_fix("Give all ranks the same sizes, with padding if needed")
    if not is_together:
        title = "Compile with dynamic sizes from the start, so that no rank recompiles alone"
        return (compile_argument("dynamic=True", title, is_safe=True), same)
    agree = "Let the ranks agree on which sizes are dynamic, while all of them compile"
    return (setting("enable_compiler_collectives", agree), same)


def finding_of_job(job: Job) -> JobFinding | None:
    """The first function that ranks of a job compiled for other sizes or values; None if they agree on these."""
    for row in job.agreement:
        causes = tuple(dict.fromkeys(cause for group in row.groups for cause in group.causes))
        if not row.agree and (causes or "sizes" in row.differs_in) and _BY_VALUES & set(row.differs_in):
            largest, *others = row.groups
            ranks = tuple(sorted(rank for group in others for rank in group.ranks)) or largest.ranks
            because = f" ({causes[0]})" if causes else ""
            return JobFinding(
                code=RanksDisagree.code,
                rule=RanksDisagree.name,
                severity=RanksDisagree.severity,
                message=f"`{row.function}` was compiled for other values on {ranks_text(ranks)} than on "
                f"{ranks_text(largest.ranks)}{because}",
                location=row.location,
                count=1,
                most=1,
                ranks=ranks,
                fixes=RanksDisagree.sourced(_fixes(is_together="presence" not in row.differs_in)),
                fingerprint=digest(RanksDisagree.code, row.location.file, row.function),
            )
    return None
