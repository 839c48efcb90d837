"""Compiles the module inside DistributedDataParallel in the place of DDP itself, for a program that runs again."""

from __future__ import annotations

from functools import wraps
from importlib import import_module
from typing import Any

from . import torch_api
from .replacing import Undo, put_in_place


def compile_inside_ddp() -> Undo:
    """Have torch.compile of a DDP compile ``ddp.module``, and return the DDP.

    ``OptimizeContext.__call__`` gets what torch.compile gets; ``Module.compile()`` compiles ``_call_impl``
    (``torch/_dynamo/eval_frame.py`` and ``torch/nn/modules/module.py``, 2.11 to 2.15).
    """
    from torch.nn.parallel import DistributedDataParallel

    kind = import_module("torch._dynamo.eval_frame").OptimizeContext
    owner = next(base for base in kind.__mro__ if "__call__" in vars(base))
    compile_function = owner.__call__

    def call(context: Any, function: Any) -> Any:  # noqa: ANN401
        called = getattr(function, "__self__", function)
        if not isinstance(called, DistributedDataParallel):
            return compile_function(context, function)
        if function is called or getattr(function, "__name__", "") == "_call_impl":
            called.module = compile_function(context, called.module)
        return function

    torch_api.keep_from_compiling(call)
    return put_in_place(owner, "__call__", wraps(compile_function)(call))
