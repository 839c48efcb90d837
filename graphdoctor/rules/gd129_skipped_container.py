"""GD129: torch's own module at the root, so nothing of it is compiled."""

from __future__ import annotations

from graphdoctor.rules.toolkit import (
    BEFORE_SHARDING,
    INSIDE_DDP,
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
)

_AROUND = {
    "ddp_forward": ("`DistributedDataParallel.forward`", (INSIDE_DDP,)),
    "fsdp_hook": ("a hook of FSDP", (BEFORE_SHARDING,)),
    "module_hook": ("a hook", ()),
}
"""What breaks, and what helps; the break has its own finding, and what helps against a hook is
there."""
_UNKNOWN = "made no graph of what is inside, which is so if its class is torch's own, such as `nn.Sequential`"


class SkippedContainer(RecordingRule, severity="error"):
    """Nothing was compiled, because the module is of a class of torch's own.

    ## What it finds
    torch.compile around DistributedDataParallel, FSDP or a module with hooks, where the module
    inside is an `nn.Sequential` or another class of torch's own. Dynamo skips functions in torch's
    files unless a function that it compiles calls them. DDP's code and hooks break the graph, so
    nothing that it compiles calls the container. torch 2.13 makes an exception of containers that
    have hooks themselves, if FSDP doesn't shard them.

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
    `torch/_dynamo/trace_rules.py` and `torch/_dynamo/eval_frame.py` (`wrap_inline`), 2.13;
    `check_verbose` in the former for modules with hooks.
    """

    guide = "torch/_dynamo/trace_rules.py, 2.13: files of torch are skipped"

    def findings(self, view: RecordingView) -> Matches:
        with_graph = {
            found.process for each in view.graphs if (found := view.compiles.get(each)) is not None
        }
        alone = {
            frame.name
            for each in view.graphs
            if (frame := view.frame(each)) is not None and not frame.is_wrapper
        }
        for site in view.sites:
            if site.mechanism not in _AROUND:
                continue
            around, fixes = _AROUND[site.mechanism]
            own = [
                found
                for record in site.records
                if (found := view.compiles.get(record.compile_id)) is not None
            ]
            frames = (view.frames.get(found.frame_id) for found in own)
            name = next(
                (frame.container for frame in frames if frame is not None and frame.container), None
            )
            idle = [found for found in own if found.process not in with_graph]
            # Since 2.13, torch compiles its own `forward` by itself if the module has a hook.
            if idle or (name is not None and f"{name}.forward" not in alone):
                what = (
                    "nothing was compiled"
                    if idle
                    else "only modules in it were compiled, one by one"
                )
                inside = (
                    f"doesn't compile `{name}.forward`, its own code, by itself"
                    if name
                    else _UNKNOWN
                )
                yield RuleMatch(
                    entry=site.entry,
                    message=f"{what}: {around} breaks the graph, and torch {inside}",
                    count=len({found.process for found in idle or own}),
                    of=idle or own,
                    user_stack=site.stack,
                    fixes=fixes,
                    severity="error" if idle else "warning",
                    subject=name or "",
                )
