"""Rules about compiled graphs, their guards and their caches: GD301, GD302, GD401 to GD404."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from graphdoctor.facts.base import whole_sum
from graphdoctor.facts.command import block_lines
from graphdoctor.facts.diagnosis import Cost
from graphdoctor.facts.fixes import Fix, SnippetPlace
from graphdoctor.facts.guards import Guards, GuardSet
from graphdoctor.facts.kernels import CacheBypass, CacheBypassKind
from graphdoctor.facts.recording import Graph, GraphNode, RepeatedBlocks, TargetInfo
from graphdoctor.rules.toolkit import (
    CUDA_GRAPHS,
    FEWER_MODULES,
    MODULE_FILTERS,
    Findings,
    Fixes,
    RecordingRule,
    RecordingView,
    call_fix,
    code_fix,
    compile_argument,
    counted,
    grouped,
    guard_filter,
    names,
    percent,
    setting,
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
_MORE_IN_ONE_CALL = code_fix(
    "Do more in one call: use a larger batch, or compile a function that does more",
    "PyTorch user guide: torch.compile",
)


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
    layers: `graphdoctor cure --cold` measures whether it pays.

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
    `torch/compiler/__init__.py`, 2.11 to 2.15 (`nested_compile_region`).
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
            f"`{target.class_name or frame.name}` has {blocks} modules in one graph of"
            f" {len(_calls(graph))} operations{took}; torch may be able to compile one{kinds} and"
            " share it",
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
    PyTorch user guide, "CUDA Graph Trees"; `torch/profiler`, 2.11 to 2.15.
    """

    remedies = (
        compile_argument(
            'mode="reduce-overhead"',
            'Compile with mode="reduce-overhead": CUDA graphs launch all kernels of a graph at'
            " once",
            CUDA_GRAPHS,
            is_safe=True,
        ),
        _MORE_IN_ONE_CALL,
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
            f"running {functions} takes {percent(share)} of a steady call, more than all its"
            " kernels",
            count=kernels.region_runs,
            cost=Cost(call_us=overhead_us, call_from="profile", share=share),
            fixes=self.remedies if has_no_graphs else self.remedies[1:],
        )


_MIN_SHARE = 0.1
_MIN_PART = 0.2
_MAX_PARTS = 3
_MIN_STRUCTURE_GUARDS = 1000


class GuardOverhead(RecordingRule, code="GD301"):
    """Guard checks that take a large share of a steady call.

    ## What it finds
    A steady call that spends 10% or more of its time on guard checks, as torch.profiler times them
    in the call, less the profiler's own time. If no profiler could run, they are repeated with warm
    caches, and the share is a lower bound.

    ## Why it costs
    torch checks all guards on the CPU before each run of the compiled code, while the device waits.
    The share depends on the backend: a faster one shortens the rest of the call, but not the
    checks.

    ## Example
    ```python
    import torch

    def forward(x, table):
        return x.tan() * sum(table.values())

    def inputs():
        return (torch.ones(16, 16), {f"weight {index}": index for index in range(1500)})
    ```

    ## Use instead
    ```python
    def forward(x, total):
        return x.tan() * total

    def inputs():
        return (torch.ones(16, 16), torch.tensor(float(sum(range(1500)))))
    ```
    Pass only what the function needs, and do the rest before the call. `graphdoctor guards` shows
    which argument or module the checks belong to.

    ## Fix safety
    The guard filters of `torch.compiler` are unsafe: torch doesn't notice changes of what it no
    longer checks, and the compiled code then silently gives wrong results; `graphdoctor accuracy`
    finds graphs that are stale.

    ## Source
    `torch/compiler/__init__.py`, 2.11 to 2.15 (guard filters); PyTorch user guide, "Reducing guard
    overhead".
    """

    def findings(self, view: RecordingView) -> Findings:
        guards = view.recording.guards
        if guards is None or (guards.known_share or 0) < _MIN_SHARE:
            return
        checked = [set_ for set_ in guards.sets if set_.known_share]
        costliest = max(checked, key=lambda set_: set_.known_share or 0, default=None)
        if costliest is None or (frame := view.frame(costliest.compile_id)) is None:
            return
        least = "at least " if guards.share is None else ""
        most = f", most of it in `{frame.name}`" if len(checked) > 1 else ""
        yield self.finding(
            view,
            frame.entry,
            f"guard checks take {least}{percent(guards.known_share or 0)} of a steady call{most}"
            f"{_parts(costliest)}",
            checked,
            count=sum(set_.runs_per_call or 0 for set_ in checked),
            fixes=_guard_fixes(guards),
        )


