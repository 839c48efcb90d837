"""Looks on while Inductor generates code: which operations are in which kernel, what each moves and computes.

``torch/_inductor/debug.py`` (``set_kernel_post_grad_provenance_tracing``), ``graph.py``, ``scheduler.py``,
``output_code.py`` and ``fx_utils.py`` (``count_flops_fx``), ``torch/utils/flop_counter.py``, 2.11 to 2.15.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from importlib import import_module
from typing import Any

import torch

from ...facts.kernels import ProfilePhase
from ...facts.profiled import InductorKernelKind
from .replacing import Undo, put_in_place
from .torch_kernels import quick_range

_HOOK = "set_kernel_post_grad_provenance_tracing"
"""Inductor calls it for each call of a kernel that it writes into the code."""

_IMPORTED_BY = ("torch._inductor.debug", "torch._inductor.codegen.triton", "torch._inductor.codegen.cpp")
"""Modules that have the hook under its name; others import it when they call it."""

RUN_RANGE = "graphdoctor_inductor "
"""What the profiler ranges of runs of Inductor's graphs begin with; then the graph's number and the phase."""


@dataclass
class GeneratedKernel:
    """One call of a kernel in generated code.

    Args:
        bytes: Memory that it must read and write; None if Inductor can't say.
        flops: Of its matrix products and convolutions; None if it has none, or torch can't count them.
        dtype: Of the factors of these; None if it has none.
    """

    name: str
    kind: InductorKernelKind
    nodes: list[torch.fx.Node]
    bytes: int | None
    flops: int | None
    dtype: str | None


@dataclass
class GeneratedGraph:
    """A graph for which Inductor generated code."""

    number: int
    phase: ProfilePhase
    nodes: list[torch.fx.Node] = field(default_factory=list)
    kernels: list[GeneratedKernel] = field(default_factory=list)


class CodegenWatch:
    """Hands on each graph for which code was generated, until it is closed.

    Code that Inductor finds in its cache isn't generated.

    Raises:
        ImportError, AttributeError, KeyError: This torch generates code by other names.
    """

    def __init__(self, on_graph: Callable[[GeneratedGraph], None]) -> None:
        self._on_graph = on_graph
        self.graphs = 0
        """How many there were so far."""
        self.failure: str | None = None
        """What went wrong first in looking on; the compile went on without us."""
        self._current: GeneratedGraph | None = None
        self._undo: list[Undo] = []
        from torch._inductor import config
        from torch._inductor.graph import GraphLowering

        config.trace.provenance_tracking_level = 1
        for name in _IMPORTED_BY:
            self._replace(import_module(name), _HOOK, self._seen)
        self._replace(GraphLowering, "codegen", self._graph)

    def close(self) -> None:
        """Stop looking on."""
        while self._undo:
            self._undo.pop()()

    def _replace(self, owner: Any, name: str, around: Callable[..., Any]) -> None:  # noqa: ANN401
        original = vars(owner)[name]

        @wraps(original)
        def replacement(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            return around(original, *args, **kwargs)

        self._undo.append(put_in_place(owner, name, replacement))

    def _graph(self, original: Callable[..., Any], lowering: Any, *args: Any) -> Any:  # noqa: ANN401
        if lowering.graph_id is None:
            return original(lowering, *args)
        self._current = GeneratedGraph(lowering.graph_id, "backward" if lowering.is_backward else "forward")
        try:
            result = original(lowering, *args)
            self.graphs += 1
            with self._survived():
                self._current.nodes = list(lowering.module.graph.nodes)
                self._on_graph(self._current)
        finally:
            self._current = None
        return result

    @contextmanager
    def _survived(self) -> Iterator[None]:
        """What we look at is private: if it is other than we know it, the program must still compile."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever another torch's objects raise
            self.failure = self.failure or f"{type(error).__name__}: {error}"

    def _seen(self, original: Callable[..., Any], scheduled: Any, name: str, is_extern: bool = False) -> Any:  # noqa: ANN401 - as torch declares it
        if self._current is not None:
            kernel = GeneratedKernel(name, "other", [], None, None, None)
            with self._survived():
                kernel = _library(scheduled, name) if is_extern else _fused(scheduled, name)
            self._current.kernels.append(kernel)
        return original(scheduled, name, is_extern)


def _library(node: Any, name: str) -> GeneratedKernel:  # noqa: ANN401
    from torch._inductor import ir
    from torch._inductor.utils import is_collective
    from torch._inductor.virtualized import V

    origin = node.origin_node
    scheduled = V.graph.scheduler.name_to_node.get(node.get_operation_name())
    kind: InductorKernelKind = "library"
    if is_collective(node):
        kind = "communication"
    elif isinstance(node, ir.UserDefinedTritonKernel):
        kind = "user"
    # Among its origins are those of what it reads, if that wasn't in memory when it was made.
    own = max(node.origins, default=None) if origin is None else origin
    found = [] if scheduled is None else [scheduled]
    nodes = [] if own is None else [own]
    flops, dtype = flops_of(nodes), factor_dtype(nodes)
    if flops is None and own is not None:
        flops, dtype = packed_flops(name, node, own)
    return GeneratedKernel(name, kind, nodes, _bytes(found), flops, dtype)


