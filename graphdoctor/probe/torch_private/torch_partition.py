"""Looks on while AOTAutograd cuts a graph into its forward and its backward part.

``torch/_inductor/compile_fx.py`` (``partition_fn``) and ``lowering.py``, ``torch/_functorch/partitioners.py``, 2.11 to
2.15.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch

from .replacing import put_in_place
from .torch_codegen import is_view, value_bytes
from .torch_cuda_graphs import current_compile_id

_FAR_SMALLER, _SMALL_BYTES = 1000, 1024
"""A value by so much smaller than another could be kept in its place, and so could one this small, such as a seed."""


@dataclass(frozen=True)
class KeptTensor:
    """A tensor that the forward part hands to the backward part.

    Args:
        is_cheap: It can be computed again from what else is kept by code that Inductor writes itself, without matrix
            products, convolutions and random numbers; None for an argument, and if that is unknown.
    """

    name: str
    node: torch.fx.Node
    is_cheap: bool | None

    @property
    def is_argument(self) -> bool:
        """An argument of the graph, or a constant in it."""
        return self.node.op != "call_function"


@dataclass(frozen=True)
class Partition:
    """A graph cut in two.

    Args:
        recomputed: Nodes that both parts compute; views aren't among them.
    """

    kept: list[KeptTensor]
    recomputed: list[torch.fx.Node]
    draws_random: bool
    compile_id: str | None


class PartitionWatch:
    """Keeps the last partition for the graph whose code is generated next, until it is closed.

    Raises:
        ImportError, AttributeError, KeyError: This torch cuts graphs otherwise.
    """

    def __init__(self) -> None:
        from torch._inductor import compile_fx

        self._last: Partition | None = None
        original = compile_fx.partition_fn

        @wraps(original)
        def partition_fn(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            forward, backward = parts = original(*args, **kwargs)
            self._last = None
            if isinstance(count := kwargs.get("num_fwd_outputs"), int):
                # A graph that is other than we know it must still compile; what it keeps is then not listed.
                with contextlib.suppress(Exception):
                    self._last = _partition(forward.graph, backward.graph, count)
            return parts

        self.close: Callable[[], None] = put_in_place(compile_fx, "partition_fn", partition_fn)

    def take(self) -> Partition | None:
        """What the compile that is under way cut last, if nobody has taken it; None if nothing."""
        found, self._last = self._last, None
        return found if found is not None and found.compile_id == current_compile_id() else None


def _partition(forward: torch.fx.Graph, backward: torch.fx.Graph, output_count: int) -> Partition:
    (output,) = forward.find_nodes(op="output")
    handed: list[torch.fx.Node] = [
        node
        for node in output.args[0][output_count:]
        if isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)
    ]
    names = {_memory_of(node): node.name for node in reversed(handed)}
    kept = [
        KeptTensor(names[node], node, None if node.op != "call_function" else _is_cheap(node, names.keys() - {node}))
        for node in dict.fromkeys(map(_memory_of, handed))
    ]
    computed = {node.name for node in _calls(forward)}
    recomputed = [node for node in _calls(backward) if node.name in computed and not is_view(node)]
    return Partition(kept, recomputed, any(map(_is_random, forward.nodes)), current_compile_id())


def _calls(graph: torch.fx.Graph) -> Iterator[torch.fx.Node]:
    return (node for node in graph.nodes if node.op == "call_function")


def _memory_of(node: torch.fx.Node) -> torch.fx.Node:
    """The node that makes the memory in which a node's value is: it, or what it is a view of."""
    while node.op == "call_function" and is_view(node):
        source = node.all_input_nodes[0]
        if node.target is operator.getitem and not (source.op == "call_function" and is_view(source)):
            break
        node = source
    return node


def _is_cheap(node: torch.fx.Node, kept: set[torch.fx.Node]) -> bool | None:
    """Whether it takes little to compute a value from others; None if an operation's cost is unknown."""
    limit = max(_SMALL_BYTES, (value_bytes(node) or 0) // _FAR_SMALLER)
    waiting, seen = [node], {node}
    is_known = True
    while waiting:
        current = waiting.pop()
        cost = _is_costly(current)
        if cost:
            return False
        is_known = is_known and cost is not None
        for source in current.all_input_nodes:
            size = value_bytes(source)
            is_there = source.op != "call_function" or _memory_of(source) in kept
            if source not in seen and not is_there and (size is None or size > limit):
                seen.add(source)
                waiting.append(source)
    return True if is_known else None


def _is_costly(node: torch.fx.Node) -> bool | None:
    """Whether torch counts its floating-point operations, a library computes it, or it's random; None if unknown."""
    from torch._inductor.lowering import fallbacks, lowerings
    from torch.utils.flop_counter import flop_registry

    target = node.target
    if target is operator.getitem:
        return False
    if not isinstance(target, torch._ops.OpOverload) or target not in lowerings:
        return None
    return _is_random(node) or target in fallbacks or target.overloadpacket in flop_registry


def _is_random(node: torch.fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags
