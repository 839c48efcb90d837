"""What a person would write to see where the time of a compiled call goes: ``python
plain_profile.py TARGET.py``.

Imports the target, calls it with ``torch.compile`` and without until it is warm, and prints
torch.profiler's table of the calls that follow, for both.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location

import torch
from torch.profiler import profile

CALLS = 20


def main(path: str) -> None:
    spec = spec_from_file_location("target", path)
    assert spec is not None and spec.loader is not None
    target = module_from_spec(spec)
    spec.loader.exec_module(target)
    inputs = target.example_inputs()
    for function in (torch.compile(target.model), target.model):
        for _ in range(3):
            function(*inputs)
        with profile() as profiler:
            for _ in range(CALLS):
                function(*inputs)
        print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=20))


if __name__ == "__main__":
    main(*sys.argv[1:])
