"""Runs programs one after the other, for ``graphdoctor run``, which sees them all.

python compile_programs.py print.py good-print.py …
"""

from __future__ import annotations

import sys
import traceback
import types
from pathlib import Path

import torch

if __name__ == "__main__":
    for name in sys.argv[1:]:
        torch._dynamo.reset()
        torch.manual_seed(0)
        kept = torch._dynamo.config.save_config()
        path = Path(name).resolve()
        module = types.ModuleType(path.stem)
        module.__file__ = str(path)
        sys.modules[path.stem] = module  # where dataclasses look for it
        try:
            exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
        except Exception:  # noqa: BLE001 - whatever a program raises is none of the others' business
            traceback.print_exc()
        finally:
            torch._dynamo.config.load_config(kept)
            torch.set_grad_enabled(True)
