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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._ops import OperatorBase, OpOverload, OpOverloadPacket
from torch.fx import Graph, Node

from ...facts.base import Fields
from ...facts.kernels import ProfilePhase
from ...facts.profiled import InductorKernel
from .torch_api import Function, current_compile_id, wrap
from .torch_kernels import quick_range

_HOOK = "set_kernel_post_grad_provenance_tracing"
"""Inductor calls it for each call of a kernel that it writes into the code."""

_IMPORTED_BY = ("debug", "codegen.triton", "codegen.cpp")
"""Modules of Inductor that have the hook under its name; others import it when they call it."""

RUN_RANGE = "graphdoctor_inductor "
"""What the profiler ranges of runs of Inductor's graphs begin with; then the graph's number and the
phase."""


@dataclass
class GeneratedGraph:
    """A graph for which Inductor generated code."""

    number: int
    phase: ProfilePhase
    nodes: list[Node] = field(default_factory=list)
    kernels: list[tuple[InductorKernel, Sequence[Node]]] = field(default_factory=list)
    """Each call of a kernel, without the indices of its operations, and its nodes."""
    stored: set[Node] = field(default_factory=set)
    """Nodes whose value the code writes to a buffer, as far as torch notes whose a buffer is."""


class CodegenWatch:
    """Hands on each graph for which code was generated, not found in Inductor's cache, until it is
    closed.

    Raises:
        ImportError, AttributeError, KeyError: This torch generates code by other names.
    """

    def __init__(self, on_graph: Callable[[GeneratedGraph], None]) -> None:
        from torch._inductor import config
        from torch._inductor.graph import GraphLowering

        self._on_graph = on_graph
        self.graphs = 0
        """How many there were so far."""
        self.failure: str | None = None
        """What went wrong first in looking on; the compile went on without us."""
        self._current: GeneratedGraph | None = None
        config.trace.provenance_tracking_level = 1
        modules = [import_module(f"torch._inductor.{name}") for name in _IMPORTED_BY]
        self._undos = [wrap(module, _HOOK, self._kernel) for module in modules]
        self._undos.append(wrap(GraphLowering, "codegen", self._graph))

    def close(self) -> None:
        """Stop looking on."""
        for undo in self._undos:
            undo()

    def _graph(self, original: Function, lowering: Any, *args: Any) -> Any:
        if lowering.graph_id is None:
            return original(lowering, *args)
        phase: ProfilePhase = "backward" if lowering.is_backward else "forward"
        graph = self._current = GeneratedGraph(lowering.graph_id, phase)
        try:
            result = original(lowering, *args)
            self.graphs += 1
            with self._survived():
                graph.stored.update(_stored(lowering))
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
        self, original: Function, scheduled: Any, name: str, is_extern: bool = False
    ) -> Any:
        if self._current is not None:
            kernel = InductorKernel(name=name, kind="other", operations=(), bytes=None, flops=None)
            nodes: Sequence[Node] = ()
            with self._survived():
                facts, nodes = _library(scheduled) if is_extern else _fused(scheduled)
                kernel = kernel.replace(**facts)
            self._current.kernels.append((kernel, nodes))
        return original(scheduled, name, is_extern)


def _stored(lowering: Any) -> Iterator[Node]:
    for buffer in lowering.scheduler.name_to_buf.values():
        if buffer.get_name() not in lowering.removed_buffers:
            yield from filter(None, [buffer.node.get_origin_node()])


_Kernel = tuple[Fields, Sequence[Node]]
"""Fields of ``InductorKernel``, and nodes."""


def _library(node: Any) -> _Kernel:
    from torch._inductor import ir
    from torch._inductor.utils import is_collective
    from torch._inductor.virtualized import V

    scheduled = V.graph.scheduler.name_to_node.get(node.get_operation_name())
    # Among its origins are those of what it reads, if that wasn't in memory when it was made.
    origin = max(node.origins, default=None) if node.origin_node is None else node.origin_node
    nodes = [] if origin is None else [origin]
    facts = products_of(nodes)
    facts["kind"] = "user" if isinstance(node, ir.UserDefinedTritonKernel) else "library"
    if is_collective(node):
        facts["kind"] = "communication"
    return facts | _moved([] if scheduled is None else [scheduled]), nodes


