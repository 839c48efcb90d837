"""Cuts a graph of Dynamo's into graphs of some of its operations, each with the values that it
needs as inputs and those that the rest needs as outputs.

The operations of a part are neighbours in the graph, so that what they change in place is there.
"""

from __future__ import annotations

import linecache
import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import SymInt, Tensor
from torch.fx import Graph, GraphModule, Interpreter, Node

from ...facts.stack import StackEntry, resumed
from ..record.describe import value_text
from ..record.files import is_user_file
from ..record.graphs import places_in
from ..torch_private.torch_api import node_value
from ..torch_private.torch_graphs import ambient_modes

_CALLS = frozenset({"call_function", "call_method", "call_module"})
_CONSTANTS = (type(None), int, float, complex, str, torch.dtype, torch.device, torch.layout)
_PARTS_OF_TORCH = {
    "torch._C._nn.": "torch.nn.functional.",
    "torch._C._special.special_": "torch.special.",
    "torch._C._linalg.linalg_": "torch.linalg.",
    "torch._C._fft.fft_": "torch.fft.",
}
"""Where torch's documentation has functions that are built in."""

Path = tuple[int, ...]
"""Indices that lead to an item of nested tuples; empty for the value itself."""

Item = tuple[Node, Path]
"""A tensor that a node makes."""


@dataclass(frozen=True)
class Held:
    """A tensor that an operation made: its text, such as ``f32[8, 128]``."""

    text: str


@dataclass(frozen=True)
class Part:
    """Some operations of a graph, as a graph of their own that returns tensors in a tuple."""

    module: GraphModule
    operations: Sequence[Node]
    """In the whole graph."""
    inputs: Sequence[Item]
    outputs: Sequence[Item]


class _Described(Interpreter):
    """Notes of what kind each value is, the modes after each operation, and what operations do with
    memory.
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.extra_traceback = False
        self.kinds: dict[Node, Any] = {}
        self.modes: dict[Node, Any] = {}
        self.changing = set[Node]()
        """What changes tensors in place."""
        self.views = set[Node]()
        """What gives tensors another shape, and computes nothing."""

    def run_node(self, n: Node) -> Any:
        given = [self.env[it] for it in n.all_input_nodes]
        tensors = [it for it in given if isinstance(it, Tensor) and not it.is_inference()]
        versions = [tensor._version for tensor in tensors]
        value = super().run_node(n)
        if versions != [tensor._version for tensor in tensors]:
            self.changing.add(n)
        elif isinstance(value, Tensor) and _memory(value) in map(_memory, tensors):
            self.views.add(n)
        self.kinds[n] = _kind(value)
        self.modes[n] = ambient_modes()
        return value


def _memory(tensor: Tensor) -> int:
    """Return the address of its memory; where it has none, a number of its own."""
    with suppress(RuntimeError, NotImplementedError):
        return tensor.untyped_storage().data_ptr() or id(tensor)
    return id(tensor)


def _kind(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return tuple(map(_kind, value))
    return Held(value_text(value)) if isinstance(value, Tensor) else value


def _paths(kind: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield what isn't a tuple in nested ones."""
    if not isinstance(kind, tuple):
        yield path, kind
        return
    for index, item in enumerate(kind):
        yield from _paths(item, (*path, index))


class CutGraph:
    """A graph that was run eagerly once, to look at its values."""

    def __init__(self, module: GraphModule, arguments: Sequence[Any]) -> None:
        self.module = module
        self._first_modes = ambient_modes()
        described = _Described(module)
        described.run(*arguments)
        self.kinds, self.modes = described.kinds, described.modes
        self.changing, self.views = described.changing, described.views
        nodes = list(module.graph.nodes)
        self.operations = [node for node in nodes if node.op in _CALLS]
        self._order = {node: (node.op == "get_attr", at) for at, node in enumerate(nodes)}
        number = {node: index for index, node in enumerate(self.operations)}
        end = len(self.operations)
        self._last_use = {
            node: max((number.get(user, end) for user in node.users), default=-1)
            for node in self.operations
        }

    def computes(self, index: int) -> bool:
        """Return whether an operation makes a tensor, rather than taking one out of a tuple."""
        node = self.operations[index]
        whole = node.args[0] if node.target is operator.getitem else None
        is_item = isinstance(whole, Node) and isinstance(self.kinds.get(whole), tuple)
        return not is_item and any(isinstance(it, Held) for _, it in _paths(self.kinds[node]))

    def live(self, count: int) -> list[Node]:
        """List the operations among the first ones whose values the rest of the graph uses."""
        return [node for node in self.operations[:count] if self._last_use[node] >= count]

    def is_cut(self, count: int) -> bool:
        """Return whether the graph can be cut after so many operations: in the modes in which it
        began, and with nothing but tensors and constants to hand on.
        """
        if count == 0:
            return True
        return self.modes[self.operations[count - 1]] == self._first_modes and all(
            isinstance(kind, (Held, *_CONSTANTS))
            for node in self.live(count)
            for _, kind in _paths(self.kinds[node])
        )

    def part(self, first: int, end: int, outputs: Sequence[Node] | None = None) -> Part:
        """Make a graph of neighbouring operations; without ``outputs`` it returns the last one's
        value and those that the rest uses.
        """
        chosen = self.operations[first:end]
        inside = set(chosen)
        if outputs is None:
            used = [node for node in self.live(end) if node in inside]
            outputs = list(dict.fromkeys([*used, chosen[-1]]))
        graph = Graph()
        inputs: list[Item] = []
        values: dict[Node, Any] = {}
        taken = {it for node in chosen for it in node.all_input_nodes if it not in inside}
        for node in sorted(taken, key=self._order.__getitem__):
            is_attribute = node.op == "get_attr"
            values[node] = (
                graph.node_copy(node) if is_attribute else self._given(node, graph, inputs)
            )
        for node in chosen:
            values[node] = graph.node_copy(node, lambda it: values[it])
        returned = [
            (node, path)
            for node in outputs
            for path, kind in _paths(self.kinds[node])
            if isinstance(kind, Held)
        ]
        graph.output(tuple(_item(graph, values[node], path) for node, path in returned))
        return Part(GraphModule(self.module, graph), chosen, inputs, returned)

    def _given(self, node: Node, graph: Graph, inputs: list[Item]) -> Any:
        """Make placeholders for the tensors in a value, and constants of the rest."""

        def given(kind: Any, path: Path) -> Any:
            if isinstance(kind, tuple):
                return tuple(given(item, (*path, index)) for index, item in enumerate(kind))
            example = node_value(node)
            for index in path if example is not None else ():
                example = example[index]
            if not isinstance(kind, Held) and not isinstance(example, SymInt):
                return kind
            placeholder = graph.placeholder(item_name((node, path)))
            placeholder.meta = {**node.meta, "example_value": example}
            inputs.append((node, path))
            return placeholder

        return given(self.kinds[node], ())


