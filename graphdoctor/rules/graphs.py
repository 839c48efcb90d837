"""Rules about too much and too little in a graph: GD401, GD402."""

from __future__ import annotations

import re
from collections.abc import Mapping

from graphdoctor.facts.command import block_lines
from graphdoctor.facts.diagnosis import Cost
from graphdoctor.facts.fixes import Fix, SnippetPlace
from graphdoctor.facts.recording import Graph, GraphNode, RepeatedBlocks, TargetInfo
from graphdoctor.rules.toolkit import (
    CUDA_GRAPHS,
    Findings,
    RecordingRule,
    RecordingView,
    call_fix,
    code_fix,
    compile_argument,
    counted,
    grouped,
    names,
    percent,
)

_FEWEST_OPS = 100
"""Fewest operations of blocks that torch could share. Compiling so many with Inductor takes
seconds, whatever ``eager`` takes."""
_FEWEST_SHARE = 0.5
"""Smallest share of these in the graph's operations."""
_WORD = re.compile(r"[^\W\d]\w*")
_ROOT = re.compile(r"^[LG]\['\w+'\]\.?")
"""Beginning of torch's path of a module."""
_MIN_OVERHEAD_SHARE = 0.5


class RepeatedBlocksInOneGraph(RecordingRule, code="GD401", severity="info"):
    """Modules that repeat, compiled again and again within one graph.

    ## What it finds
    A graph with the operations of at least three modules of one class, such as the layers of a
    transformer, if torch could share what it compiles for one of them with the others: this makes
    up half of the graph or more, and at least 100 operations. Modules whose parameters, operations,
    numbers or sizes differ from the rest can't share.

    ## Why it costs
    Compiling takes as long as the graph is large. If each layer is compiled by itself (regional
    compilation), torch compiles one and runs it for all, so that compiling takes a fraction of the
    time at every start. What is around the layers then runs eagerly, and nothing is fused across
    layers: `graphdoctor fix` finds out whether they share, and measures whether it pays.

    ## Example
    ```python
    import torch

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return x + self.linear(x).sin().cos().tanh()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(Layer() for _ in range(24))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    torch.manual_seed(0)
    forward = Net().requires_grad_(False)

    def inputs():
        return (torch.ones(2, 4),)
    ```

    ## Use instead
    ```python
    import torch

    # for layer in forward.layers: layer.compile()
    ARGUMENTS = ["--regional"]

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(4, 4)

        def forward(self, x):
            return x + self.linear(x).sin().cos().tanh()

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(Layer() for _ in range(24))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    torch.manual_seed(0)
    forward = Net().requires_grad_(False)

    def inputs():
        return (torch.ones(2, 4),)
    ```
    In your program, call `compile()` of each layer in place of `torch.compile(model)`. If an
    attribute or an argument differs from layer to layer and `forward` reads it, such as an index or
    the length of a list, each layer recompiles for it, up to the limit: see GD211.
    `torch.compiler.nested_compile_region` on the layer's `forward` keeps one graph, in which torch
    compiles the layer once, and raises an error if more than 8 layers differ in this way.

    ## Fix safety
    Regional compilation keeps results the same. The call can take longer, because Python runs
    between the layers.

    ## Source
    PyTorch recipe, "Reducing torch.compile cold start compilation time with regional compilation";
    `torch/compiler/__init__.py`, 2.13 (`nested_compile_region`).
    """

    def findings(self, view: RecordingView) -> Findings:
        target = view.recording.target
        if target.is_regional or not target.blocks:
            return
        graphs = [
            (shared, graph, counts)
            for graph in view.recording.graphs
            if graph.compile_id in view.compiles
            for shared, counts in [_repeats(graph, target.blocks)]
            if counts
        ]
        largest = max(graphs, key=lambda repeats: repeats[0], default=None)
        if largest is None or (frame := view.frame(largest[1].compile_id)) is None:
            return
        _, graph, counts = largest
        blocks = " and ".join(f"{count} `{of.name}`" for of, count in counts.items())
        seconds = view.compiles[graph.compile_id].duration_s
        took = "" if seconds is None else f", compiled in {seconds:.1f} s"
        kinds = " of each kind" if sum(of.kinds for of in counts) > 1 else ""
        yield self.finding(
            view,
            frame.entry,
            f"`{target.class_name or frame.name}` has {blocks} modules in one graph of "
            f"{len(_calls(graph))} operations{took}; torch may be able to compile one{kinds} and share it",
            [graph for _, graph, _ in graphs],
            fixes=[_regional(target, counts)],
            subject=", ".join(of.class_name for of in counts),
        )


def _calls(graph: Graph) -> list[GraphNode]:
    return [node for node in graph.nodes or () if node.opcode.startswith("call_")]


