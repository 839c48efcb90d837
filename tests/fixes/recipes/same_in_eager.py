"""Runs pairs of programs in eager mode and prints, as JSON by path, what differs in what they
compute; None if nothing.

python same_in_eager.py model.py mended.py other.py mended_other.py …
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

_NEVER = {"training", "_is_full_backward_hook", "call_super_init", "dump_patches"}


def load(path: str) -> ModuleType:
    module = ModuleType("program")
    exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)
    return module


def target(program: ModuleType) -> Any:
    if hasattr(program, "build"):
        return program.build()
    if hasattr(program, "model"):
        return program.model
    values = [
        value
        for name, value in vars(program).items()
        if getattr(value, "__module__", None) == "program"
    ]
    classes = [
        value for value in values if isinstance(value, type) and issubclass(value, torch.nn.Module)
    ]
    return classes[0]() if classes else program.forward


def calls(program: ModuleType) -> Any:
    usual = (torch.randn(4, 8, requires_grad=True),)
    inputs = program.example_inputs() if hasattr(program, "example_inputs") else usual
    if isinstance(inputs, tuple):
        inputs = [inputs]
    for call in inputs:
        yield call if len(call) == 2 and isinstance(call[1], dict) else (call, {})


def tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [leaf for item in value for leaf in tensors(item)]
        if isinstance(value, list | tuple)
        else []
    )


def numbers(module: torch.nn.Module) -> dict[str, float]:
    """Numbers of modules, whether Python's or in buffers of no dims."""
    by_path = {}
    for path, part in module.named_modules():
        for name, value in [*vars(part).items(), *part.named_buffers(recurse=False)]:
            is_number = isinstance(value, int | float) or (
                isinstance(value, torch.Tensor) and value.dim() == 0
            )
            if name not in _NEVER and is_number:
                by_path[f"{path}.{name}"] = float(value)
    return by_path


def results(path: str) -> list[Any]:
    torch.manual_seed(0)
    random.seed(0)
    program = load(path)
    model = target(program)
    parameters = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    outcomes: list[Any] = []
    for args, kwargs in calls(program):
        output = model(*args, **kwargs)
        leaves = [leaf for leaf in tensors((args, kwargs)) if leaf.is_leaf and leaf.requires_grad]
        loss = [leaf.float().sum() for leaf in tensors(output) if leaf.requires_grad]
        if loss:
            torch.stack(loss).sum().backward()
        outcomes += [
            output,
            [leaf.grad for leaf in (*leaves, *parameters)],
            list(tensors((args, kwargs))),
        ]
    if isinstance(model, torch.nn.Module):
        outcomes += [dict(model.state_dict()), numbers(model)]
    return outcomes


def difference(path: str, mended: str) -> str | None:
    try:
        before, after = results(path), results(mended)
        torch.testing.assert_close(after, before, rtol=1e-6, atol=1e-6, equal_nan=True)
    except Exception as error:  # noqa: BLE001 - whatever a program raises is the answer
        return f"{type(error).__name__}: {error}"
    return None


if __name__ == "__main__":
    # What the programs print is not the answer.
    sys.stdout, answer = sys.stderr, sys.stdout
    json.dump(
        {
            path: difference(path, mended)
            for path, mended in zip(sys.argv[1::2], sys.argv[2::2], strict=True)
        },
        answer,
    )