def _fused(scheduled: Sequence[Any]) -> _Kernel:
    from torch._inductor.virtualized import V

    # Markers of loops are among them.
    single = [part for part in scheduled if getattr(part, "node", None) is not None]
    fused_as = V.graph.scheduler.name_to_fused_node
    wholes = [fused_as.get(part.get_name(), part) for part in single]
    nodes = list(dict.fromkeys(origin for part in single for origin in part.node.origins))
    if all(map(is_view, nodes)):
        # It brings them into another layout for those that read its results.
        buffers = [buffer for part in single for buffer in part.get_outputs()]
        users = [user.node for buffer in buffers for user in buffer.users]
        read_by = (getattr(user, "node", None) for user in users if user not in single)
        origins = (origin for node in read_by for origin in getattr(node, "origins", ()))
        nodes = list(dict.fromkeys(origins)) or nodes
    made = [
        part.node.get_origin_node() for part in single if part.is_template() or part.is_extern()
    ]
    facts = products_of([node for node in made if node])
    facts["kind"] = "pointwise"
    if any(part.is_template() for part in single):
        facts["kind"] = "template"
    elif any(part.is_reduction() for part in single):
        facts["kind"] = "reduction"
    facts["elementwise"] = _elementwise(single)
    return facts | _moved(list({id(whole): whole for whole in wholes}.values())), nodes


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

    counts: Counter[str] = Counter()
    for part in scheduled:
        # A template's node has no loops of its own.
        if (body := getattr(part, "_body", None)) is None:
            continue
        elements = math.prod(size for sizes in body.sizes for size in sizes)
        if free_unbacked_symbols(elements) or part.node.get_dtype() == torch.float64:
            return None
        count = int(V.graph.sizevars.optimization_hint(elements))
        for name, uses in body.op_counts.items():
            if name not in _NO_ARITHMETIC:
                counts[name] += count * uses
    return dict(counts)


def _moved(scheduled: Sequence[Any]) -> dict[str, int | None]:
    """Memory that a kernel reads and writes at least, and what of it is the graph's arguments; None
    if unknown.
    """
    from torch._inductor.virtualized import V

    # torch counts the whole of a tensor that a kernel reads a few rows of, as an embedding does.
    parts = [single for part in scheduled for single in part.get_nodes()]
    counts = [getattr(getattr(part, "_body", None), "op_counts", ()) for part in parts]
    if not parts or any("indirect_indexing" in operations for operations in counts):
        return {"bytes": None, "argument_bytes": None}
    arguments = V.graph.graph_inputs
    of_arguments = 0
    for part in scheduled:
        reads = part.get_read_write_buffer_accesses(include_reads=True, include_writes=False)
        of_arguments += sum(int(size) for name, size in reads.items() if name in arguments)
    whole = sum(int(part.get_read_write_buffers_sizes()) for part in scheduled)
    return {"bytes": whole, "argument_bytes": of_arguments}


@contextmanager
def graph_runs_marked() -> Iterator[None]:
    """Make each run of a graph of Inductor's a profiler range meanwhile; raises as ``CodegenWatch``
    does.
    """
    from torch._inductor.output_code import CompiledFxGraph

    def call(original: Function, graph: Any, inputs: Sequence[Any]) -> Any:
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
    if isinstance(node.target, OperatorBase | OpOverloadPacket):
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
    sizes = _sizes(node)
    return sum(count * item_bytes for count, item_bytes in sizes) if sizes else None


def elements(node: Node) -> int | None:
    """Count the elements that a node works on: those of the largest tensor that it takes or makes;
    None if unknown.
    """
    return max((count for count, _ in _sizes(node, *node.all_input_nodes)), default=None)


def _sizes(*nodes: Node) -> list[tuple[int, int]]:
    """Elements of each tensor that nodes make, and bytes of one; none if a size is unknown."""
    sizes = []
    for value in (node.meta.get("val") for node in nodes):
        for tensor in value if isinstance(value, tuple | list) else [value]:
            if isinstance(tensor, Tensor):
                if (numbers := shape(tensor)) is None:
                    return []
                sizes.append((math.prod(numbers), tensor.element_size()))
    return sizes


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
    return list(dict.fromkeys(filter(None, map(dtype_name, node.all_input_nodes))))


