"""GD129: torch's own module at the root, so nothing of it is compiled."""

from __future__ import annotations

from collections.abc import Iterator

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.facts.recording import TorchMechanism
from graphdoctor.rules.diagnosis.rule import BreakSite, RecordingRule, RecordingView, RuleMatch

_SOURCE = "torch/_dynamo/trace_rules.py, 2.13: files of torch are skipped"
_AROUND: dict[TorchMechanism, str] = {
    "ddp_forward": "`DistributedDataParallel.forward`",
    "fsdp_hook": "FSDP's hooks",
    "module_hook": "a hook",
}


class SkippedContainer(RecordingRule, code="GD129", name="skipped-container", severity="error"):
    """Nothing was compiled, because the module is of a class of torch's own.

    ## What it finds
    torch.compile around DistributedDataParallel, FSDP or a module with hooks, where the module inside is an
    `nn.Sequential` or another class of torch's own. Dynamo skips functions in torch's files unless a function that it
    compiles calls them. DDP's code and hooks break the graph, so nothing that it compiles calls the container.

    ## Why it costs
    The container runs eagerly, and so do layers of torch's own in it. If the program has no other module in it, torch
    makes no graph at all, and says nothing.

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
    `torch.compile(net)` wraps a container in a function that Dynamo compiles; `net.compile()` doesn't. A class of the
    program's own with a `forward` that calls the container helps in both.

    ## Fix safety
    Safe. Names in `state_dict()` change: `module.` becomes `module._orig_mod.`.

    ## Source
    `torch/_dynamo/trace_rules.py` and `torch/_dynamo/eval_frame.py` (`wrap_inline`), 2.13.
    """

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        return tuple(_matches(view))


def _matches(view: RecordingView) -> Iterator[RuleMatch]:
    compiles = {item.compile_id: item for item in view.recording.compiles}
    containers = {frame.frame_id: frame.container for frame in view.recording.frames if frame.container}
    with_graph = {item.process for graph in view.recording.graphs if (item := compiles.get(graph.compile_id))}
    for site in view.sites:
        if site.mechanism not in _AROUND:
            continue
        own = [item for record in site.records if (item := compiles.get(record.compile_id or "")) is not None]
        name = next((containers[item.frame_id] for item in own if item.frame_id in containers), None)
        idle = [item for item in own if item.process not in with_graph]
        if idle or name is not None:
            yield RuleMatch(
                entry=site.entry,
                message=_message(site, name, is_idle=bool(idle)),
                count=len({item.process for item in idle or own}),
                compile_ids=tuple(item.compile_id for item in idle or own),
                user_stack=site.records[0].stack,
                fixes=_fixes(site),
                severity="error" if idle else "warning",
                subject=name or "",
            )


def _message(site: BreakSite, name: str | None, *, is_idle: bool) -> str:
    around = _AROUND[site.mechanism] if site.mechanism else ""
    if name is None:
        return (
            f"nothing was compiled: {around} breaks the graph, and torch made no graph of what is inside, "
            "as it does with a container of torch's own such as `nn.Sequential`"
        )
    what = "nothing was compiled" if is_idle else "only modules of the program's own were compiled, one by one"
    return f"{what}: {around} breaks the graph, and torch doesn't compile `{name}.forward`, its own code, by itself"


def _fixes(site: BreakSite) -> tuple[Fix, ...]:
    if site.mechanism == "ddp_forward":
        title = "Compile the module, and wrap that: `DistributedDataParallel(torch.compile(module))`"
        return (Fix(title=title, kind="call", is_safe=True, source=_SOURCE),)
    title = "Give the module a class of its own, whose `forward` calls the container, and compile that class's modules"
    return (Fix(title=title, kind="code", is_safe=True, source=_SOURCE),)
