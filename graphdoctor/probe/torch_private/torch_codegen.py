"""Looks on while AOTAutograd cuts a graph in two and Inductor generates code: what each kernel
computes, moves, keeps.

``torch/_inductor``: ``debug.py``, ``graph.py``, ``scheduler.py``, ``output_code.py``,
``fx_utils.py``, ``compile_fx.py`` and ``lowering.py``; ``torch/_functorch/partitioners.py``,
``torch/utils/flop_counter.py``, 2.11 to 2.15.
"""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OperatorBase, OpOverload, OpOverloadPacket
from torch.fx import Graph, Node

from ...facts.kernels import ProfilePhase
from ...facts.profiled import InductorKernel, InductorKernelKind
from .torch_api import current_compile_id, wrap
from .torch_kernels import quick_range

_HOOK = "set_kernel_post_grad_provenance_tracing"
"""Inductor calls it for each call of a kernel that it writes into the code."""

_IMPORTED_BY = (
    "torch._inductor.debug",
    "torch._inductor.codegen.triton",
    "torch._inductor.codegen.cpp",
)
"""Modules that have the hook under its name; others import it when they call it."""

RUN_RANGE = "graphdoctor_inductor "
"""What the profiler ranges of runs of Inductor's graphs begin with; then the graph's number and the
phase."""

GeneratedKernel = tuple[InductorKernel, Sequence[Node]]
"""One call of a kernel in generated code, without the indices of its operations, and its nodes."""

_Products = tuple[int | None, str | None]
"""Floating-point operations, and the dtype of what is multiplied; both None without a product that
torch can count."""


@dataclass
class GeneratedGraph:
    """A graph for which Inductor generated code."""

    number: int
    phase: ProfilePhase
    nodes: list[Node] = field(default_factory=list)
    kernels: list[GeneratedKernel] = field(default_factory=list)


class CodegenWatch:
    """Hands on each graph for which code was generated, not found in Inductor's cache, until it is
    closed.

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
        from torch._inductor import config
        from torch._inductor.graph import GraphLowering

        config.trace.provenance_tracking_level = 1
        self._undos = [wrap(import_module(name), _HOOK, self._kernel) for name in _IMPORTED_BY]
        self._undos.append(wrap(GraphLowering, "codegen", self._graph))

    def close(self) -> None:
        """Stop looking on."""
        for undo in self._undos:
            undo()

    def _graph(self, original: Callable[..., Any], lowering: Any, *args: Any) -> Any:
        if lowering.graph_id is None:
            return original(lowering, *args)
        phase: ProfilePhase = "backward" if lowering.is_backward else "forward"
        graph = self._current = GeneratedGraph(lowering.graph_id, phase)
        try:
            result = original(lowering, *args)
            self.graphs += 1
            with self._survived():
                graph.nodes = list(lowering.module.graph.nodes)
                self._on_graph(graph)
        finally:
            self._current = None
        return result

    @contextmanager
    def _survived(self) -> Iterator[None]:
        """Keep the program compiling when torch's private objects aren't as expected."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever another torch's objects raise
            self.failure = self.failure or f"{type(error).__name__}: {error}"

    def _kernel(
        self, original: Callable[..., Any], scheduled: Any, name: str, is_extern: bool = False
    ) -> Any:
        if self._current is not None:
            kernel = InductorKernel(name=name, kind="other", operations=(), bytes=None, flops=None)
            nodes: Sequence[Node] = ()
            with self._survived():
                facts, nodes = _library(scheduled, name) if is_extern else _fused(scheduled)
                kernel = kernel.replace(**facts)
            self._current.kernels.append((kernel, nodes))
        return original(scheduled, name, is_extern)


_Kernel = tuple[dict[str, Any], Sequence[Node]]
"""Fields of ``InductorKernel``, and nodes."""


def _library(node: Any, name: str) -> _Kernel:
    from torch._inductor import ir
    from torch._inductor.utils import is_collective
    from torch._inductor.virtualized import V

    scheduled = V.graph.scheduler.name_to_node.get(node.get_operation_name())
    is_user = isinstance(node, ir.UserDefinedTritonKernel)
    kind: InductorKernelKind = "user" if is_user else "library"
    # Among its origins are those of what it reads, if that wasn't in memory when it was made.
    origin = max(node.origins, default=None) if node.origin_node is None else node.origin_node
    nodes = [] if origin is None else [origin]
    flops, dtype = products_of(nodes)
    if flops is None and origin is not None:
        flops, dtype = packed_flops(name, node, origin)
    if is_collective(node):
        kind = "communication"
    facts: dict[str, Any] = {"kind": kind, "flops": flops, "dtype": dtype}
    return facts | _moved([] if scheduled is None else [scheduled]), nodes