def _parts(costliest: GuardSet) -> str:
    """Return the parts that cost most, without parts of these parts."""
    paths: list[str] = []
    for part in sorted(costliest.bill, key=lambda part: -(part.check_us or 0)):
        is_large = (part.check_us or 0) >= _MIN_PART * (costliest.check_us or math.inf)
        if not is_large or len(paths) == _MAX_PARTS:
            break
        if not part.path.startswith(tuple(paths)):
            paths.append(part.path)
    return f": mostly {', '.join(f'`{path}`' for path in paths)}" if paths else ""


def _guard_fixes(guards: Guards) -> Fixes:
    nodes = [node for set_ in guards.sets for node in set_.nodes]
    internal_count = sum(node.is_module_internal for node in nodes)
    if internal_count * 2 >= sum(set_.guard_count for set_ in guards.sets):
        yield from (FEWER_MODULES, *MODULE_FILTERS)
        return
    # Tensors alone are as little as it can need.
    if any(not {".", "["}.isdisjoint(node.path or "") for node in nodes):
        yield code_fix(
            "Pass only what the function needs: tensors instead of large dicts, lists and objects",
            "PyTorch user guide: torch.compile, guard overhead",
        )
    yield _MORE_IN_ONE_CALL
    tensors = {node.expression for node in nodes if node.kind == "TENSOR_MATCH"}
    others = [node.path for node in nodes if node.path and node.expression not in tensors]
    if values := dict.fromkeys(re.split(r"[.[]", path)[0] for path in others):
        yield guard_filter("keep_tensor_guards_unsafe", "values", f"a change of {names(values)}")


class GuardsOnModules(RecordingRule, code="GD302", severity="info"):
    """Thousands of guards on the structure of modules: types, hooks, parameters, buffers.

    ## What it finds
    A compile with 1,000 or more guards on the structure of its modules, which rarely changes.

    ## Why it costs
    torch checks each of them before each run of the compiled code. The checks cost more in a model
    of many small modules than in one of a few large modules.

    ## Example
    ```python
    import torch

    net = torch.nn.Sequential(*[torch.nn.Linear(8, 8, bias=False) for _ in range(240)])
    for layer in net:
        torch.nn.init.eye_(layer.weight)

    def forward(x):
        return net(x)

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    weights = torch.nn.Parameter(torch.eye(8).repeat(240, 1, 1))

    def forward(x):
        for weight in weights:
            x = x @ weight.T
        return x

    def inputs():
        return (torch.randn(4, 8),)
    ```
    If the modules must stay, a guard filter of `torch.compiler` drops their guards.

    ## Fix safety
    The guard filters are unsafe: if a module changes after it was compiled (a replaced parameter, a
    different flag, a new hook), torch doesn't notice, and the compiled code gives the old results.
    Fewer, larger modules keep results the same.

    ## Source
    `torch/compiler/__init__.py`, 2.11 to 2.15 (`skip_guard_on_inbuilt_nn_modules_unsafe`); PyTorch
    user guide, "Reducing guard overhead" and "Regional compilation".
    """

    remedies = (FEWER_MODULES, *MODULE_FILTERS)

    def findings(self, view: RecordingView) -> Findings:
        guards = view.recording.guards
        sets = grouped(
            (view.compiles[set_.compile_id].frame_id, set_)
            for set_ in (guards.sets if guards else ())
        )
        for frame in view.recording.frames:
            largest = max(sets.get(frame.frame_id, ()), key=_internal_count, default=None)
            if largest is None or (count := _internal_count(largest)) < _MIN_STRUCTURE_GUARDS:
                continue
            modules = {node.path for node in largest.nodes if node.is_module_internal}
            yield self.finding(
                view,
                frame.entry,
                f"`{frame.name}` checks {count:,} guards on the structure of "
                f"{counted(len(modules), 'module')} in each run",
                [largest],
                count=count,
            )


def _internal_count(set_: GuardSet) -> int:
    return sum(node.is_module_internal for node in set_.nodes)


