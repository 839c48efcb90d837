"""GD209: a function that some ranks recompiled and others didn't."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from graphdoctor.facts.guards import RecompileCause
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
    can_be_dynamic,
    compile_argument,
    ranks_text,
    setting,
    times,
)

_BY_VALUES: frozenset[Aspect] = frozenset({"presence", "sizes", "causes"})
"""In what ranks differ if they saw other sizes or values."""


class RanksDisagree(RecordingRule):
    """A function that the ranks of a distributed run compiled a different number of times.

    ## What it finds
    In a recording of several ranks, a function that some ranks compiled more often than others,
    because they saw different sizes or values.

    ## Why it costs
    While one rank compiles, the others wait in the next collective, up to its timeout. If the
    graphs differ between ranks, their collectives can be in a different order, and the run hangs.

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

    `dynamic=True` in the call of torch.compile helps too, for sizes and numbers: no rank then
    recompiles alone. Where all ranks compile at the same time, each for its own sizes,
    `torch._dynamo.config.enable_compiler_collectives = True` has them agree on which sizes to make
    dynamic. Where something else differs, such as a mode or grad mode, make the same calls on every
    rank during warm-up: all ranks then compile together.

    ## Fix safety
    Equal sizes and `dynamic=True` keep results the same. Compiler collectives are unsafe where a
    rank compiles alone: it then waits for the others, which are in another collective, and the job
    fails or hangs. In torch 2.13 they need an accelerator.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/config.py`, 2.13
    (`enable_compiler_collectives`).
    """

    def findings(self, view: RecordingView) -> Matches:
        ranks: set[str] = set()
        by_function: dict[tuple[str, int, str], list[tuple[str, Compile]]] = {}
        for item in view.recording.compiles:
            # In a run with ranks, the main process is the lowest one.
            rank, frame = item.process or "rank0", view.frames.get(item.frame_id)
            if item.outcome == "compiled" and rank.startswith("rank"):
                ranks.add(rank)
                if frame is not None:
                    by_function.setdefault((frame.file, frame.line, frame.code_name), []).append(
                        (rank, item)
                    )
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
                fixes=_fixes(
                    is_dynamic=can_all_be_dynamic(item.cause for _, item in items), can_agree=False
                ),
            )


def can_all_be_dynamic(causes: Iterable[RecompileCause | None]) -> bool:
    """Whether nothing changed but sizes and numbers that dynamic code can have; False if nothing is
    known of it.
    """
    changes = [change for cause in causes if cause is not None for change in cause.changes]
    return bool(changes) and all(
        change.kind == "number" or can_be_dynamic(change) for change in changes
    )


def _fixes(*, is_dynamic: bool, can_agree: bool) -> Fixes:
    """What helps.

    Args:
        is_dynamic: Ranks differ in nothing but sizes and numbers that dynamic code can have.
        can_agree: All ranks compiled the function, each for its own sizes, and can run compiler
            collectives.
    """
    if not is_dynamic:
        yield call_fix(
            "Make the same calls on every rank, at least during warm-up, so that no rank compiles alone"
        )
        return
    title = "Compile with dynamic sizes from the start, so that no rank recompiles alone"
    yield compile_argument("dynamic=True", title, is_safe=True)
    if can_agree:
        agree = "Let the ranks agree on which sizes are dynamic, while all of them compile"
        yield setting("enable_compiler_collectives", agree)
    yield call_fix("Give all ranks the same sizes, with padding if needed")


def finding_of_job(job: Job) -> JobFinding | None:
    """The first function that ranks of a job compiled for other sizes or values; None if they agree
    on these.
    """
    for row in job.agreement:
        causes = tuple(dict.fromkeys(cause for group in row.groups for cause in group.causes))
        differs_in = set(row.differs_in)
        # Other operations from the first compile on are other code, such as the stages of a
        # pipeline.
        is_by_sizes = "sizes" in differs_in and "operations" not in differs_in
        if not row.agree and (causes or is_by_sizes) and _BY_VALUES & differs_in:
            largest, *others = row.groups
            ranks = tuple(sorted(rank for group in others for rank in group.ranks)) or largest.ranks
            because = f" ({causes[0]})" if causes else ""
            fixes = _fixes(
                is_dynamic=all(group.is_dynamic for group in row.groups if group.causes),
                can_agree="presence" not in differs_in and job.environment.torch_build != "CPU",
            )
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
                fixes=RanksDisagree.sourced(fixes),
                fingerprint=digest(RanksDisagree.code, row.location.file, row.function),
            )
    return None
