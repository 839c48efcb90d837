"""GD503: a call that spends its time in kernels of libraries."""

from __future__ import annotations

from graphdoctor.facts.kernels import KernelShare
from graphdoctor.facts.profiled import Profiled
from graphdoctor.facts.recording import Recording
from graphdoctor.facts.stack import StackEntry
from graphdoctor.rules.diagnosis.kernel_times import by_line, call_us, timed_kernels
from graphdoctor.rules.toolkit import (
    Fixes,
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    code_fix,
    config_fix,
    counted,
    factor_text,
    in_bfloat16,
    max_autotune,
    percent,
)

_MIN_SHARE = 0.8
_MIN_NAMED = 0.2
_MAX_NAMES = 2


class LibraryCalls(RecordingRule, severity="info"):
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
    `torch/_inductor/__init__.py`, 2.13 (modes); PyTorch documentation, "Numerical accuracy" (TF32).
    """

    guide = "torch/_inductor/__init__.py, 2.13"

    def findings(self, view: RecordingView) -> Matches:
        kernels, frame = view.recording.kernels, view.main_frame
        if kernels is None or frame is None or not kernels.library_us or not kernels.region_runs:
            return
        share = kernels.library_us / kernels.call_us
        if share < _MIN_SHARE:
            return
        lines = _lines(view.recording.profiled)
        entry, *others = lines or [frame.entry]
        where = ", at this line" if lines else ""
        where += f" and {counted(len(others), 'other')}" if others else ""
        yield RuleMatch(
            entry=entry,
            message=f"library calls take {percent(share)} of a steady call{_mostly(kernels)}{where}; "
            "torch.compile can't fuse them, and without all the rest the call would be only "
            f"{factor_text(1 / share)} faster",
            count=sum(each.count for each in kernels.largest if each.kind == "library"),
            related=tuple((line, f"{percent(lines[line])} of the call") for line in others),
            fixes=_fixes(kernels, view.recording),
        )


def _mostly(kernels: KernelShare) -> str:
    large = [
        f"`{each.name}`"
        for each in kernels.largest
        if each.kind == "library" and each.us >= _MIN_NAMED * (kernels.library_us or 0)
    ]
    return f", mostly {' and '.join(large[:_MAX_NAMES])}" if large else ""


def _lines(profiled: Profiled | None) -> dict[StackEntry, float]:
    """Lines with the shares of the call that their library calls take, the largest first; empty
    without a profile.
    """
    if profiled is None:
        return {}
    calls = [kernel for kernel in timed_kernels(profiled) if kernel.kernel.kind == "library"]
    whole = call_us(profiled)
    return {
        line: us / whole for line, us in by_line(calls, lambda kernel: kernel.operations).items()
    }


def _fixes(kernels: KernelShare, recording: Recording) -> Fixes:
    inputs = (item for graph in recording.graphs for item in graph.inputs or ())
    if any(item.dtype == "f32" for item in inputs):
        if kernels.device == "cuda":
            title = (
                "Let matrix multiplications use TF32: torch.set_float32_matmul_precision('high')"
            )
            yield config_fix(title, 'PyTorch documentation: "Numerical accuracy"')
        yield code_fix(
            f"Use a smaller dtype: {in_bfloat16(kernels.device)}",
            "PyTorch documentation: torch.amp",
        )
    yield from max_autotune(
        recording,
        "Inductor tries kernels of its own for matrix multiplications, which can fuse with what follows",
    )
