"""One steady compiled call on a GPU, for a profiler that looks at nothing else: ``python
counted_call.py TARGET.py``.

With ``--backward`` the sum of its results is differentiated.
"""

from __future__ import annotations

import os
import sys
from importlib.util import module_from_spec, spec_from_file_location

# Under a profiler, processes that Inductor starts to compile in can end this one with a
# segmentation fault.
os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import torch
from torch.utils._pytree import tree_leaves


def main(path: str, *options: str) -> None:
    spec = spec_from_file_location("target", path)
    assert spec is not None and spec.loader is not None
    target = module_from_spec(spec)
    spec.loader.exec_module(target)
    inputs = [tensor.cuda() for tensor in target.example_inputs()]
    compiled = torch.compile(target.model.cuda())
    has_backward = "--backward" in options
    torch.set_grad_enabled(has_backward)

    def call() -> None:
        found = [leaf for leaf in tree_leaves(compiled(*inputs)) if isinstance(leaf, torch.Tensor)]
        if has_backward:
            torch.stack([leaf.sum() for leaf in found if leaf.requires_grad]).sum().backward()
        torch.cuda.synchronize()

    for _ in range(4):
        call()
    torch.cuda.profiler.start()
    call()
    torch.cuda.profiler.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
