"""GD126: the hooks of FSDP."""

from __future__ import annotations

from graphdoctor.rules.toolkit import BEFORE_SHARDING, BreakRule, BreakSite


class FsdpHook(BreakRule):
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
        modules and is compiled itself
    breaks at each of them all the same.

    ## Fix safety
    Safe: the hooks run eagerly, around the compiled blocks, and so does what is between them. With
    `torch.compile(block)`, names in `state_dict()` change: `_orig_mod.` comes before the block's
    own.

    ## Source
    `torch/distributed/fsdp/_fully_shard`, 2.13 (`_dynamo_disable`).
    """

    mechanism = "fsdp_hook"
    remedies = (BEFORE_SHARDING,)

    def message(self, site: BreakSite) -> str:
        whose = f" around `{site.called}`" if site.called and site.is_traced else ""
        return f"FSDP's hooks{whose} are kept out of graphs by torch, so each sharded module ends the graph"