_WHY: Mapping[CacheBypassKind, str] = {
    "function": "keeps no graph with {subject}, which it doesn't know",
    "autograd_function": "keeps no graph with a `torch.autograd.Function`",
    "higher_order_operator": "keeps no graph with {subject}",
    "method": "keeps no graph with a method call that torch doesn't know",
    "checkpoint_policy": "keeps no graph with a checkpoint whose `context_fn` has no `cache_hash`",
    "custom_pass": "keeps no graph made with a custom pass that has no `uuid()`",
    "memory_budget": "keeps no graph made with an estimator or solver that has no `uuid()`",
    "freezing": "keeps no graph with frozen parameters",
    "disabled": "is turned off by a setting",
    "unpicklable": "keeps no graph with {subject}, which can't be written to disk",
    "other": "leaves it out",
}
_NAMELESS: Mapping[CacheBypassKind, str] = {
    "function": "a function",
    "higher_order_operator": "an operator that takes functions",
    "unpicklable": "an object",
}
_TORCHS: Mapping[str, str] = {
    "torch._dynamo.variables.torch.flat_apply_capture": "a function under `nonstrict_trace`",
    "torch.amp.autocast_mode._enter_autocast": "`torch.autocast`",
    "torch.nn.attention._backend_from_string": "`sdpa_kernel`",
}
"""Calls that have torch put these functions into a graph."""
_TARGETS: Mapping[CacheBypassKind, str] = {
    "autograd_function": "autograd_function_apply",
    "checkpoint_policy": "tag_activation_checkpoint",
}
"""Target of the node that keeps a graph out, where torch doesn't name it."""
_TITLES: Mapping[CacheBypassKind, str] = {
    "checkpoint_policy": (
        "Give the `context_fn` an attribute `cache_hash` that changes whenever the policy changes"
    ),
    "custom_pass": (
        "Make the pass a `torch._inductor.custom_graph_pass.CustomGraphPass` whose `uuid()` changes"
        " whenever the pass changes"
    ),
    "memory_budget": (
        "Make it a `CustomRuntimeEstimator` or `CustomKnapsackSolver` whose `uuid()` is its version"
    ),
    "disabled": "Leave `torch._inductor.config.fx_graph_cache` on",
}


class CacheBypassed(RecordingRule, code="GD403", severity="info"):
    """Graphs that torch's caches on disk leave out, so that each start makes them again.

    ## What it finds
    A graph that Inductor's cache or AOTAutograd's leaves out, with torch's reason and the line it
    is about, if torch's reason names a function or an operator. torch itself says nothing of it.
    Needs `--backend inductor`.

    ## Why it costs
    With both caches, the second start of a program takes its graphs from disk, and only Dynamo runs
    again. A graph that AOTAutograd's cache leaves out is traced by AOTAutograd and goes through
    Inductor's passes again; its kernels may still be found. What Inductor's cache leaves out is
    compiled again as a whole, at each start, on each machine and in each rank.

    ## Example
    ```python
    import torch

    ARGUMENTS = ["--backend", "inductor"]

    @torch.compiler.allow_in_graph
    def smooth(x):
        return x.sin() * x

    def forward(x):
        return smooth(x) + 1

    def inputs():
        return (torch.ones(4, 8),)
    ```

    ## Use instead
    ```python
    ARGUMENTS = ["--backend", "inductor"]

    def smooth(x):
        return x.sin() * x
    ```
    What torch can't trace can be a custom operator (`torch.library.custom_op`), which the caches
    keep. An operator that takes functions, such as `torch.cond`, is kept if
    `unsafe_marked_cacheable_functions` names it. `torch.autocast` can be around the call of the
    compiled function. For a `torch.autograd.Function` there is a setting, for a custom pass a class
    with `uuid()` (`torch._inductor.custom_graph_pass.CustomGraphPass`), for the policy of a
    selective checkpoint the attribute `cache_hash`.

    ## Fix safety
    Results stay the same while what torch can't see stays the same: a `uuid()`, a `cache_hash` or a
    value of `unsafe_marked_cacheable_functions` must change with the code that it stands for, or a
    start runs old code.

    ## Source
    `torch/_functorch/_aot_autograd/autograd_cache.py` and `torch/_inductor/codecache.py`, 2.11 to
    2.15; PyTorch tutorial, "Compile Time Caching in torch.compile".
    """

    guide = "torch/_functorch/_aot_autograd/autograd_cache.py, 2.11 to 2.15"

    def findings(self, view: RecordingView) -> Findings:
        placed = (
            ((bypass.kind, bypass.subject, view.place(*_line(bypass, view))), bypass)
            for bypass in view.recording.cache_bypasses
            if (compile_ := view.compiles.get(bypass.compile_id)) is None
            or compile_.outcome != "failed"
        )
        for (kind, name, entry), bypasses in grouped(placed).items():
            if entry is None:
                continue
            subject = _NAMELESS.get(kind, "") if name is None else _TORCHS.get(name, f"`{name}`")
            why = _WHY[kind].format(subject=subject)
            yield self.finding(
                view,
                entry,
                f"each start {_again(bypasses, view)}: torch's cache {why}",
                bypasses,
                torch_reason=bypasses[0].reason,
                subject=f"{kind} {name or ''}".strip(),
                fixes=_bypass_fixes(bypasses[0]),
            )


