"""GD512: a large tensor that is kept for the backward pass, though it is cheap to compute again."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoctor.facts.profiled import KeptBy, MeasuredMemory, Profiled
from graphdoctor.rules.toolkit import (
    Fixes,
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    code_fix,
    from_setting,
    percent,
)

_MIB = 1024**2
_MIN_BYTES = 32 * _MIB
_MIN_SHARE = 0.2
_MIN_OF_PEAK = 0.1


class SavedActivation(RecordingRule, severity="info"):
    """A large tensor that is kept for the backward pass, though it is cheap to compute again.

    ## What it finds
    A tensor, or equal ones of one line in repeated layers, that the forward pass keeps for the
    backward pass: 32 MiB or more, and a fifth or more of all that is kept; on a GPU also a tenth or
    more of the peak. It can be computed again from what else is kept by code that Inductor writes
    itself, such as an activation function, a norm, a softmax or a dropout mask, without matrix
    products, convolutions and new random numbers. `graphdoctor profile --backward` reports it.

    ## Why it costs
    What is kept occupies memory from the forward pass until the backward pass gets there, so it
    limits the batch. AOTAutograd computes a cheap tensor again where that saves time. Where keeping
    it takes less time, it keeps it, whatever the memory.

    ## Example
    ```python
    import torch

    def forward(x, up, down):
        return torch.nn.functional.gelu(x @ up) @ down

    def inputs():
        sizes = ((4096, 64), (64, 4096), (4096, 64))
        return tuple(torch.full(size, 0.01, requires_grad=True) for size in sizes)
    ```

    ## Use instead
    ```python
    import torch
    import torch._functorch.config

    torch._functorch.config.activation_memory_budget = 0.5

    def forward(x, up, down):
        return torch.nn.functional.gelu(x @ up) @ down

    def inputs():
        sizes = ((4096, 64), (64, 4096), (4096, 64))
        return tuple(torch.full(size, 0.01, requires_grad=True) for size in sizes)
    ```
    With a budget below 1, AOTAutograd keeps at most that share of what it would keep, and computes
    the rest again, the cheapest first. `torch.utils.checkpoint.checkpoint(function, x,
    use_reentrant=False)` around one part of the model keeps only that part's arguments. If memory
    isn't short, do neither: a longer backward pass then gains nothing.

    ## Fix safety
    Without random numbers, results and gradients stay the same but for rounding. With dropout, a
    budget can make gradients wrong without a word: the backward pass then draws other random
    numbers than the forward pass (seen with torch 2.13 and 2.15 on a CPU). It isn't suggested for
    such a program. A checkpoint restores them. A call can take
    longer: `graphdoctor profile --backward --try` measures by how much, and compares gradients.

    ## Source
    `torch/_functorch/config.py` and `partitioners.py`, 2.13; PyTorch blog, "Current and New
    Activation Checkpointing Techniques in PyTorch".
    """

    def findings(self, view: RecordingView) -> Matches:
        profiled, memory = view.recording.profiled, view.recording.memory
        if profiled is None or memory is None or not view.recording.target.has_backward:
            return
        large = (group for group in profiled.kept_alike if _is_worth_saying(group, memory))
        for group in sorted(large, key=_bytes, reverse=True):
            first, size = group[0].tensor, _bytes(group)
            operation = (first.operation or first.name).removeprefix("aten.").partition(".")[0]
            several = "" if len(group) == 1 else f"{len(group)} × "
            yield RuleMatch(
                entry=first.stack[-1],
                message=f"the result of `{operation}`, {several}{first.tensor}, is kept for the backward pass: "
                f"{size / _MIB:,.0f} MiB, {percent(size / (memory.saved_bytes or size))} of what is kept; it is cheap "
                "to compute again",
                of=[kept.graph for kept in group],
                subject=f"{operation} {first.tensor}",
                fixes=_fixes(profiled),
            )


def _bytes(group: Sequence[KeptBy]) -> int:
    return sum(kept.tensor.bytes or 0 for kept in group)


def _is_worth_saying(group: Sequence[KeptBy], memory: MeasuredMemory) -> bool:
    first, size = group[0].tensor, _bytes(group)
    if not first.is_cheap or not first.stack or memory.saved_bytes is None:
        return False
    # The peak of a process has Python and torch in it, and what was freed.
    peak = memory.peak_bytes if memory.peak_of == "allocator" else None
    return size >= max(_MIN_BYTES, _MIN_SHARE * memory.saved_bytes, _MIN_OF_PEAK * (peak or 0))


def _fixes(profiled: Profiled) -> Fixes:
    # With a budget, torch draws random numbers anew in the backward pass.
    if not profiled.draws_random:
        budget = profiled.smaller_budget
        title = f"Keep less, and compute what is cheapest again: {budget.line}"
        yield from_setting(budget, title, is_safe=True)
    yield code_fix(
        "Checkpoint that part: torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)",
        "PyTorch documentation: torch.utils.checkpoint",
    )
