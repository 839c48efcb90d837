"""Reads what is known below Dynamo: kernels, CUDA graphs, and caches on disk."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from graphdoctor.facts.base import Fact, Fields, grouped
from graphdoctor.facts.evidence import AskedCache, CacheAnswer, CacheState
from graphdoctor.facts.kernels import (
    CacheBypass,
    CacheBypassKind,
    CacheUse,
    CudaGraphs,
    CudaGraphSkipKind,
)
from graphdoctor.facts.profiled import (
    Calibration,
    InductorGraph,
    InductorKernel,
    InductorKernelKind,
    InductorOperation,
    KeptTensor,
    KernelRun,
    MatchedRun,
    Partition,
    Profiled,
    ProfiledCall,
)
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import Graph, GraphInput
from graphdoctor.trace.events import Events
from graphdoctor.trace.origin import PlaceReader

_NO_DEVICE = "there is no CUDA device"
_ON_CPU = "the graph runs on the CPU"

_KINDS: Mapping[CudaGraphSkipKind, tuple[str, ...]] = {
    "mutation": ("mutated inputs", "input storage mutation"),
    "cpu_device": ("cpu device", "cpu ops", "DeviceCopy ops", "cross-device ops"),
    "several_devices": ("multiple devices",),
    "dynamic_shapes": ("symbolic shapes", "dynamic shape ops"),
    "incompatible_op": (
        "incompatible op",
        "control flow operator",
        "not compatible with CUDA graphs",
        "sparsity not handled",
        "Conditional ops",
        "Switch ops",
        "unbacked binding ops",
        "CUDAGraph-unsafe custom ops",
    ),
    "non_tensor_input": ("non-Tensor inputs",),
    "rerecording": ("re-recording limit",),
    "disabled": ("custom partition op", "override_cudagraphs", "cpp-wrapper", "uncached"),
}
"""Kinds of torch's reasons, by words that they contain (``torch/_inductor/cudagraph_utils.py``,
``output_code.py``, ``compile_fx.py``, ``lowering.py``, ``scheduler.py`` and ``cudagraph_trees.py``,
2.11 to 2.15)."""

_PLACEHOLDER = re.compile(r"arg(\d+)_1|primals_(\d+)")
_STACK = "Found from"
_STACK_LINE = re.compile(r'^\s*File "(.*?)", line (\d+)', re.MULTILINE)

_CACHES: tuple[AskedCache, ...] = ("fx_graph_cache", "aotautograd_cache")
_STATES: tuple[CacheState, ...] = ("hit", "miss", "bypass")
CACHE_RECORDS: Mapping[str, tuple[AskedCache, CacheState]] = {
    f"{cache}_{state}": (cache, state) for cache in _CACHES for state in _STATES
}
"""torch's records of what a cache did (``torch/_inductor/compile_fx.py`` and
``torch/_functorch/_aot_autograd/autograd_cache.py``, 2.13)."""


_TARGET = "Unsupported call_function target "
_BYPASSES: Mapping[str, CacheBypassKind] = {
    rf"{_TARGET}.*\b(?:autograd_function_apply|FunctionCtx)\b": "autograd_function",
    r"HigherOrderOperator: autograd_function_apply\b": "autograd_function",
    r"HigherOrderOperator: (?P<name>\w+)": "higher_order_operator",
    rf"{_TARGET}.*module: torch\.ops\.higher_order,\s+Function name: (?P<name>\w+)": (
        "higher_order_operator"
    ),
    rf"{_TARGET}.*module: (?P<module>\S+),\s+Function name: (?P<name>\w+)": "function",
    rf"{_TARGET}(?:<(?:built-in )?(?:function|method) )?(?P<name>[\w.]+)": "function",
    r"Unsupported call_method": "method",
    r"context_fn does not have a cache_hash": "checkpoint_policy",
    r"Unsupported (?:.* custom pass|_\w+_pass)": "custom_pass",
    r"CustomRuntimeEstimator|CustomKnapsackSolver": "memory_budget",
    r"freezing enabled|frozen constants|constant folding": "freezing",
    r"FX graph cache is not enabled": "disabled",
    r"unpicklable type (?P<name>\S+)": "unpicklable",
    r"pickle non-standard op: (?P<name>[\w.:]+)": "unpicklable",
    r"Failed to pickle|mkldnn tensors|torchbind objects": "unpicklable",
}
"""Kinds of torch's reasons, by patterns that they match
(``torch/_functorch/_aot_autograd/autograd_cache.py``, ``torch/_inductor/codecache.py`` and
``torch/fx/_graph_pickler.py``, 2.11 to 2.13)."""


def cuda_graphs(events: Events, graphs: Iterable[Graph]) -> CudaGraphs | None:
    """Return what became of CUDA graphs; None if none were asked for."""
    if "cuda_graphs" not in events:
        return None
    event = events.fields("cuda_graphs")
    has_device = event.pop("has_device")
    functions = event.get("functions")
    inputs = {graph.compile_id: graph.inputs or () for graph in graphs}
    fields = {
        "skipped": [_skip(record, has_device=has_device) for record in event["skipped"]],
        "left_out": [_skip(record, has_device=True) for record in event.get("left_out", ())],
        "functions": functions
        and [_function(function, inputs.get(function["compile_id"], ())) for function in functions],
    }
    return read_fact(CudaGraphs, event | fields)


def _function(record: Fields, inputs: Sequence[GraphInput]) -> Fields:
    copied, moved = (
        [
            {
                "placeholder": item["placeholder"],
                "bytes": item["bytes"],
                "source": source_of(item["placeholder"], item["shape"], inputs),
            }
            for item in record[name]
        ]
        for name in ("copied", "moved")
    )
    mutated = [source_of(placeholder, None, inputs) for placeholder in record["mutated"]]
    mutated = [source for source in mutated if source is not None]
    return {**record, "copied": copied, "moved": moved, "mutated": mutated}


def source_of(
    placeholder: str, shape: Sequence[int] | None, inputs: Sequence[GraphInput]
) -> str | None:
    """The source of the input of Dynamo's graph that a placeholder of AOTAutograd's is; None if
    unknown.

    AOTAutograd numbers them in the same order, ``arg0_1`` or ``primals_1`` being the first. It can
    drop one that is given twice, so the shape must fit, too, where it is known.
    """
    number = _PLACEHOLDER.fullmatch(placeholder)
    if number is None:
        return None
    at = int(number[1]) if number[1] else int(number[2]) - 1
    if not 0 <= at < len(inputs):
        return None
    expected = inputs[at].shape
    if shape is None:
        return inputs[at].source
    if expected is None or len(expected) != len(shape):
        return None
    pairs = zip(expected, shape, strict=True)
    is_fitting = all(isinstance(size, str) or size == other for size, other in pairs)
    return inputs[at].source if is_fitting else None


def _skip(record: Fields, *, has_device: bool) -> Fields:
    reason = record.get("reason")
    compile_id = record.get("compile_id")
    if reason is None:
        # torch says nothing of a graph that has no CUDA device.
        kind, reason = ("cpu_graph", _ON_CPU) if has_device else ("no_device", _NO_DEVICE)
        return {"kind": kind, "reason": reason, "compile_id": compile_id}
    before, has_stack, _ = reason.partition(_STACK)
    words = before if has_stack else reason.partition("\n")[0]
    file, line = (_STACK_LINE.findall(reason) or [(None, None)])[-1]
    return {
        "kind": skip_kind(reason),
        "reason": words.strip(" .\n"),
        "compile_id": compile_id,
        "file": file,
        "line": line and int(line),
    }


def skip_kind(reason: str) -> CudaGraphSkipKind:
    """Return the meaning of a reason of torch's."""
    fitting = (kind for kind, texts in _KINDS.items() if any(text in reason for text in texts))
    return next(fitting, "other")


