"""GD510: float32 matrix products on CUDA that could use TensorFloat32."""

from __future__ import annotations

import re
from collections.abc import Iterator

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.facts.fixes import SnippetPlace
from graphdoctor.facts.kernels import Float32Precision
from graphdoctor.facts.recording import GraphNode, Recording
from graphdoctor.facts.stack import StackEntry
from graphdoctor.facts.wording import counted
from graphdoctor.rules.diagnosis.frames import frame_entry, frame_of, line_entry
from graphdoctor.rules.diagnosis.rule import RecordingRule, RecordingView, RuleMatch

_FIRST_WITH_TF32 = (8, 0)
_ON_CUDA = re.compile(r"^f32\[.*\] cuda(?::(\d+))?$")
_MATMULS = frozenset(
    {"addbmm", "addmm", "addmv", "baddbmm", "bilinear", "bmm", "einsum", "linear", "matmul", "mm", "mv", "tensordot"}
)
_CONVOLUTIONS = frozenset({"convolution", *(f"conv{kind}{dims}d" for kind in ("", "_transpose") for dims in (1, 2, 3))})
_NOTES = "PyTorch notes: CUDA semantics, TensorFloat-32 (TF32) on Ampere (and later) devices"


class Tf32Off(RecordingRule, code="GD510", name="tensor-float-off", severity="info"):
    """Float32 matrix products on CUDA that could use TensorFloat32.

    ## What it finds
    Matrix products or convolutions in float32 in a graph, on a GPU whose tensor cores have TensorFloat32 (compute
    capability 8.0 or higher), while torch is set not to use it after the calls. For matrix products that is torch's
    default, for convolutions it isn't. Under autocast, and in other dtypes, nothing is found. torch itself warns once,
    from `inductor` only, and names no line.

    ## Why it costs
    Matrix products in TensorFloat32 run on tensor cores, several times as fast as in float32. How much of a call that
    is depends on their share in it: a small product is bound by memory, or by the host.

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
    import torch

    ARGUMENTS = ["--device", "cuda"]

    torch.set_float32_matmul_precision("high")

    def forward(x):
        return x @ x

    def inputs():
        return (torch.ones(1024, 1024),)
    ```
    Measure it: run `graphdoctor bench` with and without the line.

    ## Fix safety
    Results change: the inputs of a product are rounded to 10 bits of mantissa in place of 23, and are added up in
    float32. Training and inference of neural networks usually bear that; linear algebra and simulations may not. The
    line holds for the whole program, eager mode too.

    ## Source
    PyTorch notes, "CUDA semantics", TensorFloat-32; `torch/_inductor/compile_fx.py`, 2.13 (`_warn_tf32_disabled`).
    """

    def findings(self, view: RecordingView) -> tuple[RuleMatch, ...]:
        precision = view.recording.float32_precision
        if precision is None:
            return ()
        found = []
        if not precision.matmul_tf32:
            line = 'torch.set_float32_matmul_precision("high")'
            found.append(_match(view.recording, precision, _MATMULS, "matrix product", line))
        if not precision.convolution_tf32:
            line = "torch.backends.cudnn.allow_tf32 = True"
            found.append(_match(view.recording, precision, _CONVOLUTIONS, "convolution", line))
        return tuple(match for match in found if match is not None)


def _match(
    recording: Recording, precision: Float32Precision, names: frozenset[str], what: str, line: str
) -> RuleMatch | None:
    places: dict[StackEntry, int] = {}
    ids: dict[str, None] = {}
    count = 0
    for compile_id, node in _nodes(recording, precision, names):
        count += 1
        ids[compile_id] = None
        frame = frame_of(recording, compile_id)
        entry = line_entry(recording, node.file, node.line) or (frame_entry(frame) if frame is not None else None)
        if entry is not None:
            places[entry] = places.get(entry, 0) + 1
    if not places:
        return None
    first, *others = sorted(places, key=lambda entry: -places[entry])
    return RuleMatch(
        entry=first,
        message=f"{counted(count, what)} in float32 could run on tensor cores, but TensorFloat32 is off",
        count=count,
        compile_ids=tuple(ids),
        related=tuple((entry, counted(places[entry], what)) for entry in others),
        subject=what,
        fixes=(_fix(line, what),),
    )


def _nodes(recording: Recording, precision: Float32Precision, names: frozenset[str]) -> Iterator[tuple[str, GraphNode]]:
    """The operations of this kind in float32 on a device with TensorFloat32, with the compile that captured them."""
    for graph in recording.graphs:
        for node in graph.nodes or ():
            device = _ON_CUDA.match(node.value or "")
            if device is None or not node.opcode.startswith("call_") or node.target.rpartition(".")[2] not in names:
                continue
            number = int(device[1] or 0)
            if number < len(precision.capabilities) and precision.capabilities[number] >= _FIRST_WITH_TF32:
                yield graph.compile_id, node


def _fix(line: str, what: str) -> Fix:
    return Fix(
        title=f"Let each {what} use TensorFloat32, which changes results in the last digits; not tried",
        kind="code",
        snippet=line,
        place=SnippetPlace(where="start"),
        source=_NOTES,
    )
