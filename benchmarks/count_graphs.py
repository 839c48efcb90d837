"""Compiles a program and makes its calls without graphdoctor, the last one until it makes no graph
anymore; prints the graphs that a backend got and torch's breaks.

``python count_graphs.py program.py``, where the program has ``build()`` and ``example_inputs()``.
"""

from __future__ import annotations

import importlib
import json
import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

_MOST_REPEATS = 24
_TORCH = Path(torch.__file__).parent
graphs: list[torch.fx.GraphModule] = []
sites: set[tuple[str, ...]] = set()
"""File and line of each break outside of torch, as ``TORCH_LOGS=graph_breaks`` prints them; torch's
counters leave some out."""


def _in_torch(line: tuple[str, ...]) -> bool:
    return _TORCH in Path(line[0]).parents


class Sites(logging.Handler):
    """Notes where torch says it broke."""

    def emit(self, record: logging.LogRecord) -> None:
        """See ``logging``."""
        text = record.getMessage()
        found = re.search(r"^Graph break.* in user code at (.+):(\d+)", text)
        if found:
            # Where torch's own Python asks for a value, such as in `any(x > 0)`, its caller breaks.
            lines = re.findall(r'^ *File "(.+)", line (\d+)', text, re.MULTILINE)
            lines = [line for line in lines or [found.groups()] if not _in_torch(line)]
            # A place that torch names again comes without its callers: the first record had them.
            if lines:
                sites.add(lines[-1])


def counting(gm: torch.fx.GraphModule, _inputs: list[Any]) -> Callable[..., Any]:
    """A backend that keeps graphs and runs them as they are."""
    graphs.append(gm)
    return gm.forward


path = Path(sys.argv[1])
sys.path.insert(0, str(path.parent))
# A module that torch can import by its name, as a program's own is.
program = importlib.import_module(path.stem)
torch.manual_seed(0)
built = program.build()
inputs = program.example_inputs()
calls = [inputs] if isinstance(inputs, (tuple, dict)) else list(inputs)
torch._logging.set_logs(graph_breaks=True)  # type: ignore[attr-defined]
named: Any = torch._logging
named.getArtifactLogger("torch._dynamo.symbolic_convert", "graph_breaks").addHandler(Sites())
made = 0
with torch.no_grad():
    compiled = torch.compile(built, backend=counting)
    for call in [*calls, *calls[-1:] * _MOST_REPEATS]:
        before, made = len(graphs), made + 1
        compiled(**call) if isinstance(call, dict) else compiled(*call)
        if made > len(calls) and len(graphs) == before:
            break
print(json.dumps({"graphs": len(graphs), "break_sites": len(sites), "sites": sorted(sites)}))
