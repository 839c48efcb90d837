"""Rules about the time of kernels: GD503, GD506, GD508 to GD510.

Comes in: what a profile recorded, beside kernels and graphs. A kernel of generated code has the
time of all its runs, and a line the time of the kernels that are about it.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphdoctor.facts.base import whole_sum
from graphdoctor.facts.diagnosis import Cost
from graphdoctor.facts.fixes import Fix, SnippetPlace
from graphdoctor.facts.kernels import MOST_KERNELS, CodeLine, Device, KernelShare
from graphdoctor.facts.profiled import InductorGraph, InductorKernel, InductorOperation, Profiled
from graphdoctor.facts.recording import Graph, GraphNode
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.toolkit import (
    Findings,
    RecordingRule,
    RecordingView,
    bytes_text,
    code_fix,
    config_fix,
    counted,
    factor_text,
    grouped,
    in_bfloat16,
    max_autotune,
    names,
    percent,
)
from graphdoctor.wording import duration, listed

_CLEAR = 0.05
"""A share of the call that's worth a finding: less than that can't be told from noise once it is
gone."""
_MOSTLY = 0.9
"""Of the elements that a kernel's operations work on."""
_MIN_LIBRARY_SHARE = 0.8
_IN_LIBRARY = ("library", "template")

_Operations = Sequence[InductorOperation]


@dataclass(frozen=True)
class _Kernel:
    """A call of a kernel in generated code, with all its runs in the profiled call.

    Args:
        graph: Whose code it is in.
        call: The call.
        us: Microseconds of all runs.
        runs: How often it ran.
        is_copy: What ran copies memory.
        names: What the profiler calls it.
    """

    graph: InductorGraph
    call: InductorKernel
    us: float
    runs: int
    is_copy: bool
    names: frozenset[str]

    @property
    def operations(self) -> _Operations:
        """Return the operations that it computes."""
        return [self.graph.operations[number] for number in self.call.operations]


def _kernels(profiled: Profiled) -> list[_Kernel]:
    """Return the kernels of all graphs, the most costly first."""
    runs_of = grouped(
        ((matched.graph, matched.kernel), (matched.us, profiled.call.kernels[matched.run]))
        for matched in profiled.matched
        if matched.graph is not None and matched.kernel is not None
    )
    kernels = [
        _Kernel(
            profiled.graphs[number],
            profiled.graphs[number].kernels[call],
            us=sum(us for us, _ in runs),
            runs=len(runs),
            is_copy=all(run.kind == "copy" for _, run in runs),
            names=frozenset(run.name for _, run in runs),
        )
        for (number, call), runs in runs_of.items()
    ]
    return sorted(kernels, key=lambda kernel: -kernel.us)


def _call_us(profiled: Profiled) -> float:
    """Return what the call takes, or its kernels if these were measured to take longer."""
    kernels_us = sum(kernel.us for kernel in profiled.call.kernels)
    return max(statistics.median(profiled.call.times_us), kernels_us)


def _is_mostly(operations: _Operations, some: _Operations) -> bool:
    """Return whether a kernel works on next to nothing but some of its operations: Inductor also
    fuses what is independent.
    """
    if len(some) == len(operations):
        return bool(some)
    all_elements = whole_sum(operation.elements for operation in operations)
    elements = sum(operation.elements or 0 for operation in some)
    return all_elements is not None and elements >= _MOSTLY * all_elements


def parts(operations: Iterable[InductorOperation]) -> list[tuple[InductorOperation, float]]:
    """Return the operations that come from a line, each with its part of their kernel's time;
    together these are 1.

    Parts are in proportion to the elements that each works on: of the largest tensor that it takes
    or makes. If that is unknown of one, all are equal.
    """
    placed = [operation for operation in operations if operation.stack]
    sizes = [operation.elements or 0 for operation in placed]
    if not all(sizes):
        sizes = [1] * len(placed)
    return [(operation, size / sum(sizes)) for operation, size in zip(placed, sizes, strict=True)]