def dtype_name(node: Node) -> str | None:
    """Name the dtype of the tensor that a node makes, such as ``float32``; None if it makes
    none.
    """
    value = node.meta.get("val")
    return str(value.dtype).removeprefix("torch.") if isinstance(value, Tensor) else None


# Products: fields of ``InductorKernel``.

_ATTENTION = "_scaled_dot_product_flash_attention"
_FLASH = "aten._scaled_dot_product_flash_attention_for_cpu"
_FUSED = "aten._scaled_dot_product_fused_attention_overrideable"
_STANDS_FOR = {
    **{
        f"{name}{phase}": f"{_ATTENTION}{phase}"
        for name in (_FLASH, _FUSED)
        for phase in ("", "_backward")
    },
    "aten._int_mm": "mm",
}  # fmt: skip
"""Operations that torch has no formula for, with one of ``aten`` that has, whose first arguments
are the same."""


def products_of(nodes: Sequence[Node]) -> Fields:
    """Count the floating-point operations of nodes; None without a product that torch can count."""
    from torch._inductor.fx_utils import count_flops_fx
    from torch.utils.flop_counter import flop_registry

    flops = 0
    dtypes = []
    for node in nodes:
        # A formula for another form of the operation raises.
        with suppress(RuntimeError, TypeError, ValueError, AssertionError, IndexError, KeyError):
            count = count_flops_fx(node)
            name = _STANDS_FOR.get(str(getattr(node.target, "overloadpacket", None)))
            if count is None and name is not None:
                values = [it.meta.get("val") if isinstance(it, Node) else it for it in node.args]
                formula = flop_registry[getattr(torch.ops.aten, name)]
                count = formula(*values, out_val=node.meta.get("val"))
            if number := _number(count):
                flops += number
                dtypes += input_dtypes(node)
    return {"flops": flops or None, "dtype": next(iter(dtypes), None)}


# How a graph is cut into its forward and its backward part.

_FAR_SMALLER = 1000
_SMALL_BYTES = 1024
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
        self.close = wrap(compile_fx, "partition_fn", self._cut)

    def _cut(self, original: Function, *args: Any, **kwargs: Any) -> Any:
        forward, backward = parts = original(*args, **kwargs)
        self._last = None
        if isinstance(count := kwargs.get("num_fwd_outputs"), int):
            # A graph that isn't as expected must still compile; what it keeps is then not listed.
            with suppress(Exception):
                self._last = _partition(forward.graph, backward.graph, count)
        return parts

    def take(self) -> Partition | None:
        """Take what the compile that is under way cut last, if nobody has; None if nothing."""
        last = self._last
        self._last = None
        return last if last is not None and last.compile_id == current_compile_id() else None


def _partition(forward: Graph, backward: Graph, output_count: int) -> Partition:
    (output,) = forward.find_nodes(op="output")
    handed = [
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
    computed = {node.name for node in forward.nodes if not is_view(node)}
    recomputed = [node for node in backward.nodes if node.name in computed and not is_view(node)]
    return Partition(kept, recomputed, any(map(_is_random, forward.nodes)), current_compile_id())


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
    """Return whether a value is cheap to compute from others; None if a cost is unknown.

    It is costly if torch counts its floating-point operations, a library computes it, or it's
    random.
    """
    from torch._inductor.lowering import fallbacks, lowerings
    from torch.utils.flop_counter import flop_registry

    limit = max(_SMALL_BYTES, (value_bytes(node) or 0) // _FAR_SMALLER)
    waiting = [node]
    seen = {node}
    is_certain = True
    for current in waiting:  # grows meanwhile
        target = current.target
        if isinstance(target, OpOverload) and target in lowerings:
            is_library = target in fallbacks
            if _is_random(current) or is_library or target.overloadpacket in flop_registry:
                return False
        else:
            is_certain &= target is operator.getitem
        for source in current.all_input_nodes:
            size = value_bytes(source)
            is_there = source.op != "call_function" or _memory_of(source) in kept
            if source not in seen and not is_there and (size is None or size > limit):
                seen.add(source)
                waiting.append(source)
    return True if is_certain else None


def _is_random(node: Node) -> bool:
    target = node.target
    return isinstance(target, OpOverload) and torch.Tag.nondeterministic_seeded in target.tags