def _line(bypass: CacheBypass, view: RecordingView) -> tuple[str | None, int | None, str | None]:
    """Return the line of the node that torch's reason is about, if it is known, and the compile."""
    target = _TARGETS.get(bypass.kind, bypass.subject) or ""
    for graph in view.recording.graphs if target else ():
        for node in graph.nodes or () if graph.compile_id == bypass.compile_id else ():
            # Torch names a function by its module; a graph may only have the last part of that.
            is_it = node.target.rpartition(".")[2] == target.rpartition(".")[2]
            if is_it and node.opcode.startswith("call_"):
                return node.file, node.line, bypass.compile_id
    return None, None, bypass.compile_id


def _again(bypasses: Sequence[CacheBypass], view: RecordingView) -> str:
    graphs = counted(len(bypasses), "graph")
    if all(bypass.is_code_kept for bypass in bypasses):
        return f"traces {graphs} with AOTAutograd again"
    compiles = (view.compiles.get(bypass.compile_id) for bypass in bypasses)
    seconds = whole_sum(None if compile_ is None else compile_.backend_s for compile_ in compiles)
    took = "" if seconds is None else f" ({seconds:.1f} s)"
    return f"compiles {graphs} again{took}"


def _bypass_fixes(bypass: CacheBypass) -> Fixes:
    # torch looks functions up by their names.
    marked = bypass.subject if "<locals>" not in (bypass.reason or "") else None
    if (manager := _TORCHS.get(marked or "")) is not None:
        yield call_fix(f"Enter {manager} around the call of the compiled function, and not in it")
        return
    if bypass.kind == "function":
        yield code_fix(
            "Let torch trace the function: call it without `allow_in_graph` or `nonstrict_trace`"
        )
        yield code_fix(
            "Make it a custom operator: `torch.library.custom_op`",
            "PyTorch: Custom Python operators",
        )
    elif bypass.kind == "higher_order_operator":
        marked = marked and f"torch.ops.higher_order.{marked}"
    elif bypass.kind == "autograd_function":
        name = "torch._functorch.config.autograd_cache_allow_custom_autograd_functions"
        yield setting(name, "Let AOTAutograd's cache keep graphs with such functions")
    elif bypass.kind in _TITLES:
        yield code_fix(_TITLES[bypass.kind])
    if marked and bypass.kind in ("function", "higher_order_operator"):
        yield code_fix(
            f"Unsafe: name `{marked}` in"
            " `torch._inductor.config.unsafe_marked_cacheable_functions`, with a value that you"
            " change whenever the code that it stands for changes"
        )


class IgnoredCache(RecordingRule, code="GD404", severity="info"):
    """Functions whose `lru_cache` torch ignores, so compiled code recomputes their tensors.

    ## What it finds
    A call, in compiled code, of a function with a `functools.lru_cache` or `functools.cache` that
    gives tensors. Where it gives something else, such as a number, nothing is lost: torch traces it
    once.

    ## Why it costs
    torch traces the function inside and puts its operations into the graph, whatever the cache
    holds. So a table of positions or a mask that eager mode makes once is made in each call of the
    compiled code.

    ## Example
    ```python
    import functools

    import torch

    @functools.lru_cache
    def mask(size):
        return torch.ones(size, size).tril()

    def forward(x):
        return x * mask(x.shape[-1])

    def inputs():
        return (torch.ones(8, 8),)
    ```

    ## Use instead
    ```python
    def forward(x, mask):
        return x * mask

    def inputs():
        return (torch.ones(8, 8), mask(8))
    ```
    A module can keep it as a buffer: `self.register_buffer("mask", mask(8), persistent=False)`.
    Where making it takes less than reading it from memory, leave it as it is: Inductor fuses it
    into the kernel that uses it.

    ## Fix safety
    The values are the same. A tensor that is made before the call has the device and the dtype that
    it was made with.

    ## Source
    `torch/_dynamo/variables/functions.py`, 2.11 to 2.15 (`WrapperUserFunctionVariable`), which
    warns of it once.
    """

    guide = "torch/_dynamo/variables/functions.py, 2.11 to 2.15"

    def findings(self, view: RecordingView) -> Findings:
        calls = (((call.function, call.entry.at), call) for call in view.recording.ignored_caches)
        for (function, _), alike in grouped(calls).items():
            yield self.finding(
                view,
                alike[0].entry,
                f"compiled code computes what `{function}` returns in each call: torch ignores its"
                " lru_cache",
                alike,
                subject=function,
                fixes=[
                    code_fix(
                        f"Call `{function}` before the compiled code, and pass what it returns"
                    )
                ],
            )
