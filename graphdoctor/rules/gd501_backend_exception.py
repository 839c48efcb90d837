"""GD501: an exception in the backend."""

from __future__ import annotations

import re

from graphdoctor.rules.toolkit import (
    BreakRule,
    BreakSite,
    Matches,
    RecordingRule,
    RecordingView,
    RuleMatch,
    call_fix,
    without_middle,
)

_OF_TORCH = re.compile(
    r"\A\s*backend='[^\n]*' raised:\n|^Set TORCHDYNAMO_VERBOSE=1 [^\n]*", re.MULTILINE
)
"""What torch puts around the exception (``torch/_dynamo/exc.py``, 2.13)."""
_MOST_CHARACTERS = 200
_STAGES = (None, "eager", "inductor", "cudagraphs", "aot_eager", "aot_eager_decomp_partition")
"""Torch's own backends; None for one without a name."""
_OWN = (
    call_fix(
        "Try --backend eager: if that works, the backend itself fails on this graph", is_safe=True
    ),
)
_FAILED = frozenset({"BackendCompilerFailed", "SkipFrame"})
"""``SkipFrame``: the backend asked torch to run the frame eagerly."""


class BackendException(BreakRule, RecordingRule, severity="error"):
    """A backend that raised an exception while it compiled a graph.

    ## What it finds
    A graph that Dynamo captured and the backend couldn't compile. Most exceptions end the call. A
    few make torch skip the function instead.

    ## Why it costs
    The graph is not compiled: the call fails, or the function runs eagerly.

    ## Example
    ```python
    import torch

    ARGUMENTS = ["--backend", "relu_compile_error_TESTING_ONLY"]

    def forward(x):
        return torch.relu(x.sin())

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    ARGUMENTS = ["--backend", "eager"]
    ```
    Find the stage that fails: try `--backend eager` (only Dynamo), then `aot_eager` (Dynamo and
    AOTAutograd), then `inductor`. The first that raises has the bug. Report it with the graph.

    ## Fix safety
    There is no fix to apply.

    ## Source
    `torch/_dynamo/output_graph.py`, 2.13 (`call_user_compiler`); PyTorch troubleshooting guide.
    """

    torch_ids = ("GB0219",)
    gb_type = "Backend compiler exception$"
    remedies = (
        call_fix(
            "Find the stage that fails: try --backend eager, then aot_eager, then inductor",
            "PyTorch troubleshooting guide",
            is_safe=True,
        ),
    )

    def message(self, site: BreakSite) -> str:
        raised = _headline(site.cause.explanation)
        return f"the backend couldn't compile the graph: {raised or 'it raised an exception'}"

    def findings(self, view: RecordingView) -> Matches:
        failed = {graph.compile_id: graph for graph in view.recording.graphs if graph.backend_error}
        for compile_ in view.recording.compiles:
            if compile_.failure is None or compile_.failure.type not in _FAILED:
                continue
            graph, frame = failed.get(compile_.compile_id), view.frames.get(compile_.frame_id)
            error = graph.backend_error if graph else compile_.failure.message
            backend = f"`{graph.backend}` " if graph and graph.backend else ""
            raised = _headline(error)
            yield RuleMatch(
                entry=frame.entry if frame is not None else compile_.stack[-1],
                message=f"the backend {backend}raised on graph {compile_.compile_id}{f': {raised}' if raised else ''}",
                of=(compile_,),
                torch_reason=compile_.failure.message,
                user_stack=compile_.stack,
                fixes=self.remedies if graph is None or graph.backend in _STAGES else _OWN,
            )


def _headline(error: str | None) -> str:
    """The type and the first line of the text of the exception, which can stand below its type."""
    text = _OF_TORCH.sub("", error or "")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    whole = next(
        (number for number, line in enumerate(lines, start=1) if not line.endswith(":")), len(lines)
    )
    return without_middle(" ".join(lines[:whole]).rstrip(":"), _MOST_CHARACTERS)
