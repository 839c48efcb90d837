"""GD403: graphs that torch's caches on disk leave out, so that each start makes them again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.facts.kernels import CacheBypass, CacheBypassKind
from graphdoctor.facts.recording import Compile, Graph, GraphNode, Recording
from graphdoctor.facts.run import Setting
from graphdoctor.facts.stack import StackEntry
from graphdoctor.facts.wording import counted
from graphdoctor.rules.diagnosis.frames import frame_entry, frame_of, line_entry
from graphdoctor.rules.diagnosis.rule import RecordingRule, RecordingView, RuleMatch
from graphdoctor.rules.diagnosis.suggestions import from_setting

_SOURCE = "torch/_functorch/_aot_autograd/autograd_cache.py, 2.13"
_CUSTOM_OP = "PyTorch: Custom Python operators"
_WHY: Mapping[CacheBypassKind, str] = {
    "function": "keeps no graph with {subject}, which torch can't see into",
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
_TARGETS: Mapping[CacheBypassKind, str] = {
    "autograd_function": "autograd_function_apply",
    "checkpoint_policy": "tag_activation_checkpoint",
}
"""What the node that keeps a graph out calls, where torch doesn't name it."""


class CacheBypassed(RecordingRule, code="GD403", name="cache-bypassed", severity="info"):
    """Graphs that torch's caches on disk leave out, so that each start makes them again.

    ## What it finds
    A graph that Inductor's cache or AOTAutograd's leaves out, with torch's reason and the line it is about, if torch's
    reason names a function or an operator. torch itself says nothing of it. Needs `--backend inductor`.

    ## Why it costs
    With both caches, the second start of a program takes its graphs from disk, and only Dynamo runs again. A graph that
    AOTAutograd's cache leaves out is traced by AOTAutograd and goes through Inductor's passes again; its kernels may
    still be found. What Inductor's cache leaves out is compiled again as a whole, at each start, on each machine and in
    each rank.

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
    import torch

    ARGUMENTS = ["--backend", "inductor"]

    def smooth(x):
        return x.sin() * x

    def forward(x):
        return smooth(x) + 1

    def inputs():
        return (torch.ones(4, 8),)
    ```
    What torch can't trace can be a custom operator (`torch.library.custom_op`), which the caches keep. For a
    `torch.autograd.Function` there is a setting, for a custom pass a class with `uuid()`
    (`torch._inductor.custom_graph_pass.CustomGraphPass`), for the policy of a selective checkpoint the attribute
    `cache_hash`.

    ## Fix safety
    Results stay the same while what torch can't see stays the same: a `uuid()`, a `cache_hash` or a value of
    `unsafe_marked_cacheable_functions` must change with the code that it stands for, or a start runs old code.

    ## Source
    `torch/_functorch/_aot_autograd/autograd_cache.py` and `torch/_inductor/codecache.py`, 2.13; PyTorch tutorial,
    "Compile Time Caching in torch.compile".
    """

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        recording = view.recording
        compiles: dict[str | None, Compile] = {compile_.compile_id: compile_ for compile_ in recording.compiles}
        graphs: dict[str | None, list[Graph]] = defaultdict(list)
        for graph in recording.graphs:
            graphs[graph.compile_id].append(graph)
        groups: dict[tuple[CacheBypassKind, str | None, StackEntry], list[CacheBypass]] = {}
        for bypass in recording.cache_bypasses:
            entry = _entry(bypass, recording, graphs[bypass.compile_id])
            if entry is not None:
                groups.setdefault((bypass.kind, bypass.subject, entry), []).append(bypass)
        return tuple(_match(found, entry, compiles) for (_, _, entry), found in groups.items())


def _match(found: Sequence[CacheBypass], entry: StackEntry, compiles: Mapping[str | None, Compile]) -> RuleMatch:
    first = found[0]
    subject = f"`{first.subject}`" if first.subject is not None else _NAMELESS.get(first.kind, "")
    ids = tuple(dict.fromkeys(bypass.compile_id for bypass in found if bypass.compile_id is not None))
    return RuleMatch(
        entry=entry,
        message=f"each start {_again(found, compiles)}: torch's cache {_WHY[first.kind].format(subject=subject)}",
        count=len(found),
        compile_ids=ids,
        torch_reason=first.reason,
        subject=f"{first.kind} {first.subject or ''}".strip(),
        fixes=_fixes(first),
    )


def _again(found: Sequence[CacheBypass], compiles: Mapping[str | None, Compile]) -> str:
    graphs = counted(len(found), "graph")
    if all(bypass.is_code_kept for bypass in found):
        return f"traces {graphs} with AOTAutograd again"
    times = (compiles[bypass.compile_id].backend_s for bypass in found if bypass.compile_id in compiles)
    known = [seconds for seconds in times if seconds is not None]
    took = f" ({sum(known):.1f} s)" if len(known) == len(found) else ""
    return f"compiles {graphs} again{took}"


def _entry(bypass: CacheBypass, recording: Recording, graphs: Sequence[Graph]) -> StackEntry | None:
    """The line of the node that torch's reason is about; else the function, or that of the largest graph."""
    wanted = _TARGETS.get(bypass.kind, bypass.subject)
    nodes = (node for graph in graphs for node in graph.nodes or ())
    node = next((node for node in nodes if wanted is not None and _calls(node, wanted)), None)
    entry = None if node is None else line_entry(recording, node.file, node.line)
    if entry is not None:
        return entry
    frame = frame_of(recording, bypass.compile_id)
    return None if frame is None else frame_entry(frame)


def _calls(node: GraphNode, wanted: str) -> bool:
    """Torch names a function by its module; a graph may only have the last part of that."""
    name = node.target.rpartition(".")[2]
    return node.opcode.startswith("call_") and (node.target == wanted or name == wanted.rpartition(".")[2])


def _fixes(bypass: CacheBypass) -> tuple[Fix, ...]:
    match bypass.kind:
        case "function":
            name = bypass.subject or "the function"
            return (
                _in_words("Let torch trace the function: call it without `allow_in_graph`", _SOURCE),
                _in_words("Make it a custom operator: `torch.library.custom_op`", _CUSTOM_OP),
                _in_words(
                    f"Unsafe: name `{name}` in `torch._inductor.config.unsafe_marked_cacheable_functions`, with a "
                    "value that you change whenever the function changes",
                    _SOURCE,
                ),
            )
        case "autograd_function":
            allowed = Setting(name="torch._functorch.config.autograd_cache_allow_custom_autograd_functions", value=True)
            return (from_setting(allowed, "Let AOTAutograd's cache keep graphs with such functions", source=_SOURCE),)
        case "checkpoint_policy":
            title = "Give the `context_fn` an attribute `cache_hash` that changes whenever the policy changes"
        case "custom_pass":
            title = (
                "Make the pass a `torch._inductor.custom_graph_pass.CustomGraphPass` whose `uuid()` changes whenever "
                "the pass changes"
            )
        case "memory_budget":
            title = "Make it a `CustomRuntimeEstimator` or `CustomKnapsackSolver` whose `uuid()` is its version"
        case "disabled":
            title = "Leave `torch._inductor.config.fx_graph_cache` on"
        case _:
            return ()
    return (_in_words(title, _SOURCE),)


def _in_words(title: str, source: str) -> Fix:
    return Fix(title=title, kind="code", source=source)