def raising(
    module: GraphModule, arguments: Sequence[Any]
) -> tuple[Node, tuple[str, ...], Exception] | None:
    """Run a graph eagerly; returns the operation that raises, its tensors and the error, None if
    none does.
    """
    described = _Described(module)
    try:
        described.run(*arguments)
    except Exception as error:  # noqa: BLE001 - whatever an operation raises
        node = next(node for node in module.graph.nodes if node not in described.kinds)
        return node, inputs_text(node, described.kinds), error
    return None


def inputs_text(node: Node, kinds: Mapping[Node, Any]) -> tuple[str, ...]:
    """Write the tensors that an operation is given."""
    return tuple(text for it in node.all_input_nodes for text in tensors_text(kinds[it]))


def item_name(item: Item) -> str:
    """Name a placeholder for an item."""
    node, path = item
    return "_".join(map(str, (node.name, *path)))


def _item(graph: Graph, node: Node, path: Path) -> Node:
    for index in path:
        value = node_value(node)
        node = graph.call_function(operator.getitem, (node, index))
        if value is not None:
            node.meta["example_value"] = value[index]
    return node


# What an operation is called, and where it is.


def operation_name(node: Node, module: GraphModule) -> str:
    """Name an operation as its user knows it, such as ``torch.nn.functional.gelu``,
    ``Tensor.add`` or, for a module, its class.
    """
    target: Any = node.target
    if node.op == "call_method":
        return f"Tensor.{target}"
    if node.op == "call_module":
        kind = type(module.get_submodule(target))
        return f"{kind.__module__.partition('.modules')[0]}.{kind.__qualname__}"
    name = str(node._pretty_print_target(target))
    for beginning, public in _PARTS_OF_TORCH.items():
        if name.startswith(beginning):
            return public + name.removeprefix(beginning)
    return name


def line_of(node: Node) -> StackEntry | None:
    """Find the innermost line of the program that an operation comes from."""
    places = (place for place in reversed(places_in(node.stack_trace)) if is_user_file(place[0]))
    for file, line, function in places:
        text = linecache.getline(file, line).strip()
        return StackEntry(file=file, line=line, function=resumed(function)[0], text=text or None)
    return None


def lines_of(nodes: Sequence[Node]) -> tuple[StackEntry, ...]:
    """List the lines of several, each once, in the order of the graph."""
    lines: dict[tuple[str, int], StackEntry] = {}
    for line in filter(None, map(line_of, nodes)):
        lines.setdefault(line.at, line)
    return tuple(lines.values())


def tensors_text(kind: Any) -> Iterator[str]:
    """Yield the texts of the tensors in a value."""
    yield from (it.text for _, it in _paths(kind) if isinstance(it, Held))


# A graph as the text of a function that anybody can run.

_SIGNATURE = re.compile(r"^def forward\(self, ?(?P<rest>.*)$")
_KNOWN = frozenset({"torch", "device", "inf", "nan"})
"""What a graph's text may use besides Python's own names."""


def function_text(module: GraphModule, inputs: Sequence[object]) -> str | None:
    """Write a graph as ``program``, and its ``inputs``; None if it needs more than torch, or inputs
    that random numbers can't replace.
    """
    written = module.graph.python_code("self")
    used = {name for name in written.globals if re.search(rf"\b{name}\b", written.src)}
    if used - _KNOWN or any(node.op == "get_attr" for node in module.graph.nodes):
        return None
    texts = [_input_text(value) for value in inputs]
    lines = written.src.strip().splitlines()
    start = next((at for at, line in enumerate(lines) if _SIGNATURE.match(line)), None)
    if start is None or None in texts:
        return None
    lines[start] = _SIGNATURE.sub(r"def program(\g<rest>", lines[start])
    shown = [re.sub(r";  (\w+ = )+None.*$", "", line) for line in lines[start:]]
    made = ", ".join(text for text in texts if text is not None)
    return "\n".join([*shown, "", "", f"inputs = [{made}]"])


def _input_text(value: object) -> str | None:
    if isinstance(value, bool | int | float):
        return repr(value)
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return None
    if value.device.type not in ("cpu", "cuda") or value.layout is not torch.strided:
        return None
    device = "" if value.device.type == "cpu" else f', device="{value.device.type}"'
    dtype = "" if value.dtype == torch.float32 else f", dtype={value.dtype}"
    text = f"torch.randn({tuple(value.shape)}{dtype}{device})"
    return f"{text}.requires_grad_()" if value.requires_grad else text