def _by_line(
    kernels: Iterable[_Kernel], about: Callable[[_Kernel], _Operations]
) -> dict[StackEntry, float]:
    """Return the lines with the time of their kernels, the most costly first."""
    times: defaultdict[StackEntry, float] = defaultdict(float)
    for kernel in kernels:
        for operation, part in parts(about(kernel)):
            times[operation.stack[-1]] += kernel.us * part
    return dict(sorted(times.items(), key=lambda item: -item[1]))


class LibraryCalls(RecordingRule, code="GD503", severity="info"):
    """A call that spends its time in kernels of libraries, which torch.compile can't fuse.

    ## What it finds
    A steady call of compiled code that spends 80% or more of its time in kernels of libraries, such
    as matrix multiplications and convolutions of cuBLAS, cuDNN or oneDNN, or of ATen. `graphdoctor
    bench` reports it.

    ## Why it costs
    Inductor makes programs faster mostly by fusing operations into kernels of its own. It calls
    libraries as eager mode does, and fuses nothing into these calls. If they take 80% of a call,
    then even without all the rest it would be 1.25× faster at most.

    ## Example
    ```python
    import torch

    def forward(x, scale):
        return torch.relu(x @ torch.diag(scale))

    def inputs():
        return (torch.ones(1024, 1024), torch.ones(1024))
    ```

    ## Use instead
    ```python
    def forward(x, scale):
        return torch.relu(x * scale)
    ```
    Often there is nothing to replace. Then make the calls themselves cheaper: use a smaller dtype
    (`torch.autocast`, or TF32 for matrix multiplications on a GPU), or a library function for the
    whole pattern, such as `scaled_dot_product_attention`. On a CPU without instructions for
    bfloat16 (AMX or AVX512-BF16), bfloat16 is slower. On a GPU, `mode="max-autotune"` also tries
    kernels of Inductor's own for matrix multiplications, which can fuse with what follows.

    ## Fix safety
    Smaller dtypes and TF32 change results. With `mode="max-autotune"`, results differ by rounding,
    and compiling takes much longer.

    ## Source
    `torch/_inductor/__init__.py`, 2.11 to 2.15 (modes); PyTorch documentation, "Numerical accuracy"
    (TF32).
    """

    guide = "torch/_inductor/__init__.py, 2.11 to 2.15"

    def findings(self, view: RecordingView) -> Findings:
        recording, frame = view.recording, view.main_frame
        kernels, profiled = recording.kernels, recording.profiled
        if kernels is None or frame is None or not kernels.region_runs:
            return
        share = (kernels.library_us or 0.0) / kernels.call_us
        if share < _MIN_LIBRARY_SHARE:
            return
        shares: dict[StackEntry, float] = {}
        if profiled is not None:
            calls = [kernel for kernel in _kernels(profiled) if kernel.call.kind == "library"]
            times_us = _by_line(calls, lambda kernel: kernel.operations)
            shares = {line: us / _call_us(profiled) for line, us in times_us.items()}
        entry, *others = shares or [frame.entry]
        library = [kernel for kernel in kernels.largest if kernel.kind == "library"]
        longest = f", the longest is `{library[0].name}`" if library else ""
        fixes = []
        inputs = (item for graph in recording.graphs for item in graph.inputs or ())
        if any(item.dtype == "f32" for item in inputs):
            if kernels.device == "cuda":
                fixes.append(_TF32)
            title = f"Use a smaller dtype: {in_bfloat16(kernels.device)}"
            fixes.append(code_fix(title, "PyTorch documentation: torch.amp"))
        why = (
            "Inductor tries kernels of its own for matrix multiplications, which can fuse with what"
            " follows"
        )
        yield self.finding(
            view,
            entry,
            f"library calls take {percent(share)} of a steady call{longest}; torch.compile can't"
            " fuse them, and without all the rest the call would be only"
            f" {factor_text(1 / share)} faster",
            count=sum(kernel.count for kernel in library),
            related=[(line, f"{percent(shares[line])} of the call") for line in others],
            fixes=[*fixes, *max_autotune(recording, why)],
        )


