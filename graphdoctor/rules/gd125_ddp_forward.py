"""GD125: the forward of DistributedDataParallel."""

from __future__ import annotations

from graphdoctor.rules.toolkit import INSIDE_DDP, BreakRule, BreakSite, Fixes


class DdpForward(BreakRule, severity="info"):
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
        `module._orig_mod.`. Where
    that matters, call `model.compile()` before wrapping it, which changes no name, but does nothing
    to a module of torch's own class.

    ## Source
    `torch/nn/parallel/distributed.py` and `torch/_dynamo/backends/distributed.py`, 2.13.
    """

    mechanism = "ddp_forward"
    says = "`DistributedDataParallel.forward` breaks the graph by design: only the module inside it can be compiled"

    def suggested(self, site: BreakSite) -> Fixes:
        title = f"Compile the module before DDP wraps it, and nothing that calls `{site.named}`"
        yield INSIDE_DDP.replace(title=title) if site.is_traced else INSIDE_DDP
