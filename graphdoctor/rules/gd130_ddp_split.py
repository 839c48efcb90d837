"""GD130: a graph that torch splits at DDP's buckets."""

from __future__ import annotations

from graphdoctor.facts.recording import DdpSplit
from graphdoctor.rules.toolkit import (
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    bytes_text,
    counted,
    grouped,
    setting,
)

_ONE_GRAPH = setting(
    "optimize_ddp",
    "Compile it in one graph",
    condition="if reducing gradients takes little time",
    value=False,
    is_safe=True,
)


class DdpSplitGraph(RecordingRule, severity="info"):
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
    `torch/_dynamo/backends/distributed.py`, 2.13 ("Note [DDPOptimizer]").
    """

    def findings(self, view: RecordingView) -> Matches:
        owned = ((view.frame(split.compile_id), split) for split in view.recording.ddp_splits)
        for frame, splits in grouped(owned).items():
            if frame is None:
                continue
            last = splits[-1]
            yield RuleMatch(
                entry=frame.entry,
                message=f"torch splits the graph of `{frame.described}` into {len(last.buckets)} at DDP's buckets; "
                f"{_crossing(last)}",
                of=splits,
                fixes=(_ONE_GRAPH,),
                ddp_split=last,
            )


def _crossing(split: DdpSplit) -> str:
    size = "" if split.crossing_bytes is None else f" ({bytes_text(split.crossing_bytes)})"
    verb = "crosses" if split.crossing_count == 1 else "cross"
    return f"{counted(split.crossing_count, 'tensor')}{size} {verb} between them"