_TF32 = config_fix(
    "Let matrix multiplications use TF32: torch.set_float32_matmul_precision('high')",
    'PyTorch documentation: "Numerical accuracy"',
)
_MIN_RATIO: Mapping[Device, float] = {"cuda": 1.03, "cpu": 1.1}
"""Smaller differences also show between two runs of one program."""
_WITH_LIBRARY = code_fix(
    "Write the part of the program that the longest kernel computes with a library function, such"
    " as torch.nn.functional.scaled_dot_product_attention",
    "PyTorch documentation: torch.nn.functional",
)


class SlowerKernels(RecordingRule, code="GD506"):
    """Kernels that take longer than those of eager mode.

    ## What it finds
    A steady call whose kernels take 1.1 times as long as those of the same call in eager mode, on a
    GPU 1.03 times, or longer, both measured by torch.profiler. Smaller differences also show
    between two runs of one program. `graphdoctor bench` reports it, if the machine isn't noisy and
    the call isn't faster than in eager mode. It names the longest kernels that only one of them
    runs, with their lines and operations.

    ## Why it costs
    Inductor replaces kernels of libraries with its own. Mostly that saves reading and writing
    memory between them, but some of the replaced kernels were better, such as a softmax over long
    rows or, on a CPU, a sum over the first dim.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.sum(0) * 2

    def inputs():
        return (torch.ones(2048, 2048),)
    ```

    ## Use instead
    ```python
    def forward(x):
        return (x.new_ones(1, x.shape[0]) @ x)[0] * 2
    ```
    The example is about a CPU. In general, find the kernel that the finding names, and write its
    part of the program with a library function, such as `scaled_dot_product_attention` for
    attention. On a GPU, `mode="max-autotune"` tries more variants of each kernel. If neither helps,
    leave that part to eager mode, and report it to PyTorch.

    ## Fix safety
    Another order of operations gives other rounding. With `mode="max-autotune"`, compiling takes
    much longer.

    ## Source
    `torch/_inductor/__init__.py`, 2.11 to 2.15 (modes).
    """

    guide = "torch/_inductor/__init__.py, 2.11 to 2.15"

    def findings(self, view: RecordingView) -> Findings:
        recording, frame = view.recording, view.main_frame
        now, before = recording.kernels, recording.eager_kernels
        if now is None or before is None or frame is None or not now.region_runs:
            return
        kernels_us, eager_us = now.kernels_us or 0.0, before.kernels_us or math.inf
        if now.device != before.device or kernels_us < _MIN_RATIO[now.device] * eager_us:
            return
        lines: dict[str, list[CodeLine]] = {}
        if recording.profiled is not None:
            kernels = _kernels(recording.profiled)
            by_name = grouped((name, kernel) for kernel in kernels for name in kernel.names)
            for name, alike in by_name.items():
                entries = _by_line(alike, lambda kernel: kernel.operations)
                lines[name] = [CodeLine(file=entry.file, line=entry.line) for entry in entries]
        slower_us = kernels_us - eager_us
        clauses = (
            f"the kernels take {factor_text(kernels_us / eager_us)} as long as those of eager mode",
            *_apart(now, before, "only compiled code has", lines),
            *_apart(before, now, "only eager mode has", {}),
        )
        yield self.finding(
            view,
            frame.entry,
            "; ".join(clauses),
            count=now.launches or 0,
            cost=Cost(call_us=slower_us, call_from="profile", share=slower_us / now.call_us),
            fixes=(
                *max_autotune(recording, "Inductor tries more variants of each kernel"),
                _WITH_LIBRARY,
            ),
        )


