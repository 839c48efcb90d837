"""What a person would write without graphdoctor: compile the target, make its calls, let torch log.

    TORCH_LOGS=graph_breaks,recompiles TORCH_TRACE=anywhere python bare.py

Reads one job a line from its standard input, ``{"program", "folder", "backend", "fullgraph",
"backward"}``, and answers each with a line. A job is done in a fork: Dynamo has compiled nothing
before, and importing torch is paid once. What torch logs goes to ``stderr.txt`` and ``trace/`` in
the job's folder; ``counted.json`` gets what only the process itself can count: graphs handed to the
backend, frames that got code, torch's counters.

Shares no code with graphdoctor. ``PYTHONPATH`` names the folder of ``tests``.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import random
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
import torch._dynamo

from tests.fixes.oracle import target_of


def load(program: str) -> Any:
    sys.path.insert(0, str(Path(program).parent))
    spec = importlib.util.spec_from_file_location(Path(program).stem, program)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def seed() -> None:
    random.seed(0)
    torch.manual_seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)


def backward(output: object) -> None:
    leaves = [
        leaf for leaf in torch.utils._pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)
    ]
    sum(leaf.sum() for leaf in leaves if leaf.requires_grad and leaf.is_floating_point()).backward()


def run(job: dict[str, Any]) -> dict[str, Any]:
    seed()
    module = load(job["program"])
    target = (
        module.build()
        if hasattr(module, "build")
        else getattr(module, "region", None) or target_of(module)
    )
    seed()
    inputs = module.example_inputs()
    inner = torch._dynamo.lookup_backend(job["backend"])
    counted: dict[str, Any] = {"graphs": 0, "codes": 0, "error": None, "cause": None}

    def backend(gm, example_inputs):
        counted["graphs"] += 1
        return inner(gm, example_inputs)

    def on_code(code, new_code):
        counted["codes"] += 1

    torch._dynamo.convert_frame.register_bytecode_hook(on_code)
    compiled = torch.compile(target, backend=backend, fullgraph=job["fullgraph"])
    for call in [inputs] if isinstance(inputs, tuple) else inputs:
        is_pair = [type(part) for part in call] == [tuple, dict]
        args, kwargs = ((), call) if isinstance(call, dict) else call if is_pair else (call, {})
        try:
            output = compiled(*args, **kwargs)
            if job["backward"]:
                backward(output)
                if isinstance(target, torch.nn.Module):
                    target.zero_grad()
        except Exception as error:  # noqa: BLE001 - what it raises is the answer
            counted["error"] = type(error).__name__
            if isinstance(error, torch._dynamo.exc.InternalTorchDynamoError):
                counted["cause"] = str(error).partition(":")[0]
            break
    counted["counters"] = {
        name: dict(values) for name, values in torch._dynamo.utils.counters.items()
    }
    return counted


def fork(job: dict[str, Any]) -> int:
    """Do a job in a child with streams and trace folder of its own; returns its exit status."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        folder = Path(job["folder"])
        for descriptor, name in ((1, "stdout.txt"), (2, "stderr.txt")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600), descriptor)
        (handler,) = logging.getLogger("torch.__trace").handlers
        handler.root_dir = str(folder / "trace")  # type: ignore[attr-defined]
        counted = run(job)
        (folder / "counted.json").write_text(json.dumps(counted))
        status = 0
    except BaseException:  # noqa: BLE001 - a fork must end here, whatever happens
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    for line in sys.stdin:
        print(fork(json.loads(line)), flush=True)