def _fused(scheduled: Sequence[Any]) -> _Kernel:
    from torch._inductor.virtualized import V

    # Markers of loops are among them.
    single = [part for part in scheduled if getattr(part, "node", None) is not None]
    fused_as = V.graph.scheduler.name_to_fused_node
    wholes = [fused_as.get(part.get_name(), part) for part in single]
    nodes = list(dict.fromkeys(origin for part in single for origin in part.node.origins))
    if all(map(is_view, nodes)):
        nodes = _readers(single) or nodes
    made_by = [
        part.node.get_origin_node() for part in single if part.is_template() or part.is_extern()
    ]
    kind: InductorKernelKind = "pointwise"
    if any(part.is_template() for part in single):
        kind = "template"
    elif any(part.is_reduction() for part in single):
        kind = "reduction"
    flops, dtype = products_of([node for node in made_by if node])
    facts = {"kind": kind, "flops": flops, "dtype": dtype, "elementwise": _elementwise(single)}
    return facts | _moved(list({id(whole): whole for whole in wholes}.values())), nodes


def _readers(scheduled: Sequence[Any]) -> list[Node]:
    """Return the nodes that read a kernel's results, or bring them into another layout."""
    buffers = (buffer for part in scheduled for buffer in part.get_outputs())
    users = [user.node for buffer in buffers for user in buffer.users]
    nodes = [getattr(user, "node", None) for user in users if user not in scheduled]
    return list(dict.fromkeys(origin for node in nodes for origin in getattr(node, "origins", ())))


_NO_ARITHMETIC = frozenset(
    [
        "check_bounds",
        "constant",
        "get_index",
        "indirect_indexing",
        "load",
        "load_seed",
        "masked",
        "output",
        "store",
        "store_reduction",
    ]
)
"""What loops do besides computing."""


def _elementwise(scheduled: Sequence[Any]) -> dict[str, int] | None:
    """For how many elements each operation is computed, by the names that loops have; None if that
    is unknown.
    """
    from torch._inductor.virtualized import V
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    variables: Any = V.graph.sizevars
    hint = getattr(variables, "optimization_hint", None) or variables.size_hint
    counts: Counter[str] = Counter()
    for part in scheduled:
        # A template's node has no loops of its own.
        if (body := getattr(part, "_body", None)) is None:
            continue
        elements = math.prod(size for sizes in body.sizes for size in sizes)
        if free_unbacked_symbols(elements) or part.node.get_dtype() == torch.float64:
            return None
        for name, uses in body.op_counts.items():
            if name not in _NO_ARITHMETIC:
                counts[name] += int(hint(elements)) * uses
    return dict(counts)


def _moved(scheduled: Sequence[Any]) -> dict[str, Any]:
    """Memory that a kernel reads and writes at least, and what of it is the graph's arguments; None
    if unknown.
    """
    from torch._inductor.virtualized import V

    # torch counts the whole of a tensor that a kernel reads a few rows of, as an embedding does.
    parts = [single for part in scheduled for single in part.get_nodes()]
    counts = [getattr(getattr(part, "_body", None), "op_counts", ()) for part in parts]
    if not parts or any("indirect_indexing" in operations for operations in counts):
        return {"bytes": None, "argument_bytes": None}
    reads = (
        part.get_read_write_buffer_accesses(include_reads=True, include_writes=False)
        for part in scheduled
    )
    of_arguments = (
        int(size) for sizes in reads for name, size in sizes.items() if name in V.graph.graph_inputs
    )
    whole = sum(int(part.get_read_write_buffers_sizes()) for part in scheduled)
    return {"bytes": whole, "argument_bytes": sum(of_arguments)}


@contextmanager
def graph_runs_marked() -> Iterator[None]:
    """Make each run of a graph of Inductor's a profiler range meanwhile; raises as ``CodegenWatch``
    does.
    """
    from torch._inductor.output_code import CompiledFxGraph

    def call(original: Callable[..., Any], graph: Any, inputs: Sequence[Any]) -> Any:
        options = graph.fx_kwargs
        phase = "backward" if options.get("is_backward") else "forward"
        with quick_range(f"{RUN_RANGE}{options.get('graph_id')} {phase}"):
            return original(graph, inputs)

    undo = wrap(CompiledFxGraph, "__call__", call)
    try:
        yield
    finally:
        undo()


# What a node is.


def is_view(node: Node) -> bool:
    """Return whether the node only views another tensor, or takes an item of a tuple."""
    target: Any = node.target
    if node.op != "call_function":
        return True
    is_operator = isinstance(target, OpOverload)
    return target.is_view if is_operator else getattr(target, "__name__", "") == "getitem"