def _apart(
    run: KernelShare, other_run: KernelShare, only: str, lines: Mapping[str, Sequence[CodeLine]]
) -> Iterator[str]:
    """Yield the longest kernels that the other run doesn't have, as a clause; nothing if not all of
    the other's are known. ``lines``: of each.
    """
    others = {kernel.name for kernel in other_run.largest}
    texts = []
    for kernel in run.largest if 0 < len(other_run.largest) < MOST_KERNELS else ():
        if kernel.name in others:
            continue
        times = f"{kernel.count} × " if kernel.count > 1 else ""
        places = [f"{Path(line.file).name}:{line.line}" for line in lines.get(kernel.name, ())]
        operations = [f"`{operation}`" for operation in kernel.operations]
        details = filter(None, [duration(kernel.us), *operations, listed(places, 2)])
        texts.append(f"{times}`{kernel.name}` ({', '.join(details)})")
    if texts:
        yield f"{only} {listed(texts)}"


class _AtLines(RecordingRule):
    """A rule about the lines whose kernels take long."""

    def at_lines(
        self,
        view: RecordingView,
        profiled: Profiled,
        kernels: Sequence[_Kernel],
        about: Callable[[_Kernel], _Operations],
        *,
        what: str,
        subject: str,
        fix: Fix,
    ) -> Findings:
        """Return what kernels take at the lines that they are about, if that is clear; the most
        costly line is the finding's.
        """
        lines, whole_us = _by_line(kernels, about), _call_us(profiled)
        us, runs = sum(kernel.us for kernel in kernels), sum(kernel.runs for kernel in kernels)
        if not lines or us < _CLEAR * whole_us:
            return
        entry, *others = lines
        moved = whole_sum(
            None if kernel.call.bytes is None else kernel.call.bytes * kernel.runs
            for kernel in kernels
        )
        traffic = "" if moved is None else f", {bytes_text(moved)} of memory traffic"
        share = us / whole_us
        yield self.finding(
            view,
            entry,
            f"{what} take {percent(share)} of a steady call ({counted(runs, 'kernel')}{traffic})",
            [kernel.graph for kernel in kernels],
            count=runs,
            related=[(line, f"{percent(lines[line] / whole_us)} of the call") for line in others],
            subject=subject,
            cost=Cost(call_us=us, call_from="profile", share=share),
            fixes=[fix],
        )


_COPY = "aten.clone.default"
_COPIES = frozenset({_COPY, "aten.copy.default"})
_IN_LAYOUT = code_fix(
    "Keep the model and its inputs in the layout that the library uses: for convolutions "
    "model.to(memory_format=torch.channels_last), and the same for the inputs",
    'PyTorch tutorials: "Channels Last Memory Format in PyTorch"',
)
_LEAVE_OUT = code_fix(
    "Leave out the copy if nothing needs it, or make the tensor in the order in which it is read",
    "PyTorch documentation: Tensor Views",
)