def cache_use(*processes: Iterable[CacheAnswer]) -> CacheUse | None:
    """Return what the caches did in several processes, each graph counted once; None if no cache
    was asked.

    A graph asks AOTAutograd's cache, and Inductor's for its forward and its backward if that has
    none.
    """
    states: Counter[str] = Counter()
    reasons: dict[str, None] = {}
    for graph in (graph for records in processes for graph in _by_graph(records)):
        of_inductor = [record.state for record in graph if record.cache == "fx_graph_cache"]
        # The worst that was said of it.
        state = max(of_inductor or [record.state for record in graph], key=_STATES.index)
        states[state] += 1
        if state == "bypass":
            reasons |= {record.reason: None for record in graph if record.reason}
    if not states:
        return None
    return CacheUse(
        hits=states["hit"],
        misses=states["miss"],
        bypasses=states["bypass"],
        bypass_reasons=tuple(reasons),
    )


def cache_bypasses(records: Iterable[CacheAnswer]) -> tuple[CacheBypass, ...]:
    """Return why the caches leave graphs out, one for each reason of each graph."""
    bypasses: list[CacheBypass] = []
    for graph in _by_graph(records):
        of_inductor = [record.state for record in graph if record.cache == "fx_graph_cache"]
        is_code_kept = bool(of_inductor) and "bypass" not in of_inductor
        reasons: dict[tuple[CacheBypassKind, str | None], CacheAnswer] = {}
        for record in graph:
            if record.state == "bypass":
                reasons.setdefault(bypass_kind(record.reason or ""), record)
        bypasses += (
            CacheBypass(
                compile_id=record.compile_id,
                kind=kind,
                subject=subject,
                reason=record.reason,
                is_code_kept=is_code_kept,
            )
            for (kind, subject), record in reasons.items()
        )
    return tuple(bypasses)


