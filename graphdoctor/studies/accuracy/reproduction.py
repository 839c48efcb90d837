"""Writes the smallest wrong graph as a program of its own, and runs it: only one that is wrong
without the user's program is shown.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from graphdoctor.facts.located import Located
from graphdoctor.studies.accuracy.stages import DECOMPOSED, INDUCTOR

NAME = "smallest.py"
_STAGES = ("aot_eager", DECOMPOSED, INDUCTOR)
"""Backends that everybody has."""
_LIMIT_S = 120.0

_FORWARD = """\
def run(function):
    torch.manual_seed(0)
    return function(*[it.clone() if isinstance(it, torch.Tensor) else it for it in inputs])
"""
_BACKWARD = """\
def run(function):
    torch.manual_seed(0)
    learnt = [it for it in inputs if isinstance(it, torch.Tensor) and it.requires_grad]
    outputs = [it for it in function(*inputs) if it.requires_grad]
    weights = [torch.randn_like(it) for it in outputs]
    return torch.autograd.grad(outputs, learnt, weights, allow_unused=True)
"""
_TEXT = """\
import torch
from torch import device, inf, nan

torch.manual_seed(0)


{program}


{run}

eager = run(program)
compiled = run(torch.compile(program, backend="{backend}"))
print("compiled")
torch.testing.assert_close(compiled, eager)
"""


def reproduction(
    located: Located | None, backend: str, interpreter: str, folder: Path
) -> str | None:
    """Return a program that raises because results differ; None if there is none."""
    if located is None or located.program is None or backend not in _STAGES:
        return None
    run = _BACKWARD if located.direction == "backward" else _FORWARD
    text = _TEXT.format(program=located.program, run=run, backend=backend)
    path = folder / NAME
    path.write_text(text, encoding="utf-8")
    try:
        done = subprocess.run(
            [interpreter, str(path)],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # Both forms ran, and what they gave differs.
    return text if done.returncode == 1 and done.stdout.split() == ["compiled"] else None