def _repeats(
    graph: Graph, blocks: tuple[RepeatedBlocks, ...]
) -> tuple[float, Mapping[RepeatedBlocks, int]]:
    """Return the operations of blocks that torch could share, and how many blocks of each class are
    in the graph; none if they aren't worth sharing, or if it isn't known which operations are
    theirs.
    """
    calls, value_names = _calls(graph), {node.name for node in graph.nodes or ()}
    modules = grouped(
        (_ROOT.sub("", node.module), node) for node in calls if node.module is not None
    )
    counts: dict[RepeatedBlocks, int] = {}
    shared = 0.0
    for of in blocks:
        within = (
            [
                node
                for module, nodes in modules.items()
                if f"{module}.".startswith(f"{path}.")
                for node in nodes
            ]
            for path in of.paths
        )
        present = [nodes for nodes in within if nodes]
        # What differs in a number, a size or an operation isn't the same code.
        shapes = {tuple(_shape(node, value_names) for node in nodes) for nodes in present}
        kinds = max(of.kinds, len(shapes))
        if len(present) > kinds:
            counts[of] = len(present)
            shared += sum(map(len, present)) * (1 - kinds / len(present))
    is_worth_it = shared >= max(_FEWEST_OPS, _FEWEST_SHARE * len(calls))
    return shared, counts if is_worth_it else {}


def _shape(node: GraphNode, value_names: set[str]) -> tuple[str, ...]:
    """Return an operation without the names of the values that go in."""
    texts = (
        _WORD.sub(lambda word: "_" if word[0] in value_names else word[0], text)
        for text in (node.args, node.kwargs)
    )
    return node.target, *texts, node.value or ""


def _regional(target: TargetInfo, blocks: Mapping[RepeatedBlocks, int]) -> Fix:
    # With the run's arguments; ``eager`` only shows what Dynamo does.
    arguments = {
        name: value
        for name, value in target.compile_arguments.items()
        if value not in (None, False, {})
        and not (name == "backend" and value in ("inductor", "eager"))
    }
    return call_fix(
        f"Compile each {names(of.name for of in blocks)} by itself, and not the whole",
        "PyTorch recipe: regional compilation",
        snippet="\n".join(block_lines(tuple(blocks), arguments)),
        place=SnippetPlace(where="compile_call"),
        is_safe=True,
    )


class TinyGraphs(RecordingRule, code="GD402"):
    """Compiled code whose kernels take less time than what it takes to run them.

    ## What it finds
    A steady call that spends half of its time or more on running compiled code without computing:
    searching for the code, checking guards, unpacking inputs, allocating, launching kernels. The
    kernels themselves take less. On a GPU, it's the host's time, in which the device waits. It's
    measured by torch.profiler, less the profiler's own time. `graphdoctor bench` reports it.

    ## Why it costs
    Each run of a compiled function takes ten microseconds or more on the host, and each kernel a
    few more to launch. If that's more than half of the call, better kernels can't make it much
    faster: without any kernel, it would still take that long.

    ## Example
    ```python
    import torch

    def forward(x):
        return torch.relu(x.sin() * 2).sum()

    def inputs():
        return (torch.ones(4, 8),)
    ```

    ## Use instead
    ```python
    def inputs():
        return (torch.ones(4096, 2048),)
    ```
    Do more in one call: use a larger batch, or compile a function that does more. If graph breaks
    cut the program into many small graphs, fix these first. On a GPU, `mode="reduce-overhead"`
    records the kernels of a graph as one CUDA graph, which takes one launch.

    ## Fix safety
    A larger batch is another call. `mode="reduce-overhead"` keeps results the same; it needs more
    memory, and an output is overwritten by the next call.

    ## Source
    PyTorch user guide, "CUDA Graph Trees"; `torch/profiler`, 2.13.
    """

    remedies = (
        compile_argument(
            'mode="reduce-overhead"',
            'Compile with mode="reduce-overhead": CUDA graphs launch all kernels of a graph at once',
            CUDA_GRAPHS,
            is_safe=True,
        ),
        code_fix(
            "Do more in one call: use a larger batch, or compile a function that does more",
            "PyTorch user guide: torch.compile",
        ),
    )

    def findings(self, view: RecordingView) -> Findings:
        kernels, frame = view.recording.kernels, view.main_frame
        if kernels is None or frame is None or not kernels.unprofiled_us or not kernels.region_runs:
            return
        overhead_us, kernels_us = kernels.overhead_us, kernels.kernels_us
        if overhead_us is None or kernels_us is None or overhead_us <= kernels_us:
            return
        share = overhead_us / kernels.unprofiled_us
        if share < _MIN_OVERHEAD_SHARE:
            return
        functions = counted(kernels.region_runs, "compiled function")
        has_no_graphs = kernels.device == "cuda" and view.recording.cuda_graphs is None
        yield self.finding(
            view,
            frame.entry,
            f"running {functions} with {counted(kernels.launches or 0, 'kernel')} takes "
            f"{percent(share)} of a steady call; the kernels themselves take "
            f"{percent(kernels_us / kernels.unprofiled_us)}",
            count=kernels.region_runs,
            cost=Cost(call_us=overhead_us, call_from="profile", share=share),
            fixes=self.remedies if has_no_graphs else self.remedies[1:],
        )
