"""GD506: kernels that take longer than those of eager mode."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from graphdoctor.facts.base import grouped
from graphdoctor.facts.kernels import MOST_KERNELS, CodeLine, Device, KernelShare, KernelTime
from graphdoctor.facts.wording import counted, duration, listed
from graphdoctor.rules.diagnosis.kernel_times import lines_by_kernel
from graphdoctor.rules.toolkit import (
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    code_fix,
    factor_text,
    max_autotune,
)

_ALMOST_NOTHING = 10
"""So many times as long as what they replaced: that is then what the library's own kernels differ
by."""

_MIN_RATIO: Mapping[Device, float] = {"cuda": 1.03, "cpu": 1.1}
"""Smaller differences also show between two runs of one program."""


class SlowerKernels(RecordingRule):
    """Kernels that take longer than those of eager mode.

    ## What it finds
    A steady call whose kernels take 1.1 times as long as those of the same call in eager mode, on a
    GPU 1.03 times, or longer, both measured by torch.profiler. Smaller differences also show
    between two runs of one program. `graphdoctor bench` reports it, if the machine isn't noisy and
    the call isn't faster than in eager mode. It names the longest kernels that only one of them
    runs, with their lines, and says so where tracing takes a fused function apart, kernels only
    copy into other layouts, or a library runs other kernels for the same operation.

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
    `torch/_inductor/__init__.py`, 2.13 (modes).
    """

    guide = "torch/_inductor/__init__.py, 2.13"

    def findings(self, view: RecordingView) -> Matches:
        recording = view.recording
        now, before, frame = recording.kernels, recording.eager_kernels, view.main_frame
        if (
            now is None
            or before is None
            or frame is None
            or now.device != before.device
            or not now.region_runs
        ):
            return
        kernels_us, eager_us = now.kernels_us or 0.0, before.kernels_us or math.inf
        if kernels_us < _MIN_RATIO[now.device] * eager_us:
            return
        lines = {} if recording.profiled is None else lines_by_kernel(recording.profiled)
        yield RuleMatch(
            entry=frame.entry,
            message="; ".join(
                (
                    _message(now, before, kernels_us / eager_us),
                    *_apart(now, before, "only compiled code has", lines),
                    *_apart(before, now, "only eager mode has", {}),
                    *_causes(now, before),
                )
            ),
            count=now.launches or 0,
            call_us=kernels_us - eager_us,
            share=(kernels_us - eager_us) / now.call_us,
            fixes=(
                *max_autotune(recording, "Inductor tries more variants of each kernel"),
                _WITH_LIBRARY,
            ),
        )


def _message(now: KernelShare, before: KernelShare, ratio: float) -> str:
    text = f"the kernels take {factor_text(ratio)} as long as those of eager mode"
    # What eager mode had beyond the library calls that are left.
    others = (now.library_us, now.copy_us, now.communication_us)
    replaced_us = (before.kernels_us or 0.0) - sum(us or 0.0 for us in others)
    largest = next((each for each in now.largest if each.kind == "generated"), None)
    if not now.generated_us or largest is None or not 0 < replaced_us < now.generated_us:
        return text
    if now.generated_us > _ALMOST_NOTHING * replaced_us:
        return (
            f"{text}: Inductor's own take {duration(now.generated_us)} and replace next to nothing"
        )
    own = factor_text(now.generated_us / replaced_us)
    return f"{text}: Inductor's own take {own} as long as those that they replaced; the longest is `{largest.name}`"


def _own(one: KernelShare, other: KernelShare) -> list[KernelTime]:
    """The longest kernels that the other run doesn't have; none if not all of the other's are
    known.
    """
    known = {each.name for each in other.largest}
    if not known or len(other.largest) >= MOST_KERNELS:
        return []
    return [each for each in one.largest if each.name not in known]


def _apart(
    one: KernelShare, other: KernelShare, only: str, lines: Mapping[str, Sequence[CodeLine]]
) -> Iterator[str]:
    """The kernels that the other run doesn't have, as a clause; ``lines``: of each, if it doesn't
    have them itself.
    """
    if own := _own(one, other):
        yield f"{only} " + listed(
            [_described(each, lines.get(each.name) or each.lines) for each in own]
        )


def _described(kernel: KernelTime, lines: Sequence[CodeLine]) -> str:
    often = f"{kernel.count} × " if kernel.count > 1 else ""
    places = [f"{Path(line.file).name}:{line.line}" for line in lines]
    known = [duration(kernel.us), *(f"`{each}`" for each in kernel.operations), listed(places, 2)]
    return f"{often}`{kernel.name}` ({', '.join(filter(None, known))})"


def _causes(now: KernelShare, before: KernelShare) -> Iterator[str]:
    """Why kernels differ, as clauses, where their names tell."""
    known, largest = (
        len(share.largest) < MOST_KERNELS and share.largest for share in (before, now)
    )
    if largest and _has_fast_path(before.largest) and not _has_fast_path(largest):
        yield "eager mode takes the fast path of `nn.MultiheadAttention`, which torch leaves while it traces"
    copies = [
        each for each in now.largest if each.kind == "generated" and _ONLY_LAYOUT.search(each.name)
    ]
    if copies and known and not any(each.kind == "copy" for each in known):
        runs, us = (
            counted(sum(each.count for each in copies), "kernel run"),
            sum(each.us for each in copies),
        )
        yield f"eager mode needs no copy into another layout, compiled code {runs} ({duration(us)})"
    mine, others = (
        {
            operations: sum(us)
            for operations, us in grouped((each.operations, each.us) for each in own).items()
        }
        for own in (_own(now, before), _own(before, now))
    )
    for operations in [each for each in mine if each and others.get(each, mine[each]) < mine[each]]:
        times = f"{duration(mine[operations])} instead of {duration(others[operations])}"
        yield f"for {listed([f'`{each}`' for each in operations])} the library runs other kernels ({times})"


def _has_fast_path(kernels: Iterable[KernelTime]) -> bool:
    return any(_FAST_PATH in operation for each in kernels for operation in each.within)


_FAST_PATH = "::_native_multi_head_attention"
"""What ``nn.MultiheadAttention`` calls only outside of tracing (``torch/nn/modules/activation.py``,
2.13)."""

_ONLY_LAYOUT = re.compile(
    r"_fused(_+(clone|copy|expand|permute|select|slice|split|squeeze|t|transpose|unsafe_view|unsqueeze|view))+_\d+$"
)
"""Of a kernel that Inductor names by operations none of which computes anything."""


_WITH_LIBRARY = code_fix(
    "Write the part of the program that the longest kernel computes with a library function, such as "
    "torch.nn.functional.scaled_dot_product_attention",
    "PyTorch documentation: torch.nn.functional",
)
