"""Compiles the snippets of rules' documentation one after the other, for ``graphdoctor run``, which sees them all.

python compile_snippets.py GD101_example.py GD101_use.py …
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import torch


def compile_snippet(path: Path) -> None:
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(path.read_text(), str(path), "exec"), names)
    torch.manual_seed(0)
    compiled = torch.compile(names["forward"], backend="eager")
    inputs = names["inputs"]()
    # A list or a generator is several calls; the latter may change state in between.
    for args in [inputs] if isinstance(inputs, tuple) else inputs:
        compiled(*args)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        torch._dynamo.reset()
        kept = torch._dynamo.config.save_config()
        try:
            compile_snippet(Path(name).resolve())
        except Exception:  # noqa: BLE001 - whatever a snippet raises is none of the others' business
            # Some show what raises; what was recorded is looked at.
            traceback.print_exc()
        finally:
            torch._dynamo.config.load_config(kept)
            torch.set_grad_enabled(True)
