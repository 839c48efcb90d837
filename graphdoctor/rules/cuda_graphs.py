"""Rules about CUDA graphs: GD504, GD505, GD511."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from graphdoctor.facts.diagnosis import Cost
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.kernels import (
    NOTABLE_COPIES,
    CudaGraphFunction,
    CudaGraphSkip,
    CudaGraphSkipKind,
)
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.toolkit import (
    CUDA_GRAPHS,
    Findings,
    Fixes,
    RecordingRule,
    RecordingView,
    call_fix,
    code_fix,
    compile_argument,
    config_fix,
    counted,
    grouped,
    names,
    percent,
    setting,
)

_WHY: dict[CudaGraphSkipKind, str] = {
    "no_device": "there is no CUDA device",
    "cpu_graph": "all of it runs on the CPU",
    "mutation": "it writes to an input",
    "cpu_device": "it uses a tensor on the CPU",
    "several_devices": "its tensors are on several devices",
    "dynamic_shapes": "its sizes are dynamic",
    "incompatible_op": "CUDA graphs don't support an operation in it",
    "non_tensor_input": "an input isn't a tensor",
    "rerecording": "the addresses of its tensors keep changing",
    "disabled": "a setting turns CUDA graphs off for it",
}
_WHY_SPLIT: dict[CudaGraphSkipKind, str] = {
    "cpu_device": "an operation runs on the CPU, or copies from or to it",
    "dynamic_shapes": "an operation has dynamic sizes",
    "incompatible_op": "CUDA graphs can't have an operation in it",
    "disabled": "a setting leaves an operation out",
}
_HOW: dict[CudaGraphSkipKind, tuple[str, ...]] = {
    "mutation": (
        "Return the new value, and write it to the input outside the compiled function",
        "Make the tensor a buffer of the module that is compiled: self.register_buffer",
    ),
    "cpu_device": ("Create the tensor on the GPU, or move it there before the call",),
    "several_devices": ("Compile what runs on each device on its own",),
    "dynamic_shapes": ("Pad inputs to a few fixed sizes, and compile with dynamic=False",),
    "incompatible_op": (
        "Move the operation out of the compiled function, or use one with a fixed result size",
    ),
    "non_tensor_input": ("Pass it as a tensor, or read it from the module",),
    "rerecording": ("Pass the same tensors in every call, and write new values into them",),
}
_NO_DEVICE = "CUDA graphs were asked for, but"
_SKIP_DYNAMIC = "torch._inductor.config.triton.cudagraph_skip_dynamic_graphs"
_IN_PLACE = re.compile(
    r".*(?<!_)_|_?operator\.(setitem|i(add|sub|mul|matmul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift))"
)
"""torch's names for operations in place end so; Python's are ``x[i] = y`` and ``x += y``."""
_MAX_SIZES = 8
"""torch warns above that (``cudagraph_dynamic_shape_warn_limit``, ``torch/_inductor/config.py``,
2.13)."""


class CudaGraphsSkipped(RecordingRule, code="GD504"):
    """A graph that torch doesn't record as a CUDA graph, although it was asked to.

    ## What it finds
    With `mode="reduce-overhead"`, `mode="max-autotune"` or another way to ask for CUDA graphs: a
    graph that torch runs without one, or an operation that it leaves out of one, and torch's
    reason. torch itself only logs a warning, for an operation only at the level of debugging, and
    for a graph without a CUDA device nothing.

    ## Why it costs
    The mode was chosen to launch all kernels of a graph at once. Without it, the host launches each
    kernel, as in the default mode. A forward graph that is skipped takes its backward graph along.
    An operation that is left out splits the graph: torch launches one CUDA graph before it and one
    after it.

    ## Example
    ```python
    import torch

    ARGUMENTS = ["--mode", "reduce-overhead", "--device", "cuda"]

    def forward(x, seen):
        seen.add_(x)
        return seen.sin() * x

    def inputs():
        return (torch.ones(64, 64), torch.zeros(64, 64))
    ```

    ## Use instead
    ```python
    ARGUMENTS = ["--mode", "reduce-overhead", "--device", "cuda"]

    def forward(x, seen):
        seen = seen + x
        return seen.sin() * x
    ```
    A CUDA graph works on tensors of its own: a value that it writes to its copy of an input would
    be lost. Parameters and buffers of modules, and what an earlier CUDA graph returned, aren't
    copied, so it may write to them.

    ## Fix safety
    Returning a value instead of writing it is safe if the caller writes it. A buffer is safe if
    nothing else replaces the tensor. `torch._dynamo.mark_static_address` says the same of an
    argument, but torch 2.11 skips the graph all the same.

    On a machine with a GPU, `graphdoctor fix` tries these: an input that stays where it is, tensors
    made on the GPU and not moved there, CPU arguments moved before the call, and torch's settings
    for split graphs and dynamic sizes. A fix counts only if torch says that it records more
    and skips less than before. Without a GPU, none can be tried.

    ## Source
    PyTorch user guide, "CUDA Graph Trees"; `torch/_inductor/cudagraph_utils.py`, 2.11 to 2.15.
    """

    guide = CUDA_GRAPHS

    def findings(self, view: RecordingView) -> Findings:
        if (graphs := view.recording.cuda_graphs) is not None:
            yield from self._of(graphs.skipped, view, "torch doesn't record a CUDA graph", _WHY)
            yield from self._of(graphs.left_out, view, "torch splits a CUDA graph", _WHY_SPLIT)

    def _of(
        self,
        every: Iterable[CudaGraphSkip],
        view: RecordingView,
        what: str,
        reasons: Mapping[CudaGraphSkipKind, str],
    ) -> Findings:
        """Yield a finding for each kind at each line."""
        for skips in grouped(((skip.kind, skip.file, skip.line), skip) for skip in every).values():
            first = skips[0]
            entry = view.place(first.file, first.line, first.compile_id)
            why = reasons.get(first.kind, "see torch's reason")
            if first.kind == "mutation" and (written := _written(view.recording)):
                why = f"it writes to {names(map(expression, written))}"
                if view.line(first.file, first.line) is None:
                    lines = (line for source in written for line in _writes(view, source))
                    entry = next(lines, entry)
            if entry is None:
                continue
            yield self.finding(
                view,
                entry,
                f"{_NO_DEVICE if first.kind == 'no_device' else f'{what}:'} {why}",
                skips,
                torch_reason=first.reason,
                severity=self.severity if first.is_on_gpu else "info",
                subject=f"{what} {first.kind}",
                fixes=_fixes(
                    first.kind,
                    view.recording.target.compile_arguments.get("mode"),
                    is_whole=reasons is _WHY,
                ),
                cuda_graph_skip=first,
            )


def _functions(recording: Recording) -> tuple[CudaGraphFunction, ...]:
    graphs = recording.cuda_graphs
    return (graphs.functions or ()) if graphs is not None else ()


def _written(recording: Recording) -> tuple[str, ...]:
    """Return the inputs that a graph writes to; empty if several graphs do, or it is unknown."""
    written = [function.mutated for function in _functions(recording) if function.mutated]
    return written[0] if len(written) == 1 else ()


def _writes(view: RecordingView, source: str) -> Iterator[StackEntry]:
    """Yield the lines at which the program writes to an input in place, for a graph of which torch
    says no line.
    """
    for graph in view.recording.graphs:
        placeholders = {item.name for item in graph.inputs or () if item.source == source}
        for node in graph.nodes or ():
            is_write = node.opcode.startswith("call_") and _IN_PLACE.fullmatch(node.target)
            if is_write and not placeholders.isdisjoint((node.inputs or ())[:1]):
                entry = view.line(node.file, node.line)
                if entry is not None:
                    yield entry


def _fixes(kind: CudaGraphSkipKind, mode: object, *, is_whole: bool) -> Fixes:
    if kind in ("no_device", "cpu_graph"):
        # On a CPU too, "max-autotune" tries kernels that the default mode doesn't.
        argument = (
            'mode="max-autotune-no-cudagraphs"' if mode == "max-autotune" else 'mode="default"'
        )
        title = f"Compile with {argument}: it does the same here"
        yield compile_argument(argument, title, is_safe=True)
    if kind == "dynamic_shapes":
        # Its default; the program turned it on.
        title = "Let torch record a CUDA graph for each size"
        yield setting(_SKIP_DYNAMIC, title, value=False, is_safe=True)
    yield from map(code_fix, _HOW.get(kind, ()))
    if kind in ("cpu_device", "incompatible_op") and is_whole:
        # Its default; the program turned it off.
        title = "Let torch split the graph, and record what is before and after the operation"
        yield setting("torch._inductor.config.graph_partition", title, is_safe=True)


class CudaGraphInputs(RecordingRule, code="GD505"):
    """Inputs of CUDA graphs that are copied in every call.

    ## What it finds
    A steady call that spends 10% or more of its time on copying inputs into the memory of CUDA
    graphs. On a GPU, `explain` with such a mode and `bench` measure it.

    ## Why it costs
    A CUDA graph reads its inputs at the addresses that it was recorded with. torch copies each
    input there before it launches the graph, except parameters, buffers and what other CUDA graphs
    return. In a call of 663 µs on an H100, these copies took 85 µs.

    ## Example
    ```python
    import torch

    ARGUMENTS = ["--mode", "reduce-overhead", "--device", "cuda"]

    def forward(x, y):
        return x + y

    def inputs():
        return (torch.ones(4096, 4096), torch.ones(4096, 4096))
    ```

    ## Use instead
    ```python
    ARGUMENTS = ["--backend", "inductor", "--device", "cuda"]
    ```
    The default mode copies nothing. Or keep CUDA graphs, pass the same tensors in every call, write
    new values into them, and mark them before the first call with
    `torch._dynamo.mark_static_address(x)`: then torch doesn't copy them.

    ## Fix safety
    The default mode gives the same results. If a marked tensor has another address, torch records
    the CUDA graph again.

    ## Source
    `torch/_inductor/cudagraph_trees.py`, 2.11 to 2.15 (`_copy_inputs_and_remove_from_src`);
    `torch/_dynamo/decorators.py`, 2.11 to 2.15 (`mark_static_address`).
    """

    guide = CUDA_GRAPHS
    remedies = (
        call_fix(
            "Pass the same tensors in every call, write new values into them, and mark them before"
            " the first call: torch._dynamo.mark_static_address",
            "torch/_dynamo/decorators.py, 2.11 to 2.15",
        ),
        code_fix(
            "Let what makes the inputs be part of the compiled function, so that they never leave"
            " the CUDA graph"
        ),
    )

    def findings(self, view: RecordingView) -> Findings:
        kernels, frame = view.recording.kernels, view.main_frame
        if kernels is None or frame is None or not kernels.graph_launches:
            return
        copy_us = kernels.graph_input_copy_us or 0.0
        share = copy_us / kernels.call_us
        if share >= NOTABLE_COPIES:
            copied = _copied(view.recording)
            yield self.finding(
                view,
                frame.entry,
                f"copying {copied} into the memory of CUDA graphs takes {percent(share)} of a"
                " steady call",
                count=kernels.graph_launches,
                cost=Cost(call_us=copy_us, call_from="profile", share=share),
            )


def _copied(recording: Recording) -> str:
    """Return the inputs that are copied, the largest first, as far as their names are known."""
    copied = [item for function in _functions(recording) for item in function.copied]
    sources = [item.source for item in sorted(copied, key=lambda item: -item.bytes)]
    if not sources or None in sources:
        return "inputs"
    return names(expression(source or "") for source in sources)


class CudaGraphRecordings(RecordingRule, code="GD511"):
    """A function that torch records as a CUDA graph again and again.

    ## What it finds
    With CUDA graphs: a compiled function that was called with more than 8 sizes of its inputs, each
    of which gets a CUDA graph of its own; or one that was recorded again for the same size, because
    a parameter or another static input moved to a new address, or because tensors that an earlier
    call returned were still in use.

    ## Why it costs
    The first call with a new size runs without a CUDA graph, and the second one records it: both
    take much longer than a launch. Each CUDA graph also keeps memory. torch warns above 8 sizes,
    and says nothing of new addresses until it gives up after 128.

    ## Example
    ```python
    import torch

    ARGUMENTS = ["--mode", "reduce-overhead", "--device", "cuda"]

    def forward(x):
        return torch.relu(x).sum()

    def inputs():
        return [(torch.ones(size, 64),) for size in range(2, 22)]
    ```

    ## Use instead
    ```python
    ARGUMENTS = ["--mode", "reduce-overhead", "--device", "cuda"]

    def inputs():
        rows = [torch.ones(size, 64) for size in range(2, 22)]
        return [(torch.nn.functional.pad(x, (0, 0, 0, 32 - len(x))),) for x in rows]
    ```
    With inputs padded to a few sizes, there are only a few CUDA graphs. For static inputs that
    move: write new values into the same tensor, as in `parameter.copy_(value)`, instead of putting
    another tensor in its place.

    ## Fix safety
    Padding is safe if the padded elements don't change the result. Without CUDA graphs for dynamic
    sizes, the results are the same.

    ## Source
    PyTorch user guide, "CUDA Graph Trees"; `torch/_inductor/cudagraph_trees.py`, 2.11 to 2.15.
    """

    guide = CUDA_GRAPHS

    def findings(self, view: RecordingView) -> Findings:
        for function in _functions(view.recording):
            if (frame := view.frame(function.compile_id) or view.main_frame) is None:
                continue
            for message, count, subject, fixes in _repeated(function):
                yield self.finding(
                    view,
                    frame.entry,
                    f"torch records a CUDA graph {message}",
                    [function],
                    count=count,
                    subject=f"{subject} {function.phase} {function.name}",
                    fixes=fixes,
                )


def _repeated(function: CudaGraphFunction) -> Iterator[tuple[str, int, str, Fixes]]:
    """Yield what is recorded again and again: message, count, subject and fixes."""
    if function.sizes > _MAX_SIZES:
        yield f"for each of {function.sizes} sizes", function.sizes, "sizes", _FOR_SIZES
    if count := function.rerecordings:
        why, fix = "tensors that an earlier call returned were still in use", _FOR_RESULTS
        if function.moved:
            sources = [item.source for item in function.moved if item.source is not None]
            moved = names(map(expression, sources)) if sources else "static inputs"
            why, fix = f"{moved} moved to new addresses", _FOR_ADDRESSES
        yield f"again: {counted(count, 'time')}, because {why}", count, "again", [fix]


_FOR_SIZES = (
    call_fix("Pad inputs to a few fixed sizes"),
    config_fix(
        "List the sizes that are worth a CUDA graph in"
        " torch._inductor.config.triton.cudagraph_capture_sizes",
        "torch/_inductor/config.py, 2.11 to 2.15",
    ),
    setting(_SKIP_DYNAMIC, "Run graphs with dynamic sizes without CUDA graphs", is_safe=True),
)
_FOR_ADDRESSES = code_fix("Write new values into the same tensors, such as with copy_")
_FOR_RESULTS = call_fix(
    "Call torch.compiler.cudagraph_mark_step_begin() before each step, and clone results that are"
    " kept"
)