def _fused(scheduled: Sequence[Any], name: str) -> GeneratedKernel:
    from torch._inductor.virtualized import V

    # Markers of loops are among them.
    single = [each for each in scheduled if getattr(each, "node", None) is not None]
    fused_as = V.graph.scheduler.name_to_fused_node
    whole = list({id(found): found for each in single for found in [fused_as.get(each.get_name(), each)]}.values())
    nodes = list(dict.fromkeys(origin for each in single for origin in each.node.origins))
    if all(map(is_view, nodes)):
        nodes = _readers(single) or nodes
    products = [each.node.get_origin_node() for each in single if each.is_template() or each.is_extern()]
    counted = [node for node in products if node is not None]
    kind, size = _kind(single), _bytes(whole)
    return GeneratedKernel(name, kind, nodes, size, flops_of(counted), factor_dtype(counted))


def _readers(scheduled: Sequence[Any]) -> list[torch.fx.Node]:
    """What reads what a kernel writes: one that only brings a tensor into another layout works for that."""
    users = [user.node for each in scheduled for buffer in each.get_outputs() for user in buffer.users]
    nodes = [getattr(user, "node", None) for user in users if user not in scheduled]
    return list(dict.fromkeys(origin for node in nodes for origin in getattr(node, "origins", ())))


def _kind(scheduled: Sequence[Any]) -> InductorKernelKind:
    if any(each.is_template() for each in scheduled):
        return "template"
    return "reduction" if any(each.is_reduction() for each in scheduled) else "pointwise"


def _bytes(scheduled: Sequence[Any]) -> int | None:
    if not scheduled:
        return None
    return sum(int(each.get_read_write_buffers_sizes()) for each in scheduled)


@contextmanager
def graph_runs_marked() -> Iterator[None]:
    """Meanwhile, each run of a graph of Inductor's shows itself to the profiler as a range, and takes a little longer.

    Raises:
        ImportError, AttributeError, KeyError: This torch runs them otherwise.
    """
    from torch._inductor.output_code import CompiledFxGraph

    original = vars(CompiledFxGraph)["__call__"]

    def call(graph: Any, inputs: Sequence[Any]) -> Any:  # noqa: ANN401
        asked = graph.fx_kwargs
        phase = "backward" if asked.get("is_backward") else "forward"
        with quick_range(f"{RUN_RANGE}{asked.get('graph_id')} {phase}"):
            return original(graph, inputs)

    undo = put_in_place(CompiledFxGraph, "__call__", call)
    try:
        yield
    finally:
        undo()


def is_view(node: torch.fx.Node) -> bool:
    """The node computes nothing: it looks at another tensor in another way, or takes an item of a tuple."""
    if node.op != "call_function":
        return True
    target = node.target
    return target.is_view if isinstance(target, torch._ops.OpOverload) else getattr(target, "__name__", "") == "getitem"


def operation_of(node: torch.fx.Node) -> str:
    """The operation that a node was decomposed from, or it itself."""
    return str(node.meta.get("original_aten") or target_of(node))


def target_of(node: torch.fx.Node) -> str:
    """The operation that a node is now; of a function that Inductor puts in its place, such as oneDNN's, its name."""
    if isinstance(node.target, (torch._ops.OperatorBase, torch._ops.OpOverloadPacket)):
        return str(node.target)
    return str(getattr(node.target, "__name__", node.name))


def module_of(node: torch.fx.Node) -> str | None:
    """The innermost module that a node, or the forward node that it is the backward of, was called in."""
    modules = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    return next((str(path) for path, _ in reversed([*modules.values()])), None)