def operation_of(node: Node) -> str:
    """Name the operation that a node was decomposed from, or it itself."""
    return str(node.meta.get("original_aten") or target_of(node))


def target_of(node: Node) -> str:
    """Name the operation that a node is now; of a function that Inductor puts in its place, such as
    oneDNN's, its name.
    """
    if isinstance(node.target, (OperatorBase, OpOverloadPacket)):
        return str(node.target)
    return str(getattr(node.target, "__name__", node.name))


def readers(node: Node) -> Iterator[Node]:
    """Yield the nodes that read a node's value, through views too."""
    for user in node.users:
        if user.op != "output" and is_view(user):
            yield from readers(user)
        else:
            yield user


def value_bytes(node: Node) -> int | None:
    """Compute the size of the tensors that a node makes, with the sizes of the call that is
    compiled; None if it is unknown.
    """
    counts = _counts([node], is_bytes=True)
    return sum(counts) if counts else None


def elements(node: Node) -> int | None:
    """Count the elements that a node works on: those of the largest tensor that it takes or makes;
    None if unknown.
    """
    return max(_counts([node, *node.all_input_nodes]), default=None)


def _counts(nodes: Iterable[Node], *, is_bytes: bool = False) -> list[int]:
    """Elements or bytes of each tensor that nodes make; none if the size of one is unknown."""
    counts = []
    for value in (node.meta.get("val") for node in nodes):
        for tensor in value if isinstance(value, (tuple, list)) else [value]:
            if isinstance(tensor, Tensor):
                if (sizes := shape(tensor)) is None:
                    return []
                counts.append(math.prod(sizes) * (tensor.element_size() if is_bytes else 1))
    return counts


def shape(value: Tensor) -> list[int] | None:
    """Return a tensor's shape in the call that is compiled; None if a size has no hint, as one read
    from a tensor.
    """
    sizes = [number for size in value.shape if (number := _number(size)) is not None]
    return sizes if len(sizes) == value.ndim else None


def _number(value: Any) -> int | None:
    """A size or a count in that call; one that comes from the values of a tensor has no hint."""
    number = getattr(value.node, "hint", None) if isinstance(value, torch.SymInt) else value
    return number if isinstance(number, int) else None


def input_dtypes(node: Node) -> list[str]:
    """List the dtypes of the tensors that a node reads, such as ``float32``, each once, in
    order.
    """
    names = map(dtype_name, node.all_input_nodes)
    return list(dict.fromkeys(name for name in names if name is not None))


def dtype_name(node: Node) -> str | None:
    """Name the dtype of the tensor that a node makes, such as ``float32``; None if it makes
    none.
    """
    value = node.meta.get("val")
    return str(value.dtype).removeprefix("torch.") if isinstance(value, Tensor) else None


# Products.

_ATTENTION = "_scaled_dot_product_flash_attention"
_FLASH = "aten._scaled_dot_product_flash_attention_for_cpu"
_FUSED = "aten._scaled_dot_product_fused_attention_overrideable"
_STANDS_FOR = {
    **{f"{name}{phase}": f"{_ATTENTION}{phase}" for name in (_FLASH, _FUSED) for phase in ("", "_backward")},
    "aten._int_mm": "mm",
}  # fmt: skip
"""Operations that torch has no formula for, with one of ``aten`` that has, whose first arguments
are the same."""


def products_of(nodes: Sequence[Node]) -> _Products:
    """Count the floating-point operations of nodes."""
    counts = {node: count for node in nodes if (count := _flops(node))}
    dtypes = (dtype for node in counts for dtype in input_dtypes(node))
    return (sum(counts.values()), next(dtypes, None)) if counts else (None, None)


def _flops(node: Node) -> int | None:
    from torch._inductor.fx_utils import count_flops_fx

    try:
        count = count_flops_fx(node)
        return _number(_by_formula(node) if count is None else count)
    except (RuntimeError, TypeError, ValueError, AssertionError, IndexError, KeyError):
        # A formula for another form of the operation.
        return None


def _by_formula(node: Node) -> Any:
    from torch.utils.flop_counter import flop_registry

    target = node.target
    if not isinstance(target, OpOverload):
        return None
    if (name := _STANDS_FOR.get(f"{target.namespace}.{target._opname}")) is None:
        return None
    values = [it.meta.get("val") if isinstance(it, Node) else it for it in node.args]
    formula = flop_registry[getattr(torch.ops.aten, name)]
    return formula(*values, out_val=node.meta.get("val"))