def bypass_kind(reason: str) -> tuple[CacheBypassKind, str | None]:
    """Return what a reason of torch's for leaving a graph out of a cache means, and whom it
    names.
    """
    for pattern, kind in _BYPASSES.items():
        if (match := re.search(pattern, reason, re.DOTALL)) is not None:
            parts = {"module": None, "name": None} | match.groupdict()
            return kind, ".".join(filter(None, (parts["module"], parts["name"]))) or None
    return "other", None


def _by_graph(records: Iterable[CacheAnswer]) -> list[list[CacheAnswer]]:
    graphs = []
    latest: dict[str | None, list[CacheAnswer]] = {}
    for record in records:
        # DDP's optimizer makes several graphs in one compile; AOTAutograd's cache is asked once for
        # each.
        is_asked_again = record.cache == "aotautograd_cache" and any(
            earlier.cache == record.cache for earlier in latest.get(record.compile_id, ())
        )
        if record.compile_id not in latest or is_asked_again:
            latest[record.compile_id] = []
            graphs.append(latest[record.compile_id])
        latest[record.compile_id].append(record)
    return graphs


_Fact = TypeVar("_Fact", bound=Fact)

_OF_GRAPH = re.compile(r"graph_\d+_(?=cpp_)")
"""Prefix that the profiler puts before the name of a kernel in C++
(``torch/_inductor/codegen/cpp.py``, 2.13)."""

_OVERLOAD = re.compile(r"\.(default|out|\w+_out)$")
_GENERATED: tuple[InductorKernelKind, ...] = ("pointwise", "reduction", "template")
LIBRARY = ("extern_kernels.", "torch.ops.", "aten.", "inductor_ops.")
"""Prefixes of library functions in generated code; its header defines the last two."""


def matched_runs(call: ProfiledCall, graphs: Sequence[InductorGraph]) -> Iterator[MatchedRun]:
    """Each run of a kernel, graph by graph, with the call in the generated code that it is."""
    index = {(graph.graph, graph.phase): number for number, graph in enumerate(graphs)}
    for run, numbers in grouped(
        (kernel.run, number) for number, kernel in enumerate(call.kernels)
    ).items():
        graph_run = None if run is None else call.runs[run]
        graph = None if graph_run is None else index.get((graph_run.graph, graph_run.phase))
        if graph is None:
            yield from (MatchedRun(run=number, us=call.kernels[number].us) for number in numbers)
        else:
            yield from _matched(numbers, call.kernels, graph, graphs[graph].kernels)


