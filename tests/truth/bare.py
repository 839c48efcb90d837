"""What a person would write without graphdoctor: compile the target, make its calls, let torch log.

    TORCH_LOGS=graph_breaks,recompiles TORCH_TRACE=folder python bare.py PROGRAM OUTPUT.json [option=value …]

Shares no code with graphdoctor. Writes what only the process itself can count: graphs handed to the backend, frames
that got code, torch's own counters.
"""

import contextlib
import importlib
import importlib.util
import json
import random
import sys
from pathlib import Path

import torch


def load(program):
    sys.path.insert(0, str(Path(program).parent))
    spec = importlib.util.spec_from_file_location(Path(program).stem, program)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def seed():
    random.seed(0)
    torch.manual_seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)


def backward(output):
    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    sum(leaf.sum() for leaf in leaves if leaf.requires_grad and leaf.is_floating_point()).backward()


def main(program, output, *options):
    chosen = dict(option.split("=") for option in options)
    seed()
    module = load(program)
    target = module.build()
    seed()
    inputs = module.example_inputs()
    inner = torch._dynamo.lookup_backend(chosen.get("backend", "eager"))
    counted = {"graphs": 0, "codes": 0, "error": None}

    def backend(gm, example_inputs):
        counted["graphs"] += 1
        return inner(gm, example_inputs)

    def on_code(code, new_code):
        counted["codes"] += 1

    torch._dynamo.convert_frame.register_bytecode_hook(on_code)
    compiled = torch.compile(target, backend=backend, fullgraph="fullgraph" in chosen)
    torch._dynamo.utils.counters.clear()
    for call in inputs:
        kwargs = {}
        if isinstance(call, dict):
            call, kwargs = (), call
        try:
            result = compiled(*call, **kwargs)
            if "backward" in chosen:
                backward(result)
                with contextlib.suppress(AttributeError):
                    target.zero_grad()
        except Exception as error:
            counted["error"] = type(error).__name__
            break
    counted["counters"] = {name: dict(values) for name, values in torch._dynamo.utils.counters.items()}
    Path(output).write_text(json.dumps(counted))


if __name__ == "__main__":
    main(*sys.argv[1:])
