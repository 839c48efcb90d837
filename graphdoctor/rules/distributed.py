"""Rules about several processes: GD125, GD126, GD129, GD130, GD209."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from graphdoctor.facts.fixes import Fix
from graphdoctor.facts.guards import RecompileCause
from graphdoctor.facts.job import Aspect, Divergence, Job, JobFinding, Parting
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.diagnosis.rule import digest
from graphdoctor.rules.toolkit import (
    BEFORE_SHARDING,
    INSIDE_DDP,
    BreakRule,
    BreakSite,
    Findings,
    Fixes,
    RecordingRule,
    RecordingView,
    bytes_text,
    call_fix,
    can_be_dynamic,
    code_fix,
    counted,
    grouped,
    ranks_text,
    setting,
    times,
)

_AROUND = {
    "ddp_forward": ("`DistributedDataParallel.forward`", (INSIDE_DDP,)),
    "fsdp_hook": ("a hook of FSDP", (BEFORE_SHARDING,)),
    "module_hook": ("a hook", ()),
}
"""Cause of the break, and its remedy; the break has its own finding, and what helps against a hook
is there."""
_UNKNOWN = (
    "made no graph of what is inside, which is so if its class is torch's own, such as"
    " `nn.Sequential`"
)
_BY_VALUES: frozenset[Aspect] = frozenset({"presence", "sizes", "causes"})
"""In what ranks differ if they saw other sizes or values."""


class DdpForward(BreakRule, code="GD125", severity="info"):
    """torch.compile around DistributedDataParallel breaks in DDP's own code.

    ## What it finds
    `torch.compile(DistributedDataParallel(model))`, or a compiled function that calls such a
    module. DDP's `forward` calls its logger and its reducer, which are C++, and enters
    `_inside_ddp_forward`, which Dynamo skips on purpose: it compiles the module inside as a
    function of its own, and can then split its graph at DDP's buckets. No line of the program is to
    blame.

    ## Why it costs
    DDP's `forward` runs eagerly, with guards of its own on each piece. The module inside loses
    nothing if its class is the program's. If it is one of torch's own, such as `nn.Sequential`,
    nothing is compiled (GD129).

    ## Example
    ```python
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x):
            return self.linear(x).relu()

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    forward = torch.compile(DistributedDataParallel(Net()), backend="eager")

    for step in range(2):
        forward(torch.ones(4, 8)).sum().backward()
    ```

    ## Use instead
    ```python
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x):
            return self.linear(x).relu()

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    forward = DistributedDataParallel(torch.compile(Net(), backend="eager"))

    for step in range(2):
        forward(torch.ones(4, 8)).sum().backward()
    ```
    The graph is still split at DDP's buckets, because the module is compiled during DDP's
    `forward`. A function that calls DDP, such as a step with the loss, breaks there as long as it
    is compiled too.

    ## Fix safety
    Safe: DDP does the same in eager mode. Names in `state_dict()` change: `module.` becomes
    `module._orig_mod.`. Where that matters, call `model.compile()` before wrapping it, which
    changes no name, but does nothing to a module of torch's own class.

    ## Source
    `torch/nn/parallel/distributed.py` and `torch/_dynamo/backends/distributed.py`, 2.11 to 2.15.
    """

    mechanism = "ddp_forward"
    says = (
        "`DistributedDataParallel.forward` breaks the graph by design: only the module inside it"
        " can be compiled"
    )

    def suggested(self, site: BreakSite) -> Fixes:
        title = f"Compile the module before DDP wraps it, and nothing that calls `{site.named}`"
        traced = INSIDE_DDP.replace(title=title)
        yield traced if site.is_traced else INSIDE_DDP


class FsdpHook(BreakRule, code="GD126"):
    """A module that FSDP shards is called in a compiled function.

    ## What it finds
    A call of a module under `fully_shard` in code that torch.compile traces. FSDP gathers its
    parameters in a hook before its `forward` and frees them in one after it. These hooks are under
    `torch.compiler.disable`.

    ## Why it costs
    The graph ends before each sharded module and after it. In a loop over layers, torch can't
    resume, and skips the whole function that has the loop. A layer of the program's own class is
    then compiled by itself anyway; one of torch's own, such as `nn.TransformerEncoderLayer`, isn't.

    ## Example
    ```python
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x):
            return self.linear(x).relu()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList(Block() for _ in range(3))

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    net = Net()
    for block in net.blocks:
        fully_shard(block)
    fully_shard(net)
    forward = torch.compile(net, backend="eager")

    for step in range(2):
        forward(torch.ones(4, 8, requires_grad=True)).sum().backward()
    ```

    ## Use instead
    ```python
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 8)

        def forward(self, x):
            return self.linear(x).relu()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList(Block() for _ in range(3))

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return x

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    net = Net()
    for block in net.blocks:
        block.compile(backend="eager")
        fully_shard(block)
    forward = fully_shard(net)

    for step in range(2):
        forward(torch.ones(4, 8, requires_grad=True)).sum().backward()
    ```
    Blocks of one class share what is compiled. `compile()` does nothing to a block of torch's own
    class: put `fully_shard(torch.compile(block))` in its place. A function that calls the sharded
    modules and is compiled itself breaks at each of them all the same.

    ## Fix safety
    Safe: the hooks run eagerly, around the compiled blocks, and so does what is between them. With
    `torch.compile(block)`, names in `state_dict()` change: `_orig_mod.` comes before the block's
    own.

    ## Source
    `torch/distributed/fsdp/_fully_shard`, 2.13 to 2.15 (`_dynamo_disable`).
    """

    mechanism = "fsdp_hook"
    remedies = (BEFORE_SHARDING,)

    def message(self, site: BreakSite) -> str:
        whose = f" around `{site.called}`" if site.called and site.is_traced else ""
        return (
            f"FSDP's hooks{whose} are kept out of graphs by torch, so each sharded module ends the"
            " graph"
        )


class SkippedContainer(RecordingRule, code="GD129", severity="error"):
    """Nothing was compiled, because the module is of a class of torch's own.

    ## What it finds
    torch.compile around DistributedDataParallel, FSDP or a module with hooks, where the module
    inside is an `nn.Sequential` or another class of torch's own. Dynamo skips functions in torch's
    files unless a function that it compiles calls them. DDP's code and hooks break the graph, so
    nothing that it compiles calls the container. From 2.13 on, torch makes an exception of
    containers that have hooks themselves, if FSDP doesn't shard them.

    ## Why it costs
    The container runs eagerly, and so do layers of torch's own in it. If the program has no other
    module in it, torch makes no graph at all, and says nothing.

    ## Example
    ```python
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    forward = torch.compile(DistributedDataParallel(net), backend="eager")

    for step in range(2):
        forward(torch.ones(4, 8)).sum().backward()
    ```

    ## Use instead
    ```python
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())
    forward = DistributedDataParallel(torch.compile(net, backend="eager"))

    for step in range(2):
        forward(torch.ones(4, 8)).sum().backward()
    ```
    `torch.compile(net)` wraps a container in a function that Dynamo compiles; `net.compile()`
    doesn't. A class of the program's own with a `forward` that calls the container helps in both.
    With FSDP: `fully_shard(torch.compile(net))`. A hook that torch can trace doesn't break the
    graph.

    ## Fix safety
    Safe. Names in `state_dict()` change: `module.` becomes `module._orig_mod.`.

    ## Source
    `torch/_dynamo/trace_rules.py` and `torch/_dynamo/eval_frame.py` (`wrap_inline`), 2.11 to 2.15;
    `check_verbose` in the former for modules with hooks.
    """

    guide = "torch/_dynamo/trace_rules.py, 2.11 to 2.15: files of torch are skipped"

    def findings(self, view: RecordingView) -> Findings:
        compiles = [view.compiles[id_] for id_ in view.graphs if id_ in view.compiles]
        with_graph = {compile_.process for compile_ in compiles}
        frames = (view.frames.get(compile_.frame_id) for compile_ in compiles)
        alone = {frame.name for frame in frames if frame is not None and not frame.is_wrapper}
        for site in view.sites:
            if site.mechanism not in _AROUND:
                continue
            around, fixes = _AROUND[site.mechanism]
            ids = (record.compile_id for record in site.records)
            broken = [view.compiles[id_] for id_ in ids if id_ in view.compiles]
            entered = (view.frames.get(compile_.frame_id) for compile_ in broken)
            name = next((frame.container for frame in entered if frame and frame.container), None)
            idle = [compile_ for compile_ in broken if compile_.process not in with_graph]
            # Since 2.13, torch compiles its own `forward` by itself if the module has a hook.
            if not idle and (name is None or f"{name}.forward" in alone):
                continue
            what = (
                "nothing was compiled" if idle else "only modules in it were compiled, one by one"
            )
            inside = (
                f"doesn't compile `{name}.forward`, its own code, by itself" if name else _UNKNOWN
            )
            yield self.finding(
                view,
                site.entry,
                f"{what}: {around} breaks the graph, and torch {inside}",
                idle or broken,
                count=len({compile_.process for compile_ in idle or broken}),
                user_stack=site.stack,
                fixes=fixes,
                severity="error" if idle else "warning",
                subject=name or "",
            )


class DdpSplit(RecordingRule, code="GD130", severity="info"):
    """A graph that torch splits at the buckets of DistributedDataParallel.

    ## What it finds
    A module in DDP with more parameters than one bucket (`bucket_cap_mb`, 25 MiB by default; the
    first bucket has 1 MiB). torch compiles a graph for each bucket, so that DDP can reduce the
    gradients of one while the backward pass computes those of the next. A backward pass in one
    graph yields all gradients at its end.

    ## Why it costs
    Kernels can't fuse across the parts: each tensor that crosses is written to memory and read
    again, in the forward pass and in the backward pass. There are more graphs to compile and to
    call. It pays where reducing gradients takes long, such as between machines.

    ## Example
    ```python
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(512, 512)
            self.last = torch.nn.Linear(512, 512)

        def forward(self, x):
            return self.last(self.first(x).relu())

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    forward = DistributedDataParallel(torch.compile(Net(), backend="eager"), bucket_cap_mb=1)

    for step in range(2):
        forward(torch.ones(4, 512)).sum().backward()
    ```

    ## Use instead
    ```python
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = torch.nn.Linear(512, 512)
            self.last = torch.nn.Linear(512, 512)

        def forward(self, x):
            return self.last(self.first(x).relu())

    if not dist.is_initialized():
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch._dynamo.config.optimize_ddp = False
    forward = DistributedDataParallel(torch.compile(Net(), backend="eager"), bucket_cap_mb=1)

    for step in range(2):
        forward(torch.ones(4, 512)).sum().backward()
    ```
    Or keep the split and make buckets larger with `bucket_cap_mb`. Which is faster depends on the
    network: measure it.

    ## Fix safety
    Safe: gradients are the same.

    ## Source
    `torch/_dynamo/backends/distributed.py`, 2.11 to 2.15 ("Note [DDPOptimizer]").
    """

    remedies = (
        setting(
            "optimize_ddp",
            "Compile it in one graph",
            condition="if reducing gradients takes little time",
            value=False,
            is_safe=True,
        ),
    )

    def findings(self, view: RecordingView) -> Findings:
        owned = ((view.frame(split.compile_id), split) for split in view.recording.ddp_splits)
        for frame, splits in grouped(owned).items():
            if frame is None:
                continue
            last = splits[-1]
            size = "" if last.crossing_bytes is None else f" ({bytes_text(last.crossing_bytes)})"
            verb = "crosses" if last.crossing_count == 1 else "cross"
            yield self.finding(
                view,
                frame.entry,
                f"torch splits the graph of `{frame.described}` into {len(last.buckets)} at DDP's"
                f" buckets; {counted(last.crossing_count, 'tensor')}{size} {verb} between them",
                splits,
                ddp_split=last,
            )


class RanksDisagree(RecordingRule, code="GD209"):
    """A function that the ranks of a distributed run compiled a different number of times.

    ## What it finds
    In a recording of several ranks, a function that some ranks compiled more often than others,
    because they saw different sizes or values, or a branch on the rank in compiled code.

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

    `torch._dynamo.mark_dynamic` on every rank before its first call helps too: no rank then
    recompiles alone for another size. Where all ranks compile at the same time, each for its own
    sizes, `torch._dynamo.config.enable_compiler_collectives = True` has them agree on which sizes
    to make dynamic. Where something else differs, such as a mode or grad mode, make the same calls
    on every rank during warm-up: all ranks then compile together. What one rank alone prints or
    writes belongs outside the compiled function: a branch on the rank gives each rank other graphs.

    ## Fix safety
    Equal sizes and marked ones keep results the same. Compiler collectives are unsafe where a
    rank compiles alone: it then waits for the others, which are in another collective, and the job
    fails or hangs. They need an accelerator.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/config.py`, 2.11 to 2.15
    (`enable_compiler_collectives`).
    """

    def findings(self, view: RecordingView) -> Findings:
        # In a run with ranks, the main process is the lowest one.
        compiled = [
            (rank, compile_)
            for compile_ in view.recording.compiles
            if compile_.outcome == "compiled"
            and (rank := compile_.process or "rank0").startswith("rank")
        ]
        by_function = grouped(
            ((frame.file, frame.line, frame.code_name), (rank, compile_))
            for rank, compile_ in compiled
            if (frame := view.frames.get(compile_.frame_id)) is not None
        )
        ranks = sorted({rank for rank, _ in compiled})
        for pairs in by_function.values() if len(ranks) > 1 else ():
            counts = Counter(dict.fromkeys(ranks, 0))
            counts.update(rank for rank, _ in pairs)
            most, least = max(counts.values()), min(counts.values())
            if most == least:
                continue
            frame = view.frames[pairs[0][1].frame_id]
            shown = ", ".join(f"{rank} {count}" for rank, count in counts.items())
            often = f"{times(most)} on one rank and {times(least)} on another"
            is_dynamic = can_all_be_dynamic(compile_.cause for _, compile_ in pairs)
            yield self.finding(
                view,
                frame.entry,
                f"`{frame.described}` was compiled {often} ({shown})",
                [compile_ for rank, compile_ in pairs if counts[rank] == most],
                count=most - least,
                fixes=_fixes(is_dynamic=is_dynamic, can_agree=False),
            )


def can_all_be_dynamic(causes: Iterable[RecompileCause | None]) -> bool:
    """Return whether nothing changed but sizes and numbers that dynamic code can have; False if
    nothing is known of it.
    """
    changes = [change for cause in causes if cause is not None for change in cause.changes]
    return bool(changes) and all(
        change.kind == "number" or can_be_dynamic(change) for change in changes
    )


def _fixes(*, is_dynamic: bool, can_agree: bool) -> Fixes:
    """Suggest what helps.

    Args:
        is_dynamic: Ranks differ in nothing but sizes and numbers that dynamic code can have.
        can_agree: All ranks compiled the function, each for its own sizes, and can run compiler
            collectives.
    """
    if not is_dynamic:
        yield _SAME_CALLS
        return
    yield _MARKED
    if can_agree:
        agree = "Let the ranks agree on which sizes are dynamic, while all of them compile"
        yield setting("enable_compiler_collectives", agree)
    yield call_fix("Give all ranks the same sizes, with padding if needed")


_MARKED = call_fix(
    "Mark the sizes that differ as dynamic, with torch._dynamo.mark_dynamic, and pass such numbers"
    " as tensors, on every rank before its first call",
    is_safe=True,
)
_SAME_CALLS = call_fix(
    "Make the same calls on every rank, at least during warm-up, so that no rank compiles alone"
)
_OUTSIDE_BRANCH = (
    call_fix(
        "Do what only some ranks do outside the compiled function, such as after its call with what"
        " it returns"
    ),
    code_fix(
        "Put it in a function under `torch.compiler.disable` that all ranks call: the graph then"
        " breaks there on each rank alike",
        "torch/_dynamo/convert_frame.py, 2.11 to 2.15",
    ),
)


def finding_of_job(job: Job) -> JobFinding | None:
    """Return where ranks of a job run different code, or the first function that they compiled for
    other sizes, values or state; None if they agree on these.
    """
    divergence = job.first_divergence
    parting = None if divergence is None else divergence.parting
    # What recompiles alone has its sizes and numbers in the row.
    if divergence is not None and parting is not None and not _is_recompile(divergence, job):
        return _of_parting(parting, divergence, job)
    for row in job.agreement:
        causes = tuple(dict.fromkeys(cause for group in row.groups for cause in group.causes))
        differs_in = set(row.differs_in)
        # Other operations from the first compile on are other code, such as the stages of a
        # pipeline.
        is_by_sizes = "sizes" in differs_in and "operations" not in differs_in
        if row.agree or not (causes or is_by_sizes) or _BY_VALUES.isdisjoint(differs_in):
            continue
        # Where some ranks never run the function, they don't compile it for other values.
        same = (other for other in job.agreement if other.frame == row.frame)
        if not any("presence" not in other.differs_in for other in same):
            continue
        largest, *others = sorted(row.groups, key=lambda group: bool(group.causes))
        ranks = tuple(sorted(rank for group in others for rank in group.ranks)) or largest.ranks
        because = f" ({causes[0]})" if causes else ""
        fixes = _fixes(
            is_dynamic=all(group.is_dynamic for group in row.groups if group.causes),
            can_agree="presence" not in differs_in and job.environment.torch_build != "CPU",
        )
        message = (
            f"`{row.function}` was compiled for other values on {ranks_text(ranks)} than on "
            f"{ranks_text(largest.ranks)}{because}"
        )
        return _finding(row.location, row.function, ranks, message, fixes)
    return None


def _is_recompile(divergence: Divergence, job: Job) -> bool:
    rows = (row for row in job.agreement if row.compile == divergence.compile)
    return any(
        group.causes for row in rows if row.frame == divergence.frame for group in row.groups
    )


def _of_parting(parting: Parting, divergence: Divergence, job: Job) -> JobFinding:
    where, ranks = parting.location or divergence.location, divergence.ranks
    which, branch = ranks_text(ranks), f"the branch on line {where.line}"
    fixes: tuple[Fix, ...] = _OUTSIDE_BRANCH
    if divergence.what == "presence" and divergence.resumes_at is None:
        fixes = (_SAME_CALLS,)  # a compiled function is called in the branch
    if parting.kind == "branch" and parting.reads is not None:
        ranks = tuple(rank.rank for rank in job.ranks)
        message = f"ranks run different code: {branch} depends on the rank"
    elif parting.kind == "branch":
        message = f"ranks run different code: {branch} goes another way on {which}"
        fixes = (call_fix(f"Let all ranks decide `{parting.value}` alike"), *fixes)
    elif parting.kind == "sizes":
        message = f"`{divergence.function}` was compiled for other sizes on {which}"
        can_agree = job.environment.torch_build != "CPU"
        fixes = tuple(_fixes(is_dynamic=True, can_agree=can_agree))
    else:
        message = f"`{divergence.function}` was compiled for another `{parting.value}` on {which}"
        fixes = (call_fix(f"Give all ranks the same `{parting.value}`"),)
    return _finding(where, divergence.function, ranks, message, fixes)


def _finding(
    location: StackEntry, function: str, ranks: tuple[int, ...], message: str, fixes: Fixes
) -> JobFinding:
    return JobFinding(
        code=RanksDisagree.code,
        rule=RanksDisagree.name,
        severity=RanksDisagree.severity,
        message=message,
        location=location,
        count=1,
        most=1,
        ranks=ranks,
        fixes=RanksDisagree.sourced(fixes),
        fingerprint=digest(RanksDisagree.code, location.file, function),
    )