def _matched(
    runs: Sequence[int], kernels: Sequence[KernelRun], graph: int, calls: Sequence[InductorKernel]
) -> Iterator[MatchedRun]:
    """The runs of one graph; between two generated kernels are those of the calls between the
    two.
    """

    def match(run: int, call: int | None, parts: int = 1) -> MatchedRun:
        return MatchedRun(
            run=run, us=kernels[run].us / parts, graph=None if call is None else graph, kernel=call
        )

    def between(end: int) -> Iterator[MatchedRun]:
        left = list(range(done, end))
        taken = set()
        launch = launched = None
        unknown = []
        for run in waiting:
            kernel = kernels[run]
            if kernel.operation is None:
                unknown.append(run)
                continue
            # One call can run several kernels.
            if kernel.launch is None or kernel.launch != launch:
                launch = kernel.launch
                name = base_name(kernel.operation)
                launched = next(
                    (call for call in left if base_name(calls[call].name) == name), None
                )
                if launched is not None:
                    taken.add(launched)
                    # What stands before it in the code ran before it.
                    left = [call for call in left if call > launched]
            yield match(run, launched)
        left = [
            call
            for call in range(done, end)
            if call not in taken and calls[call].kind not in _GENERATED
        ]
        if len(unknown) == len(left):
            yield from map(match, unknown, left)
            return
        for run in unknown:
            # Nothing on the host is known of it: all calls share it.
            yield from (match(run, call, len(left)) for call in left)
            if not left:
                yield match(run, None)

    done = 0
    waiting: list[int] = []
    for run in runs:
        name = _OF_GRAPH.sub("", kernels[run].name)
        at = next((at for at in range(done, len(calls)) if calls[at].name == name), None)
        if at is not None:
            yield from between(at)
            yield match(run, at)
            waiting = []
            done = at + 1
        elif kernels[run].kind == "generated":
            yield match(run, None)
        else:
            waiting.append(run)
    yield from between(len(calls))


def base_name(name: str) -> str:
    """An operation's name without namespace and overload, such as ``addmm``."""
    for prefix in LIBRARY:
        name = name.removeprefix(prefix)
    return re.split(r"::|\.", _OVERLOAD.sub("", name))[-1]


def inductor_graph(value: Fields, compile_id: str | None, place: PlaceReader) -> InductorGraph:
    """A graph for which Inductor generated code."""
    stacks = [
        tuple(entry for line in stack if (entry := place(*line)) is not None)
        for stack in value["stacks"]
    ]

    def facts(kind: type[_Fact], items: Iterable[Fields]) -> tuple[_Fact, ...]:
        fields = (
            {**item, "stack": () if item["stack"] is None else stacks[item["stack"]]}
            for item in items
        )
        return tuple(read_fact(kind, item, skips_unknown=True) for item in fields)

    partition = value.get("partition")
    if partition is not None:
        fields = {name: partition[name] for name in ("recomputed", "draws_random")}
        partition = Partition(saved=facts(KeptTensor, partition["saved"]), **fields)
    return InductorGraph(
        graph=value["graph"],
        phase=value["phase"],
        compile_id=compile_id,
        operations=facts(InductorOperation, value["operations"]),
        kernels=tuple(
            read_fact(InductorKernel, item, skips_unknown=True) for item in value["kernels"]
        ),
        partition=partition,
    )


def profiled_call(events: Events, graphs: Iterable[InductorGraph]) -> Profiled | None:
    """Return what a profile recorded; None for any other run, and if the call wasn't profiled."""
    call = events.fact("profiled_call", ProfiledCall)
    inductor_graphs = tuple(graphs)
    if call is None:
        return None
    measured = events.fields("calibration")
    return Profiled(
        call=call,
        graphs=inductor_graphs,
        matched=tuple(matched_runs(call, inductor_graphs)),
        calibration=read_fact(Calibration, measured) if measured else None,
    )
