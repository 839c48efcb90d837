"""Makes the recordings on a CUDA device beside it: ``cuda.bare/`` and ``cuda.events.json`` of one
program.

    python make_cuda.py PYTHON

``PYTHON`` is an interpreter whose torch uses a CUDA device, and in whose environment graphdoctor's
needs are. A small program is compiled with CUDA graphs under ``TORCH_TRACE`` (``cuda.bare/``).
torch.profiler's events of a steady call of it are ``graphs``, of the same call without CUDA graphs
``one_by_one`` (``cuda.events.json``: the values of a ``ProfiledEvent`` for each, times since the
call began). What ``make.py`` replaces in logs is replaced here too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from make import HERE, REPOSITORY, asked, clean_environment, neutral_paths, save

_PROGRAM = """
import json
import sys

import torch
from graphdoctor.probe.measure.kernels import CALL_RANGE
from graphdoctor.probe.torch_private.torch_codegen import graph_runs_marked
from graphdoctor.probe.torch_private.torch_kernels import launch_one_by_one
from graphdoctor.probe.torch_private.torch_kernels import profile_activities, profiled_events


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = torch.nn.Linear(256, 3 * 256)
        self.out = torch.nn.Linear(256, 256)
        self.norm = torch.nn.LayerNorm(256)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, 64)).permute(2, 0, 3, 1, 4)
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.norm(x + self.out(attended.transpose(1, 2).flatten(2))).square().mean()


torch.manual_seed(0)
model, x = Block().cuda(), torch.randn(4, 128, 256, device="cuda")


def events(compiled):
    def call():
        compiled(x).backward()
        model.zero_grad()

    for _ in range(5):
        call()
    with torch.profiler.profile(activities=profile_activities()) as profiler:
        for _ in range(3):
            torch.cuda.synchronize()
            with torch.profiler.record_function(CALL_RANGE):
                call()
                torch.cuda.synchronize()
    found = profiled_events(profiler)
    calls = [event for event in found if event.name == CALL_RANGE and not event.is_on_device]
    last = max(calls, key=lambda event: event.start_ns)
    kept = [event for event in found if last.start_ns <= event.start_ns < last.end_ns]
    return [event._replace(start_ns=event.start_ns - last.start_ns) for event in kept]


compiled = torch.compile(model, mode="reduce-overhead")
with graph_runs_marked():
    found = {"graphs": events(compiled)}
    undo = launch_one_by_one()
    found["one_by_one"] = events(compiled)
    undo()
json.dump(found, open(sys.argv[1], "w"))
"""
_KEPT = (
    *("str", "torch_version", "dynamo_start", "dynamo_cpp_guards_str", "compilation_metrics"),
    *("bwd_compilation_metrics", "inductor_output_code"),
    *(
        "inductor_provenance_tracking_node_mappings",
        "inductor_provenance_tracking_kernel_stack_traces",
    ),
)


def main(python: str) -> None:
    version, roots = asked(python)
    with tempfile.TemporaryDirectory() as temporary:
        demo = Path(temporary) / "demo"
        demo.mkdir()
        (demo / "program.py").write_text(_PROGRAM)
        environment = clean_environment() | {
            "TORCHINDUCTOR_CACHE_DIR": str(Path(temporary) / "cache"),
            "TORCH_TRACE": str(Path(temporary) / "trace"),
            "INDUCTOR_PROVENANCE": "1",
            "PYTHONPATH": str(REPOSITORY),
        }
        subprocess.run([python, "program.py", "events.json"], cwd=demo, env=environment, check=True)
        folder = HERE / version
        compiler = {str(Path(os.environ["CXX"]).parent) + "/": ""} if "CXX" in os.environ else {}
        replacements = neutral_paths(demo, Path(temporary), roots) | compiler
        save(Path(temporary) / "trace", folder / "cuda.bare", replacements, kinds=_KEPT)
        found = json.loads((demo / "events.json").read_text())
        lines = (f'"{name}": [\n{rows(events)}\n]' for name, events in found.items())
        (folder / "cuda.events.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def rows(events: list[object]) -> str:
    """Each event in a line of its own."""
    return ",\n".join(json.dumps(event) for event in events)


if __name__ == "__main__":
    main(sys.argv[1])
