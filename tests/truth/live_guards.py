"""What torch itself holds as guards: compiles a program, makes its calls, walks every live guard
tree.

    TORCH_TRACE=anywhere python live_guards.py PROGRAM

Prints JSON: by compile id the text of every guard with the source of the value it hangs on. Shares
no code with graphdoctor.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import torch
import torch._dynamo
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

codes = []
torch._dynamo.convert_frame.register_bytecode_hook(lambda code, _: codes.append(code))


def walk(manager, source, found, seen):
    for leaf in manager.get_leaf_guards():
        kind = type(leaf).__name__
        # torch prints a guard on several values whole at the first of them, and its name at the
        # others.
        if (
            kind in ("OBJECT_ALIASING", "NO_TENSOR_ALIASING", "STORAGE_OVERLAPPING")
            and leaf in seen
        ):
            found.append([kind, source])
            continue
        seen.append(leaf)
        found.extend([f"{kind}: {part}", source] for part in leaf.verbose_code_parts())
    # By their keys' positions, as torch prints them: what is first there has a shared guard's text.
    entries = manager.get_key_value_managers() if hasattr(manager, "get_key_value_managers") else {}
    pairs = [item for _, pair in sorted(entries.items()) for item in pair if item is not None]
    for child in pairs + manager.get_child_managers():
        walk(child, child.get_source(), found, seen)


path = Path(sys.argv[1])
sys.path.insert(0, str(path.parent))
spec = importlib.util.spec_from_file_location(path.stem, path)
module = importlib.util.module_from_spec(spec)
sys.modules[path.stem] = module
spec.loader.exec_module(module)
torch.manual_seed(0)
target = module.build() if hasattr(module, "build") else module.region
inputs = module.example_inputs()
compiled = torch.compile(target, backend="eager")
for call in inputs if isinstance(inputs, list) else [inputs]:
    args, kwargs = ((), call) if isinstance(call, dict) else (call, {})
    compiled(*args, **kwargs)
trees = {}
for code in dict.fromkeys(codes):
    for entry in _debug_get_cache_entry_list(code):
        root = entry.guard_manager.root
        found: list[list[str | None]] = []
        walk(root, None, found, [])
        found.extend(
            [f"LAMBDA_GUARD: {part}", None]
            for leaf in root.get_epilogue_lambda_guards()
            for part in leaf.verbose_code_parts()
        )
        trees[str(entry.compile_id)] = found
print(json.dumps(trees))