class LayoutCopies(_AtLines, code="GD508"):
    """Kernels that compute nothing: they copy tensors into another layout.

    ## What it finds
    Kernels that take 5% of a steady call or more, and only bring tensors into another layout: what
    `.contiguous()`, `.clone()` or a `.reshape()` of a permuted tensor copies, and what Inductor
    copies because a library wants another layout, such as the inputs and results of convolutions on
    a CPU or in mixed layouts. Copies that are fused into a kernel that computes something aren't
    counted, and neither are writes to arguments. `graphdoctor profile` reports it.

    ## Why it costs
    Such a kernel reads and writes a whole tensor, and one of the two not in the order of memory,
    which is slower. The call would be faster by all of its time if the tensor were in the right
    layout from the beginning.

    ## Example
    ```python
    import torch

    def forward(x, weight):
        return torch.nn.functional.conv2d(x, weight)

    def inputs():
        return (torch.ones(8, 8, 128, 128), torch.ones(8, 8, 3, 3))
    ```

    ## Use instead
    ```python
    def inputs():
        x, weight = torch.ones(8, 8, 128, 128), torch.ones(8, 8, 3, 3)
        return tuple(each.to(memory_format=torch.channels_last) for each in (x, weight))
    ```
    For a module: `model.to(memory_format=torch.channels_last)`, and the same for its input. Leave
    out `.contiguous()` and `.clone()` where nothing needs them, and permute a tensor where it is
    made rather than in each layer.

    ## Fix safety
    Values stay the same. What reads the strides of a result, such as `.view()` or NumPy, sees other
    ones.

    ## Source
    PyTorch tutorials, "Channels Last Memory Format in PyTorch"; `torch/_inductor/graph.py`, 2.11 to
    2.15 (`decide_layout_opt`).
    """

    def findings(self, view: RecordingView) -> Findings:
        if (profiled := view.recording.profiled) is None:
            return
        copies: dict[bool, list[_Kernel]] = {True: [], False: []}
        for kernel in _kernels(profiled):
            of_library = _of_library(kernel)
            copying = [
                operation
                for operation in kernel.operations
                if operation in of_library or operation.target in _COPIES
            ]
            is_copy = kernel.call.kind == "pointwise" or kernel.is_copy
            if is_copy and _is_mostly(kernel.operations, copying):
                copies[bool(of_library)].append(kernel)
        for is_for_library, kernels in copies.items():
            operations = names(
                dict.fromkeys(
                    operation.operation.rpartition(".")[0]
                    for kernel in kernels
                    for operation in _about(kernel)
                )
            )
            what, subject, fix = f"copies by {operations}", "copy", _LEAVE_OUT
            if is_for_library:
                what = f"copies into other layouts around {operations}"
                subject, fix = "library", _IN_LAYOUT
            yield from self.at_lines(
                view, profiled, kernels, _about, what=what, subject=subject, fix=fix
            )


def _of_library(kernel: _Kernel) -> _Operations:
    """Return the operations of a library that a copy is for: it copies what these read or make."""
    graph = kernel.graph
    calls = (call for call in graph.kernels if call.kind in _IN_LIBRARY)
    of_library = {number for call in calls for number in call.operations}
    return [graph.operations[number] for number in kernel.call.operations if number in of_library]


def _about(kernel: _Kernel) -> _Operations:
    return _of_library(kernel) or kernel.operations


_CASTS = frozenset({"prims.convert_element_type.default", "aten._to_copy.default"})
_WIDE = "float64"
_NARROWER = frozenset({"float32", "bfloat16", "float16"})
_CAST_ONCE = code_fix(
    "Cast once, outside of the call: keep the tensor in the dtype in which it is used, such as"
    " weights with model.to(torch.bfloat16) in place of autocast for inference",
    "PyTorch documentation: Automatic Mixed Precision package",
)
_IN_FLOAT32 = code_fix(
    "Compute in float32: leave out the conversion, and make NumPy arrays float32 before they become"
    " tensors",
    "PyTorch documentation: Type Promotion",
)


