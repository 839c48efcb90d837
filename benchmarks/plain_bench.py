"""What a person would write to see whether torch.compile pays: ``python plain_bench.py TARGET.py``.

Imports the target, and times its call without and with ``torch.compile`` for a second each. Prints one JSON object:
the median times in microseconds.
"""

from __future__ import annotations

import json
import sys
from importlib.util import module_from_spec, spec_from_file_location

import torch
from torch.utils.benchmark import Timer

SECONDS = 1.0


def main(path: str) -> None:
    spec = spec_from_file_location("target", path)
    assert spec is not None and spec.loader is not None
    target = module_from_spec(spec)
    spec.loader.exec_module(target)
    inputs = target.example_inputs()
    found = {}
    for name, function in {"eager": target.model, "default": torch.compile(target.model)}.items():
        for _ in range(3):
            function(*inputs)
        timer = Timer("f(*inputs)", globals={"f": function, "inputs": inputs}, num_threads=torch.get_num_threads())
        found[name] = timer.blocked_autorange(min_run_time=SECONDS).median * 1e6
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
