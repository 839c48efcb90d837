"""GD510: float32 matrix products on CUDA that could use TensorFloat32."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from graphdoctor.facts.fixes import SnippetPlace
from graphdoctor.facts.kernels import KernelShare
from graphdoctor.facts.recording import Graph, GraphNode, Recording
from graphdoctor.rules.toolkit import (
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    code_fix,
    counted,
)

_FIRST_WITH_TF32 = (8, 0)
_ON_CUDA = re.compile(r"^f32\[.*\] cuda(?::(\d+))?$")
_MATMULS = frozenset(
    {
        "addbmm",
        "addmm",
        "addmv",
        "baddbmm",
        "bilinear",
        "bmm",
        "einsum",
        "linear",
        "matmul",
        "mm",
        "mv",
        "tensordot",
    }
)
_CONVOLUTIONS = frozenset(
    {"convolution", *(f"conv{kind}{dims}d" for kind in ("", "_transpose") for dims in (1, 2, 3))}
)


class Tf32Off(RecordingRule, severity="info"):
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
    PyTorch notes, "CUDA semantics", TensorFloat-32; `torch/_inductor/compile_fx.py`, 2.13
    (`_warn_tf32_disabled`).
    """

    def findings(self, view: RecordingView) -> Matches:
        precision = view.recording.float32_precision
        if _waits_for_host(view.recording.kernels):
            return
        if precision is not None and not precision.matmul_tf32:
            yield from _matches(
                view, _MATMULS, "matrix product", 'torch.set_float32_matmul_precision("high")'
            )
        if precision is not None and not precision.convolution_tf32:
            yield from _matches(
                view, _CONVOLUTIONS, "convolution", "torch.backends.cudnn.allow_tf32 = True"
            )


def _waits_for_host(share: KernelShare | None) -> bool:
    """Whether kernels were seen to take less than half of a call, so that faster ones hardly make
    it shorter.
    """
    if share is None or share.kernels_us is None:
        return False
    return share.kernels_us < (share.unprofiled_us or share.call_us) / 2


def _matches(view: RecordingView, names: frozenset[str], what: str, line: str) -> Matches:
    found = list(_nodes(view.recording, names))
    places = Counter(
        filter(None, (view.place(node.file, node.line, graph.compile_id) for graph, node in found))
    )
    if not places:
        return
    (first, _), *others = places.most_common()
    yield RuleMatch(
        entry=first,
        message=f"{counted(len(found), what)} in float32 could run on tensor cores, but TensorFloat32 is off",
        of=[graph for graph, _ in found],
        related=tuple((entry, counted(count, what)) for entry, count in others),
        subject=what,
        fixes=(
            code_fix(
                f"Let each {what} use TensorFloat32, which changes results in the last digits; not tried",
                "PyTorch notes: CUDA semantics, TensorFloat-32 (TF32) on Ampere (and later) devices",
                snippet=line,
                place=SnippetPlace(where="start"),
            ),
        ),
    )


def _nodes(recording: Recording, names: frozenset[str]) -> Iterator[tuple[Graph, GraphNode]]:
    """The operations of this kind in float32 on a device with TensorFloat32, with the compile that
    captured them.
    """
    capabilities = recording.float32_precision.capabilities if recording.float32_precision else ()
    for graph in recording.graphs:
        for node in graph.nodes or ():
            device = _ON_CUDA.match(node.value or "")
            if (
                device is None
                or not node.opcode.startswith("call_")
                or node.target.rpartition(".")[2] not in names
            ):
                continue
            number = int(device[1] or 0)
            if number < len(capabilities) and capabilities[number] >= _FIRST_WITH_TF32:
                yield graph, node
