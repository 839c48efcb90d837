"""GD404: functions whose ``lru_cache`` torch ignores, so compiled code recomputes their tensors."""

from __future__ import annotations

from graphdoctor.facts.base import grouped
from graphdoctor.rules.toolkit import Matches, RecordingRule, RecordingView, RuleMatch, code_fix


class IgnoredCacheRule(RecordingRule, severity="info"):
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

    def findings(self, view: RecordingView) -> Matches:
        calls = (((call.function, call.entry.at), call) for call in view.recording.ignored_caches)
        for (function, _), found in grouped(calls).items():
            yield RuleMatch(
                entry=found[0].entry,
                message=f"compiled code computes what `{function}` returns in each call: torch ignores its lru_cache",
                of=found,
                subject=function,
                fixes=(
                    code_fix(
                        f"Call `{function}` before the compiled code, and pass what it returns",
                        self.guide,
                    ),
                ),
            )
