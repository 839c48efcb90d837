"""Sizes in scope that equal a number that the host reads from a tensor, or the length of a result,
in each call.

It looks at the program's own code in eager mode, line by line: just before a line with
``idx[-1].item() + 1``, ``torch.bincount(x)`` or ``torch.repeat_interleave(x, counts)`` runs, what
it will give is compared with sizes of the tensors and sequences that names there stand for. Numbers
that a program keeps don't count: they may change later. That two are equal proves nothing before
they were for ``_LEAST`` different numbers, nor where a mask that the number is made of selects all
or nothing: how many it selects is a length then, whatever it is.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

from .looking import Looker, called_name, is_pure, value_in

_LENGTHS = {
    "bincount": ("weights", "minlength"),
    "repeat_interleave": ("repeats", "dim", "output_size"),
}
"""Functions whose result has a length that depends on values, with their parameters after the
tensor."""

_PURE = re.compile(
    "item|max|min|amax|amin|sum|numel|size|int|long|to|cpu|detach|abs|flatten|view|reshape|squeeze|"
    "unsqueeze|argmax|bincount|repeat_interleave"
)
"""Functions that have no effect, by name."""
_MAX_HITS = 400
_LEAST = 3
_MAX_ITEMS = 64

_Assigned = dict[str, list[ast.expr]]
"""What a function sets names to."""

_Rank = tuple[int, bool, int]


class _Site(NamedTuple):
    """An expression; ``length``: the dim of its result that is the number, None for the result."""

    node: ast.expr
    length: int | None
    sources: list[_Source]


class _Source(NamedTuple):
    """What a number is made of; ``is_unclear``: by more than its function shows."""

    node: ast.expr
    is_unclear: bool


@dataclass
class _Equal:
    names: dict[str, _Rank]
    values: set[int] = field(default_factory=set)
    count: int = 0


class EqualSizes(Looker[_Site]):
    """What was equal in all calls that the program accepts."""

    def __init__(self) -> None:
        super().__init__()
        self._equal: dict[tuple[str, str, str], _Equal] = {}
        """By file, function, and text of an expression."""
        self._waiting: list[tuple[tuple[str, str, str], int, dict[str, _Rank], bool]] = []

    def find(self, tree: ast.Module) -> Iterator[tuple[int, _Site]]:
        """See ``Looker``."""
        waiting: list[tuple[ast.AST, _Assigned]] = [(tree, {})]
        while waiting:
            node, assigned = waiting.pop()
            if isinstance(node, ast.FunctionDef):
                assigned = _assigned_in(node)
            if isinstance(node, ast.expr) and is_pure(node, _PURE):
                length = _length(node)
                if length is not None or _is_read(node):
                    yield node.lineno, _Site(node, length, [*_sources(node, assigned)])
                    if length is None:
                        continue
            waiting += ((child, assigned) for child in ast.iter_child_nodes(node))

    def look(self, frame: FrameType) -> None:
        """Note the numbers of the line that is about to run, and what equals them."""
        code = frame.f_code
        for site in self.sites(frame):
            key = (code.co_filename, code.co_name, ast.unparse(site.node))
            if key in self._equal and self._equal[key].count >= _MAX_HITS:
                continue
            try:
                value = value_in(frame, site.node)
                value = value if site.length is None else value.shape[site.length]
            except Exception:  # noqa: BLE001 - the program raises it itself, or doesn't get there
                continue
            if type(value) is int:
                names = {name: rank for name, size, rank in _sizes_in(frame) if size == value}
                self._waiting.append((key, value, names, _is_telling(site, value, frame)))

    def settle(self, *, is_accepted: bool) -> None:
        """After a call: keep what was noted in it, or forget it if the program refused the call."""
        for key, value, names, is_telling in self._waiting if is_accepted else ():
            equal = self._equal.setdefault(key, _Equal(names))
            equal.values |= {value} if is_telling else set()
            equal.count += 1
            equal.names = {name: rank for name, rank in equal.names.items() if name in names}
        self._waiting.clear()

    def as_json(self) -> list[dict[str, Any]]:
        """Return the equal names of each expression, the best first."""
        return [
            {
                "file": file,
                "function": function,
                "text": text,
                "names": sorted(equal.names, key=equal.names.__getitem__),
                "count": equal.count,
            }
            for (file, function, text), equal in self._equal.items()
            if equal.names and len(equal.values) >= _LEAST
        ]


def _assigned_in(function: ast.FunctionDef) -> _Assigned:
    assigned: _Assigned = {}
    for node in ast.walk(function):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AugAssign(target=ast.Name(id=name), value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                assigned.setdefault(name, []).append(value)
    return assigned


def _sources(expression: ast.expr, assigned: _Assigned) -> Iterator[_Source]:
    """Find the parts of an expression, and of what the names in it are set to."""
    waiting: list[ast.AST] = [expression]
    followed: set[str] = set()
    while waiting:
        node = waiting.pop()
        made = assigned.get(node.id, []) if isinstance(node, ast.Name) else []
        if isinstance(node, ast.expr) and is_pure(node, _PURE):
            yield _Source(node, not all(is_pure(value, _PURE) for value in made))
        if isinstance(node, ast.Name) and node.id not in followed:
            followed.add(node.id)
            waiting += made
        waiting += ast.iter_child_nodes(node)


def _is_telling(site: _Site, number: int, frame: FrameType) -> bool:
    """Check that a number is made of tensors, none of which is a mask that is the same
    everywhere.
    """
    tensors: list[Tensor] = []
    for node, is_unclear in site.sources:
        try:
            value = value_in(frame, node)
        except Exception:  # noqa: BLE001 - a name has another value by now
            continue
        if isinstance(value, Tensor):
            if is_unclear and value.ndim == 0:
                return False
            tensors.append(value)
    return any(tensor.ndim for tensor in tensors) and not any(
        number in (tensor.numel(), *tensor.shape)
        and _is_same_everywhere(tensor, is_counted=site.length is None)
        for tensor in tensors
    )


def _is_same_everywhere(mask: Tensor, *, is_counted: bool) -> bool:
    if mask.dtype == torch.bool:
        return bool(mask.all()) or not mask.any()
    return is_counted and mask.numel() > 1 and bool((mask == 1).all())


def _is_read(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="item"), args=[]):
            return True
        case ast.Call(func=ast.Name(id="int"), args=[ast.expr()]):
            return True
        case ast.BinOp(left=left, right=ast.Constant(value=int())):
            return _is_read(left)
    return False


def _length(node: ast.expr) -> int | None:
    """Return the dim of a call's result whose size depends on values and isn't passed; None if
    none.
    """
    if not isinstance(node, ast.Call) or (name := called_name(node)) not in _LENGTHS:
        return None
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_of_torch = getattr(owner, "id", "") == "torch"
    passed = dict(zip(_LENGTHS[name], node.args[is_of_torch:], strict=False))
    passed |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    if passed.keys() & {"minlength", "output_size"}:
        return None
    try:
        dim = ast.literal_eval(passed.get("dim", ast.Constant(0)))
    except ValueError:
        return None
    return dim if isinstance(dim, int) else 0


def _sizes_in(frame: FrameType) -> Iterator[tuple[str, int, _Rank]]:
    """Sizes of what names stand for, with their ranks: first dims before others."""
    parameters = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    for name, value in [*frame.f_locals.items()]:
        values = {name: value}
        if isinstance(value, dict):
            items = [*value.items()][:_MAX_ITEMS]
            values = {f"{name}[{json.dumps(k)}]": item for k, item in items if type(k) is str}
        elif isinstance(value, Module):
            owned = {**vars(value), **value._parameters, **value._buffers}
            values = {f"{name}.{key}": item for key, item in owned.items() if key != "_version"}
        for text, item in values.items():
            rank = name not in parameters, len(text)
            if isinstance(item, Tensor):
                for dim, size in enumerate(item.shape):
                    yield f"{text}.shape[{dim}]", size, (dim, *rank)
            elif type(item) in (list, tuple) and text in parameters:
                yield f"len({text})", len(item), (0, *rank)