def readers(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """The nodes that read a node's value, through views too."""
    for user in node.users:
        if user.op != "output" and is_view(user):
            yield from readers(user)
        else:
            yield user


def value_bytes(node: torch.fx.Node) -> int | None:
    """The size of the tensors that a node makes, with the sizes of the call that is compiled; None if it is unknown."""
    sizes = [_count(value, value.element_size()) for value in _tensors(node.meta.get("val"))]
    return _sum(sizes)


def elements(node: torch.fx.Node) -> int | None:
    """How many elements a node works on: those of the largest tensor that it takes or makes; None if unknown."""
    values = [value for each in (node, *node.all_input_nodes) for value in _tensors(each.meta.get("val"))]
    counts = [_count(value) for value in values]
    known = [count for count in counts if count is not None]
    return max(known) if known and len(known) == len(counts) else None


def _tensors(value: object) -> list[torch.Tensor]:
    values = value if isinstance(value, (tuple, list)) else [value]
    return [each for each in values if isinstance(each, torch.Tensor)]


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _count(value: torch.Tensor, each: int = 1) -> int | None:
    """Its elements times a number; None if a size is unknown."""
    sizes = shape(value)
    return None if sizes is None else math.prod(sizes) * each


def shape(value: torch.Tensor) -> list[int] | None:
    """A tensor's shape in the call that is compiled; None if a size has no hint, as one read from a tensor."""
    sizes: list[Any] = list(value.shape)
    found = [size if isinstance(size, int) else getattr(size.node, "hint", None) for size in sizes]
    known = [size for size in found if isinstance(size, int)]
    return known if len(known) == len(found) else None


_STANDS_FOR = {
    "aten._scaled_dot_product_flash_attention_for_cpu": "_scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_flash_attention_for_cpu_backward": "_scaled_dot_product_flash_attention_backward",
    "aten._scaled_dot_product_fused_attention_overrideable": "_scaled_dot_product_flash_attention",
    "aten._scaled_dot_product_fused_attention_overrideable_backward": "_scaled_dot_product_flash_attention_backward",
    "aten._int_mm": "mm",
}
"""Operations that torch has no formula for, with one of ``aten`` that has, whose first arguments are the same."""


def flops_of(nodes: Sequence[torch.fx.Node]) -> int | None:
    """The floating-point operations of nodes, with the sizes of the call that is compiled.

    Returns:
        None if none of them is a matrix product or a convolution that torch can count.
    """
    known = [count for count in map(_flops, nodes) if count]
    return sum(known) if known else None


def factor_dtype(nodes: Sequence[torch.fx.Node]) -> str | None:
    """Dtype of what matrix products and convolutions multiply; None if there are none."""
    return next((dtype for node in nodes if _flops(node) for dtype in input_dtypes(node)), None)


def input_dtypes(node: torch.fx.Node) -> list[str]:
    """Dtypes of the tensors that a node reads, such as ``float32``, each once, in order."""
    names = [dtype_name(each) for each in node.all_input_nodes]
    return list(dict.fromkeys(name for name in names if name is not None))


def dtype_name(node: torch.fx.Node) -> str | None:
    """Dtype of the tensor that a node makes, such as ``float32``; None if it makes none."""
    value = node.meta.get("val")
    return str(value.dtype).removeprefix("torch.") if isinstance(value, torch.Tensor) else None


def _flops(node: torch.fx.Node) -> int | None:
    from torch._inductor.fx_utils import count_flops_fx

    try:
        count = count_flops_fx(node)
        if count is None:
            count = _by_formula(node)
    except (RuntimeError, TypeError, ValueError, AssertionError, IndexError, KeyError):
        # A formula for another form of the operation.
        return None
    if isinstance(count, torch.SymInt):
        # A size of a dynamic dim has a hint, unless it comes from the values of a tensor.
        count = getattr(count.node, "hint", None)
    return count if isinstance(count, int) else None


def _by_formula(node: torch.fx.Node) -> Any:  # noqa: ANN401
    from torch.utils.flop_counter import flop_registry

    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return None
    values = [each.meta.get("val") if isinstance(each, torch.fx.Node) else each for each in node.args]
    out = node.meta.get("val")
    name = f"{target.namespace}.{target._opname}"
    if name in _STANDS_FOR:
        return flop_registry[getattr(torch.ops.aten, _STANDS_FOR[name])](*values, out_val=out)
    return None


def packed_flops(name: str, node: Any, made: torch.fx.Node) -> tuple[int | None, str | None]:  # noqa: ANN401
    """The floating-point operations of oneDNN's and MKL's operations on packed weights, and the dtype of their factors.

    Freezing puts them in the place of nodes, and torch has no formulas for them.

    ``node``: the call, as ``torch/_inductor/mkldnn_ir.py`` has it, 2.13.

    Returns:
        None for other operations, and for sizes that aren't numbers.
    """
    from torch.utils.flop_counter import conv_flop_count

    _, _, operation = name.removeprefix("torch.ops.").partition(".")
    base, _, overload = operation.partition(".")
    is_convolution = base in ("_convolution_pointwise", "_convolution_transpose_pointwise")
    if not is_convolution and base not in ("_linear_pointwise", "_mkl_linear"):
        return None, None
    # Another value that is added comes before the weight.
    first, weight = node.inputs[0], node.inputs[2 if overload == "binary" else 1]
    try:
        values, weights = ([int(size) for size in each.get_size()] for each in (first, weight))
        out = [int(size) for size in made.meta["val"].shape]
        if is_convolution:
            count = conv_flop_count(values, weights, out, transposed="transpose" in base)
        else:
            count = 2 * math.prod(out) * values[-1]
    except (TypeError, KeyError, AttributeError):
        return None, None
    return int(count), str(first.get_dtype()).removeprefix("torch.")
