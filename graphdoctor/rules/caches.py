"""Rules about caches: GD403, GD404."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphdoctor.facts.base import whole_sum
from graphdoctor.facts.kernels import CacheBypass, CacheBypassKind
from graphdoctor.rules.toolkit import (
    Findings,
    Fixes,
    RecordingRule,
    RecordingView,
    call_fix,
    code_fix,
    counted,
    grouped,
    setting,
)

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
    "checkpoint_policy": "Give the `context_fn` an attribute `cache_hash` that changes whenever the policy changes",
    "custom_pass": "Make the pass a `torch._inductor.custom_graph_pass.CustomGraphPass` whose `uuid()` changes "
    "whenever the pass changes",
    "memory_budget": "Make it a `CustomRuntimeEstimator` or `CustomKnapsackSolver` whose `uuid()` is its version",
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
    `torch/_functorch/_aot_autograd/autograd_cache.py` and `torch/_inductor/codecache.py`, 2.13;
    PyTorch tutorial, "Compile Time Caching in torch.compile".
    """

    guide = "torch/_functorch/_aot_autograd/autograd_cache.py, 2.13"

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
                fixes=_fixes(bypasses[0]),
            )


def _line(bypass: CacheBypass, view: RecordingView) -> tuple[str | None, int | None, str | None]:
    """Return the line of the node that torch's reason is about, if it is known, and the compile."""
    wanted = _TARGETS.get(bypass.kind, bypass.subject) or ""
    for graph in view.recording.graphs if wanted else ():
        for node in graph.nodes or () if graph.compile_id == bypass.compile_id else ():
            # Torch names a function by its module; a graph may only have the last part of that.
            is_it = node.target.rpartition(".")[2] == wanted.rpartition(".")[2]
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


def _fixes(bypass: CacheBypass) -> Fixes:
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
            f"Unsafe: name `{marked}` in `torch._inductor.config.unsafe_marked_cacheable_functions`, with a value that "
            "you change whenever the code that it stands for changes"
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
    `torch/_dynamo/variables/functions.py`, 2.13 (`WrapperUserFunctionVariable`), which warns of it
    once.
    """

    guide = "torch/_dynamo/variables/functions.py, 2.13"

    def findings(self, view: RecordingView) -> Findings:
        calls = (((call.function, call.entry.at), call) for call in view.recording.ignored_caches)
        for (function, _), alike in grouped(calls).items():
            yield self.finding(
                view,
                alike[0].entry,
                f"compiled code computes what `{function}` returns in each call: torch ignores its lru_cache",
                alike,
                subject=function,
                fixes=[
                    code_fix(
                        f"Call `{function}` before the compiled code, and pass what it returns"
                    )
                ],
            )
