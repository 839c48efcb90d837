"""Compiles a target again and again in one process, with recording and without in turn:
``compile_twice.py TARGET N``.

Two processes differ by more than recording costs; here both sides share everything but the handlers
on torch's trace logger and the record of graphs. Run with TORCH_TRACE set. Prints one JSON object.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import torch

from graphdoctor.probe.record.files import ProgramFiles
from graphdoctor.probe.record.graphs import GraphRecorder
from graphdoctor.probe.record.listener import TraceListener
from graphdoctor.probe.torch_private import torch_api


def main(path: str, rounds: int) -> None:
    spec = spec_from_file_location("target", path)
    assert spec is not None and spec.loader is not None
    target = module_from_spec(spec)
    spec.loader.exec_module(target)
    logger = torch_api.trace_logger()
    listener = TraceListener(lambda _compile_id: None, ProgramFiles(path))
    recording = [*logger.handlers, listener]
    seconds: dict[str, dict[str, list[float]]] = {}
    for index in range(rounds + 1):
        for side in ("without", "with"):
            logger.handlers[:] = recording if side == "with" else []
            measured = _compile(target, listener if side == "with" else None)
            # The first round of each imports what later ones find imported.
            if index:
                for name, value in measured.items():
                    seconds.setdefault(name, {}).setdefault(side, []).append(value)
    print(json.dumps(seconds))


def _compile(target: Any, listener: TraceListener | None) -> dict[str, float]:
    torch._dynamo.reset()
    torch._dynamo.utils.clear_compilation_metrics()
    compiled = torch.compile(target.model, backend="eager")
    inputs = target.example_inputs()
    with contextlib.ExitStack() as recording:
        if listener is not None:
            recording.callback(GraphRecorder(listener.want_file).install())
        started = time.thread_time()
        compiled(*inputs)
        cpu_s = time.thread_time() - started
    metrics = torch._dynamo.utils.get_compilation_metrics()
    return {"cpu_s": cpu_s, "compile_s": sum((entry.duration_us or 0) / 1e6 for entry in metrics)}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
