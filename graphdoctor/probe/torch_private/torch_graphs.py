"""Graphs on their way from Dynamo to a backend, and graphs of ours that the same backend compiles.

``torch/_dynamo/output_graph.py``, ``torch/_guards.py``, ``torch/_inductor/graph.py`` and
``torch/fx/experimental/symbolic_shapes.py``, 2.11 to 2.15.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

import torch
from torch import SymInt, Tensor
from torch._guards import TracingContext, tracing
from torch.fx import GraphModule

from .torch_api import Function, Undo, current_compile_id, node_value, wrap
from .torch_config import miss_caches

Backend = Callable[[GraphModule, Sequence[Any]], Function]
"""Compiles a graph for example inputs; what it returns takes inputs by position."""


Around = Callable[[Backend, GraphModule, str], Callable[[Function], Function]]
"""Gets a backend, the graph before that changes it, and the compile's id, such as ``0/1``; returns
what takes the compiled graph, and gives what runs in its place."""


def replace_compiled_graphs(around: Around) -> Undo:
    """Have what backends return for Dynamo's graphs replaced."""

    def call(original: Function, output: Any, gm: GraphModule, *args: Any) -> Function:
        replaced = around(output.compiler_fn, gm, current_compile_id() or "?")
        return replaced(original(output, gm, *args))

    return wrap(import_module("torch._dynamo.output_graph").OutputGraph, "call_user_compiler", call)


def compiled_graph(backend: Backend, gm: GraphModule, inputs: Sequence[Any]) -> Function:
    """Compile a graph outside of Dynamo for these inputs, with a symbol for each size that is one
    in the example values of its placeholders.

    AOTAutograd reads from ``TracingContext.tensor_to_context`` which sizes get symbols
    (``process_inputs``, ``torch/_functorch/_aot_autograd/frontend_utils.py``, 2.13).
    """
    from torch._dynamo.source import ConstantSource
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental import symbolic_shapes

    kinds = symbolic_shapes.DimDynamic
    context = TracingContext(FakeTensorMode(shape_env=symbolic_shapes.ShapeEnv()))
    for node, value in zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=True):
        if not isinstance(value, Tensor):
            continue
        example = node_value(node)
        sizes: Sequence[Any] = value.shape
        if isinstance(example, Tensor) and example.ndim == value.ndim:
            sizes = example.shape
        # Equal sizes share a symbol, as they do in Dynamo.
        context.tensor_to_context[value] = symbolic_shapes.StatefulSymbolicContext(
            dynamic_sizes=[kinds.DUCK if isinstance(it, SymInt) else kinds.STATIC for it in sizes],
            tensor_source=ConstantSource(node.name),
        )
    miss_caches()
    with tracing(context):
        return backend(gm, inputs)


@contextmanager
def generated_code() -> Iterator[dict[str, str]]:
    """Collect the code that Inductor, if it's in use, generates meanwhile, the last for each
    phase.
    """
    codes: dict[str, str] = {}
    inductor = sys.modules.get("torch._inductor.graph")
    if inductor is None:
        yield codes
        return

    def keep(original: Function, lowering: Any, *args: Any) -> Any:
        result = original(lowering, *args)
        # Both codes with their lines since 2.7; another torch may have other types.
        with suppress(Exception):
            phase = "backward" if lowering.is_backward else "forward"
            codes[phase] = str(result[0].value)
        return result

    undo = wrap(inductor.GraphLowering, "codegen", keep)
    try:
        yield codes
    finally:
        undo()


def ambient_modes() -> tuple[Any, ...]:
    """Describe the modes that eager kernels depend on: gradients, inference, autocast, transforms
    of functions.
    """
    devices = ("cpu", "cuda") if torch.cuda.is_initialized() else ("cpu",)
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        tuple((it, torch.is_autocast_enabled(it), torch.get_autocast_dtype(it)) for it in devices),
        torch._C._functorch.maybe_current_level(),
    )