class DtypeCasts(_AtLines, code="GD509"):
    """Kernels that only cast tensors to another dtype, and lines that make float64 of float32.

    ## What it finds
    Kernels that take 5% of a steady call or more and do next to nothing but cast, such as weights
    that autocast casts in each call. Also a line at which narrower values become float64, if
    kernels that compute in float64 take 5% or more: a NumPy array or a tensor made of one is
    float64, and what is computed with it becomes so. Casts that are fused into a kernel that
    computes something cost next to nothing, and aren't counted. `graphdoctor profile` reports it.

    ## Why it costs
    A cast reads and writes a whole tensor. float64 moves twice the bytes of float32, and GPUs
    compute in it at half their speed in float32 at best, most of them at a thirty-second or less.

    ## Example
    ```python
    import torch

    def forward(x, weight):
        return x @ weight.float()

    def inputs():
        return (torch.ones(1, 2048), torch.ones(2048, 2048, dtype=torch.float16))
    ```

    ## Use instead
    ```python
    def forward(x, weight):
        return x @ weight

    def inputs():
        return (torch.ones(1, 2048), torch.ones(2048, 2048))
    ```
    Cast once, outside of the call: keep weights in the dtype in which they are used, such as
    `model.to(torch.bfloat16)` in place of autocast for inference. Make arrays float32 before they
    become tensors, or use Python numbers, which don't make float64 of float32.

    ## Fix safety
    A smaller dtype changes results, and so does float32 in place of float64. Training needs weights
    in float32, which is why autocast casts them.

    ## Source
    PyTorch documentation, "Automatic Mixed Precision package" and "Type Promotion"; NVIDIA CUDA C++
    Programming Guide, "Arithmetic Instructions".
    """

    def findings(self, view: RecordingView) -> Findings:
        if (profiled := view.recording.profiled) is None:
            return
        kernels = _kernels(profiled)
        casting = [
            kernel
            for kernel in kernels
            if (kernel.call.kind in ("pointwise", "reduction") or kernel.is_copy)
            and _casts_of(kernel)
            and _is_mostly(
                kernel.operations,
                [
                    operation
                    for operation in kernel.operations
                    if operation.target in (*_CASTS, _COPY)
                ],
            )
        ]
        kinds = {
            f" from {cast.input_dtypes[0]} to {cast.dtype}"
            for kernel in casting
            for cast in _casts_of(kernel)
            if cast.input_dtypes and cast.dtype
        }
        what = f"casts{next(iter(kinds)) if len(kinds) == 1 else ''}"
        yield from self.at_lines(
            view, profiled, casting, _casts_of, what=what, subject="cast", fix=_CAST_ONCE
        )
        # Values that become float64, where kernels that compute in it take long enough.
        operations = (operation for graph in profiled.graphs for operation in graph.operations)
        widened = [
            operation
            for operation in operations
            if operation.target in _CASTS
            and operation.dtype == _WIDE
            and operation.stack
            and not _NARROWER.isdisjoint(operation.input_dtypes)
        ]
        wide = [kernel for kernel in kernels if any(map(_computes_wide, kernel.operations))]
        us, runs = sum(kernel.us for kernel in wide), sum(kernel.runs for kernel in wide)
        share = us / _call_us(profiled)
        if not widened or share < _CLEAR:
            return
        first = max(widened, key=lambda operation: operation.bytes or 0)
        entry = first.stack[-1]
        others = dict.fromkeys(cast.stack[-1] for cast in widened if cast.stack[-1] != entry)
        computes, takes = ("computes", "takes") if runs == 1 else ("compute", "take")
        yield self.finding(
            view,
            entry,
            f"{first.input_dtypes[0]} becomes float64 here: {counted(runs, 'kernel')} that"
            f" {computes} in float64 {takes} {percent(share)} of a steady call",
            [kernel.graph for kernel in wide],
            count=runs,
            related=[(line, "becomes float64 here too") for line in others],
            user_stack=first.stack,
            subject=_WIDE,
            cost=Cost(call_us=us, call_from="profile", share=share),
            fixes=[_IN_FLOAT32],
        )


def _casts_of(kernel: _Kernel) -> _Operations:
    return [operation for operation in kernel.operations if operation.target in _CASTS]


def _computes_wide(operation: InductorOperation) -> bool:
    is_wide = _WIDE in (operation.dtype, *operation.input_dtypes)
    return is_wide and operation.target not in _CASTS


_FIRST_WITH_TF32 = (8, 0)
_ON_CUDA = re.compile(r"^f32\[.*\] cuda(?::(\d+))?$")
_MATMULS = re.compile(
    "addbmm|addmm|addmv|baddbmm|bilinear|bmm|einsum|linear|matmul|mm|mv|tensordot"
)
_CONVOLUTIONS = re.compile("convolution|conv(_transpose)?[123]d")


