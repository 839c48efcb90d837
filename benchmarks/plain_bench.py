"""What a person would write to see whether torch.compile pays: ``python plain_bench.py TARGET.py
[DEVICE MODE…]``.

Imports the target, and times its call without and with ``torch.compile`` for a second each. Prints
one JSON object: the quartiles of the times in microseconds.
"""

from __future__ import annotations

import json
import statistics
import sys
from importlib.util import module_from_spec, spec_from_file_location

import torch
from torch.utils.benchmark import Timer

SECONDS = 1.0


def main(path: str, device: str = "cpu", *modes: str) -> None:
    spec = spec_from_file_location("target", path)
    assert spec is not None and spec.loader is not None
    target = module_from_spec(spec)
    spec.loader.exec_module(target)
    model = target.model.to(device)
    inputs = [tensor.to(device) for tensor in target.example_inputs()]
    # torch can't launch a CUDA graph again while outputs of its last call await their backward
    # pass.
    torch.set_grad_enabled(device == "cpu")
    ways = {"eager": model, "default": torch.compile(model)}
    ways |= {f"mode={mode}": torch.compile(model, mode=mode) for mode in modes}
    found = {}
    for name, function in ways.items():
        torch.compiler.reset()
        for _ in range(3):
            function(*inputs)
        timer = Timer(
            "f(*inputs)",
            globals={"f": function, "inputs": inputs},
            num_threads=torch.get_num_threads(),
        )
        times: list[float] = []
        while len(times) < 2:  # a busy machine may take all the time for one block
            times += timer.blocked_autorange(min_run_time=SECONDS).times
        found[name] = [time * 1e6 for time in statistics.quantiles(times, n=4, method="inclusive")]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
