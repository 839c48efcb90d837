"""Compiles programs one after the other and makes their calls; for ``graphdoctor run``, which sees
them all at once.

python compile_all.py model.py model.fixed.py …
"""

from __future__ import annotations

import sys
import traceback

import torch

from tests.fixes.recipes.same_in_eager import calls, load, target


def compile_program(path: str) -> None:
    torch.manual_seed(0)
    program = load(path)
    compiled = torch.compile(target(program), backend="eager")
    # One by one: some change the program between two of their calls.
    for args, kwargs in calls(program):
        compiled(*args, **kwargs)


if __name__ == "__main__":
    for path in sys.argv[1:]:
        torch._dynamo.reset()
        try:
            # What one program sets is no setting of the next one.
            with torch._dynamo.config.patch(trace_autograd_ops=False):
                compile_program(path)
        except Exception:  # noqa: BLE001 - one program's trouble, torch's own included, is none of the others' business
            traceback.print_exc()
