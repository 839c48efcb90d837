"""What a person would write without graphdoctor: ``python bare.py TARGET.py`` imports, compiles and
calls.

Prints one JSON object: seconds of the first call, and torch's own compile times.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location

import torch


def main(path: str) -> None:
    spec = spec_from_file_location("target", path)
    assert spec is not None and spec.loader is not None
    target = module_from_spec(spec)
    spec.loader.exec_module(target)
    compiled = torch.compile(target.model, backend="eager")
    inputs = target.example_inputs()
    started = time.perf_counter()
    compiled(*inputs)
    first_call_s = time.perf_counter() - started
    # The list that the trace's compilation_metrics records are made from.
    metrics = torch._dynamo.utils.get_compilation_metrics()
    compile_s = [(entry.duration_us or 0) / 1e6 for entry in metrics]
    print(json.dumps({"first_call_s": first_call_s, "compile_s": compile_s}))


if __name__ == "__main__":
    main(sys.argv[1])
