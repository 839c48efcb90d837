"""The values in a call's arguments: each tensor, number and text with its expression, and the call
with one changed.

A changed call copies only containers and objects on the way to the value, so it must be made from
fresh copies where the rest must stay untouched. Calls are alike if they differ in the values of
tensors alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ...facts.recording import ExportCalls
from ..record.describe import value_text
from ..record.listener import argument_names
from ..target.snapshot import attribute_names
from ..target.targets import Call, signature_of
from ..torch_private.torch_api import tree_leaves, tree_structure

_MAX_STEPS = 8

Step = tuple[str, Any]
"""``("item", key)`` or ``("attribute", name)``."""


@dataclass(frozen=True)
class Leaf:
    """One value in a call, reached from ``[args, kwargs]``."""

    path: tuple[Step, ...]
    expression: str
    value: Any
    is_default: bool = False


def leaves_of(call: Call, function: Any, *, of_callables: bool = False) -> list[Leaf]:
    """List the leaves of a call's arguments in the order of the signature, then the defaults that
    the call omits.
    """
    leaves: list[Leaf] = []

    def add(value: Any, path: tuple[Step, ...], expression: str) -> None:
        steps = _steps_into(value, of_callables) if len(path) < _MAX_STEPS else None
        if steps is None:
            leaves.append(Leaf(path, expression, value))
        for (kind, key), text in steps or ():
            item = value[key] if kind == "item" else getattr(value, key, None)
            add(item, (*path, (kind, key)), expression + text)

    names = []
    for path, name, value in passed_arguments(call, function):
        names.append(name)
        add(value, path, name)
    signature = signature_of(function)
    for parameter in () if signature is None else signature.parameters.values():
        name = parameter.name
        default = parameter.default
        can_be_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        is_plain = default is None or type(default) in (int, float, bool, str)
        if can_be_named and is_plain and name not in names:
            path = (("item", 1), ("item", name))
            leaves.append(Leaf(path, name, default, is_default=True))
    return leaves


def _steps_into(value: Any, of_callables: bool) -> list[tuple[Step, str]] | None:
    """List the steps to what is in a value, as code too; None for a leaf."""
    is_named = isinstance(value, tuple) and hasattr(value, "_fields")
    if is_named or type(value) in (list, tuple):
        return [(("item", at), f"[{at}]") for at in range(len(value))]
    if isinstance(value, dict):
        return [(("item", key), f"[{value_text(key)}]") for key in value]
    names = attribute_names(value, is_callable=of_callables)
    return [(("attribute", name), f".{name}") for name in names] or None


def replaced(
    call: Call, path: Sequence[Step], change: Callable[[Any], Any], *, in_place: bool = False
) -> Call:
    """Change one leaf of a call, as ``replaced_in`` does; an omitted default is added."""
    whole = [tuple(call[0]), dict(call[1])]
    args, kwargs = replaced_in(whole, path, change, in_place=in_place)
    return args, kwargs


def replaced_in(
    value: Any, path: Sequence[Step], change: Callable[[Any], Any], *, in_place: bool = False
) -> Any:
    """Change what a path leads to; on the way are copies, or the same objects where they can be
    changed ``in_place``.

    Returns the value itself, if the change changes nothing.
    """
    if not path:
        return change(value)
    (kind, key), rest = path[0], path[1:]
    is_attribute = kind == "attribute"
    # An omitted argument is None.
    is_mapping = isinstance(value, Mapping) and not is_attribute
    item = value.get(key) if is_mapping else item_at(value, path[0])
    changed = replaced_in(item, rest, change, in_place=in_place)
    if changed is item:
        return value
    if not is_attribute and isinstance(value, tuple):
        items = [*value[:key], changed, *value[key + 1 :]]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    whole = value if in_place else copy.copy(value)
    if is_attribute:
        object.__setattr__(whole, key, changed)
    else:
        whole[key] = changed
    return whole


def item_at(value: Any, step: Step) -> Any:
    """Follow a step."""
    kind, key = step
    return getattr(value, key) if kind == "attribute" else value[key]


def passed_arguments(call: Call, function: Any) -> Iterator[tuple[tuple[Step, Step], str, Any]]:
    """Yield a call's arguments, each with its path from ``[args, kwargs]`` and the name that the
    function has for it.
    """
    args, kwargs = call
    names = argument_names(function, len(args))
    for index, value in enumerate(args):
        name = names[index] if index < len(names) else f"args[{index}]"
        yield (("item", 0), ("item", index)), name, value
    for name, value in kwargs.items():
        yield (("item", 1), ("item", name)), name, value


class AlikeCalls:
    """Keeps the calls that are like the first one: of the same structure, with tensors of the same
    sizes and equal other values.
    """

    def __init__(self) -> None:
        self._first: object = None
        self._total = 0
        self._other: list[int] = []

    def keeps(self, call: Call) -> bool:
        """Return whether to make a call; called for each, in order."""
        self._total += 1
        kinds: list[object] = [tree_structure(call)]
        for leaf in tree_leaves(call):
            if isinstance(leaf, Tensor):
                kinds.append((str(leaf.dtype), str(leaf.device), tuple(leaf.shape)))
            else:
                is_plain = isinstance(leaf, bool | int | float | complex | str | type(None))
                kinds.append((type(leaf).__qualname__, leaf if is_plain else None))
        self._first = self._first or kinds
        if kinds != self._first:
            self._other.append(self._total)
        return kinds == self._first

    def calls(self) -> ExportCalls:
        """Count the calls, and number those that weren't made."""
        made = self._total - len(self._other)
        return ExportCalls(total=self._total, made=made, other=tuple(self._other))
