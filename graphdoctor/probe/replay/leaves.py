"""The values in a call's arguments: each tensor, number and text with its expression, and the call
with one changed.

A changed call copies only containers and objects on the way to the value, so it must be made from
fresh copies where the rest must stay untouched. Calls are alike if they differ in the values of
tensors alone.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin, get_type_hints

from torch import Tensor

from ...facts.recording import ExportCalls
from ..record.describe import value_text
from ..record.listener import argument_names
from ..target.snapshot import attribute_names
from ..target.targets import Call, plain_function, signature_of
from ..torch_private.torch_api import tree_leaves, tree_structure

_MAX_DEPTH = 6

Step = tuple[str, Any]
"""``("item", key)`` or ``("attribute", name)``."""

_Path = tuple[Step, ...]


@dataclass(frozen=True)
class Leaf:
    """One value in a call, reached from ``[args, kwargs]``; ``choices``: those of its annotation
    (``Literal``).
    """

    path: _Path
    expression: str
    value: Any
    choices: tuple[Any, ...] = ()
    is_default: bool = False


def leaves_of(call: Call, function: Any, *, of_callables: bool = False) -> list[Leaf]:
    """List the leaves of a call's arguments in the order of the signature, then the defaults that
    the call omits.
    """
    signature = signature_of(function)
    choices = _choices(function)
    passed = list(passed_arguments(call, function))
    names = [name for _, name, _ in passed]
    leaves = [
        dataclasses.replace(leaf, choices=choices.get(leaf.expression, ()))
        for path, name, value in passed
        for leaf in _walk(value, path, name, 0, of_callables=of_callables)
    ]
    for parameter in () if signature is None else signature.parameters.values():
        name, default = parameter.name, parameter.default
        can_be_named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        is_plain = default is None or type(default) in (int, float, bool, str)
        if can_be_named and is_plain and name not in names:
            path = (("item", 1), ("item", name))
            leaves.append(Leaf(path, name, default, choices.get(name, ()), is_default=True))
    return leaves


def _walk(
    value: Any, path: _Path, expression: str, depth: int, *, of_callables: bool
) -> Iterator[Leaf]:
    inside: list[tuple[Step, str, Any]] = []
    is_sequence = type(value) in (list, tuple) or (
        isinstance(value, (list, tuple)) and hasattr(value, "_fields")
    )
    is_leaf = depth >= _MAX_DEPTH
    if is_leaf:
        pass
    elif is_sequence:
        inside = [(("item", at), f"{expression}[{at}]", item) for at, item in enumerate(value)]
    elif isinstance(value, dict):
        inside = [
            (("item", key), f"{expression}[{value_text(key)}]", item) for key, item in value.items()
        ]
    else:
        names = attribute_names(value, is_callable=of_callables)
        is_leaf = not names
        inside = [
            (("attribute", name), f"{expression}.{name}", getattr(value, name, None))
            for name in names
        ]
    if is_leaf:
        yield Leaf(path, expression, value)
    for step, text, item in inside:
        yield from _walk(item, (*path, step), text, depth + 1, of_callables=of_callables)


def replaced(call: Call, path: _Path, change: Callable[[Any], Any]) -> Call:
    """Change one leaf of a call; an omitted default is added."""
    args, kwargs = replaced_in([call[0], call[1]], path, change)
    return tuple(args), dict(kwargs)


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
        items = [changed if index == key else other for index, other in enumerate(value)]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    whole: Any = value if in_place else copy.copy(value)
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
    names += [f"args[{index}]" for index in range(len(names), len(args))]
    for index, value in enumerate(args):
        yield (("item", 0), ("item", index)), names[index], value
    for name, value in kwargs.items():
        yield (("item", 1), ("item", name)), name, value


def _choices(function: Any) -> dict[str, tuple[Any, ...]]:
    """Return the values that the annotations of parameters allow (``Literal``)."""
    called = plain_function(function)
    try:
        hints = get_type_hints(called)
    except Exception:  # noqa: BLE001 - an annotation may name anything, or nothing that exists
        # Those that aren't text are there all the same.
        hints = getattr(called, "__annotations__", {})
    choices: dict[str, tuple[Any, ...]] = {}
    for name, hint in hints.items():
        literals = (part for part in (hint, *get_args(hint)) if get_origin(part) is Literal)
        choices[name] = tuple(choice for part in literals for choice in get_args(part))
    return choices


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
        kind = tree_structure(call), list(map(_kind, tree_leaves(call)))
        self._first = self._first or kind
        if kind != self._first:
            self._other.append(self._total)
        return kind == self._first

    def calls(self) -> ExportCalls:
        """Count the calls, and number those that weren't made."""
        made = self._total - len(self._other)
        return ExportCalls(total=self._total, made=made, other=tuple(self._other))


def _kind(leaf: Any) -> object:
    if isinstance(leaf, Tensor):
        return str(leaf.dtype), str(leaf.device), tuple(leaf.shape)
    is_plain = isinstance(leaf, (bool, int, float, complex, str, type(None)))
    return type(leaf).__qualname__, leaf if is_plain else None