def packed_flops(name: str, node: Any, made: Node) -> _Products:
    """Count the same for oneDNN's and MKL's operations on packed weights, which freezing puts in
    the place of nodes.

    ``node``: the call, as ``torch/_inductor/mkldnn_ir.py`` has it, 2.13.
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
        values, weights = ([int(size) for size in it.get_size()] for it in (first, weight))
        out = [int(size) for size in made.meta["val"].shape]
        if is_convolution:
            count = conv_flop_count(values, weights, out, transposed="transpose" in base)
        else:
            count = 2 * math.prod(out) * values[-1]
    except (TypeError, KeyError, AttributeError):
        return None, None
    return int(count), str(first.get_dtype()).removeprefix("torch.")


# How a graph is cut into its forward and its backward part.

_FAR_SMALLER, _SMALL_BYTES = 1000, 1024
"""A value by so much smaller than another could be kept in its place, and so could one this small,
such as a seed."""


class KeptTensor(NamedTuple):
    """A tensor that the forward part hands to the backward part; ``is_cheap`` as in
    ``facts.profiled.KeptTensor``, ``is_argument``: of the graph, or a constant in it.
    """

    name: str
    node: Node
    is_cheap: bool | None
    is_argument: bool


class Partition(NamedTuple):
    """A graph cut in two; ``recomputed``: nodes that both parts compute, without views."""

    kept: list[KeptTensor]
    recomputed: list[Node]
    draws_random: bool
    compile_id: str | None


class PartitionWatch:
    """Keeps the last partition for the graph whose code is generated next; raises as
    ``CodegenWatch`` does.
    """

    def __init__(self) -> None:
        from torch._inductor import compile_fx

        self._last: Partition | None = None

        def partition_fn(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            forward, backward = parts = original(*args, **kwargs)
            self._last = None
            if isinstance(count := kwargs.get("num_fwd_outputs"), int):
                # A graph that isn't as expected must still compile; what it keeps is then not
                # listed.
                with suppress(Exception):
                    self._last = _partition(forward.graph, backward.graph, count)
            return parts

        self.close = wrap(compile_fx, "partition_fn", partition_fn)

    def take(self) -> Partition | None:
        """Take what the compile that is under way cut last, if nobody has; None if nothing."""
        last, self._last = self._last, None
        return last if last is not None and last.compile_id == current_compile_id() else None


def _partition(forward: Graph, backward: Graph, output_count: int) -> Partition:
    (output,) = forward.find_nodes(op="output")
    handed: list[Node] = [
        node
        for node in output.args[0][output_count:]
        if isinstance(node, Node) and isinstance(node.meta.get("val"), Tensor)
    ]
    names = {_memory_of(node): node.name for node in reversed(handed)}
    kept = []
    for node in dict.fromkeys(map(_memory_of, handed)):
        is_argument = node.op != "call_function"
        is_cheap = None if is_argument else _is_cheap(node, names.keys() - {node})
        kept.append(KeptTensor(names[node], node, is_cheap, is_argument))
    computed = {node.name for node in _calls(forward)}
    recomputed = [node for node in _calls(backward) if node.name in computed and not is_view(node)]
    return Partition(kept, recomputed, any(map(_is_random, forward.nodes)), current_compile_id())


def _calls(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if node.op == "call_function")


def _memory_of(node: Node) -> Node:
    """Return the node that makes the memory in which a node's value is: it, or what it is a view
    of.
    """
    while node.op == "call_function" and is_view(node):
        source = node.all_input_nodes[0]
        is_inner = source.op == "call_function" and is_view(source)
        if node.target is operator.getitem and not is_inner:
            break
        node = source
    return node


def _is_cheap(node: Node, kept: set[Node]) -> bool | None:
    """Return whether a value is cheap to compute from others; None if a cost is unknown."""
    limit = max(_SMALL_BYTES, (value_bytes(node) or 0) // _FAR_SMALLER)
    waiting, seen = [node], {node}
    is_certain = True
    while waiting:
        current = waiting.pop()
        is_costly = _is_costly(current)
        if is_costly:
            return False
        is_certain = is_certain and is_costly is not None
        for source in current.all_input_nodes:
            size = value_bytes(source)
            is_there = source.op != "call_function" or _memory_of(source) in kept
            if source not in seen and not is_there and (size is None or size > limit):
                seen.add(source)
                waiting.append(source)
    return True if is_certain else None


def _is_costly(node: Node) -> bool | None:
    """Return whether a value is costly to compute again; None if unknown.

    It is if torch counts its floating-point operations, a library computes it, or it's random.
    """
    from torch._inductor.lowering import fallbacks, lowerings
    from torch.utils.flop_counter import flop_registry

    target = node.target
    if target is operator.getitem:
        return False
    if not isinstance(target, OpOverload) or target not in lowerings:
        return None
    return _is_random(node) or target in fallbacks or target.overloadpacket in flop_registry


def _is_random(node: Node) -> bool:
    target = node.target
    return isinstance(target, OpOverload) and torch.Tag.nondeterministic_seeded in target.tags