class TensorFloatOff(RecordingRule, code="GD510", severity="info"):
    """Float32 matrix products on CUDA that could use TensorFloat32.

    ## What it finds
    Matrix products or convolutions in float32 in a graph, on a GPU whose tensor cores have
    TensorFloat32 (compute capability 8.0 or higher), while torch is set not to use it after the
    calls. For matrix products that is torch's default, for convolutions it isn't. Under autocast,
    and in other dtypes, nothing is found. torch itself warns once, from `inductor` only, and names
    no line. Nothing is found either where the kernels were measured and take less than half of the
    call: it waits for its host.

    ## Why it costs
    Matrix products in TensorFloat32 run on tensor cores, several times as fast as in float32. How
    much of a call that is depends on their share in it: a small product is bound by memory, or by
    the host.

    ## Example
    ```python
    import torch

    ARGUMENTS = ["--device", "cuda"]

    def forward(x):
        return x @ x

    def inputs():
        return (torch.ones(1024, 1024),)
    ```

    ## Use instead
    ```python
    ARGUMENTS = ["--device", "cuda"]

    torch.set_float32_matmul_precision("high")
    ```
    Measure it: run `graphdoctor bench` with and without the line.

    ## Fix safety
    Results change: the inputs of a product are rounded to 10 bits of mantissa in place of 23, and
    are added up in float32. Training and inference of neural networks usually bear that; linear
    algebra and simulations may not. The line holds for the whole program, eager mode too.

    ## Source
    PyTorch notes, "CUDA semantics", TensorFloat-32; `torch/_inductor/compile_fx.py`, 2.11 to 2.15
    (`_warn_tf32_disabled`).
    """

    def findings(self, view: RecordingView) -> Findings:
        precision, share = view.recording.float32_precision, view.recording.kernels
        if share is not None:
            half_us = (share.unprofiled_us or share.call_us) / 2
            # Faster kernels hardly make a call shorter of which they take less than half.
            is_waiting = share.kernels_us is not None and share.kernels_us < half_us
            precision = None if is_waiting else precision
        if precision is not None and not precision.matmul_tf32:
            line = 'torch.set_float32_matmul_precision("high")'
            yield from self._about(view, _MATMULS, "matrix product", line)
        if precision is not None and not precision.convolution_tf32:
            line = "torch.backends.cudnn.allow_tf32 = True"
            yield from self._about(view, _CONVOLUTIONS, "convolution", line)

    def _about(
        self, view: RecordingView, targets: re.Pattern[str], what: str, line: str
    ) -> Findings:
        nodes = list(_float32_nodes(view, targets))
        entries = (view.place(node.file, node.line, graph.compile_id) for graph, node in nodes)
        counts = Counter(entry for entry in entries if entry is not None)
        if not counts:
            return
        (first, _), *others = counts.most_common()
        title = (
            f"Let each {what} use TensorFloat32, which changes results in the last digits; not"
            " tried"
        )
        yield self.finding(
            view,
            first,
            f"{counted(len(nodes), what)} in float32 could run on tensor cores, but TensorFloat32"
            " is off",
            [graph for graph, _ in nodes],
            related=[(entry, counted(count, what)) for entry, count in others],
            subject=what,
            fixes=[
                code_fix(
                    title,
                    "PyTorch notes: CUDA semantics, TensorFloat-32 (TF32) on Ampere (and later)"
                    " devices",
                    snippet=line,
                    place=SnippetPlace(where="start"),
                )
            ],
        )


def _float32_nodes(
    view: RecordingView, targets: re.Pattern[str]
) -> Iterator[tuple[Graph, GraphNode]]:
    """Yield operations in float32 on a device with TensorFloat32, with their graphs."""
    precision = view.recording.float32_precision
    capabilities = precision.capabilities if precision else ()
    for graph in view.recording.graphs:
        for node in graph.nodes or ():
            device = _ON_CUDA.match(node.value or "")
            is_call = node.opcode.startswith("call_")
            if device is None or not is_call or not targets.fullmatch(node.target.split(".")[-1]):
                continue
            number = int(device[1] or 0)
            if number < len(capabilities) and capabilities[number] >= _FIRST_WITH_TF32:
                yield graph, node
