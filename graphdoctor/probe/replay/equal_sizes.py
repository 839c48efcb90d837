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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Module

_LENGTHS = {
    "bincount": ("weights", "minlength"),
    "repeat_interleave": ("repeats", "dim", "output_size"),
}
"""Functions whose result has a length that depends on values, with their parameters after the
tensor."""

_PURE = frozenset(
    [
        "item",
        "max",
        "min",
        "amax",
        "amin",
        "sum",
        "numel",
        "size",
        "int",
        "long",
        "to",
        "cpu",
        "detach",
        "abs",
        "flatten",
        "view",
        "reshape",
        "squeeze",
        "unsqueeze",
        "argmax",
    ]
) | frozenset(_LENGTHS)
_PLAIN = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.Constant, ast.UnaryOp,
    ast.BinOp, ast.Compare, ast.Call, ast.keyword, ast.operator, ast.unaryop, ast.cmpop,
    ast.expr_context,
)  # fmt: skip
_MAX_HITS = 400
_LEAST = 3
_MAX_ITEMS = 64

_Values = dict[str, list[ast.expr]]
_Key = tuple[str, str, str]
"""File, function, and text of an expression."""

_Rank = tuple[int, bool, int]


class _Site(NamedTuple):
    """An expression; ``length``: the dim of its result that is the number, None for the result."""

    text: str
    code: CodeType
    length: int | None
    made_of: tuple[_Source, ...]


class _Source(NamedTuple):
    """What a number is made of; ``is_unclear``: by more than its function shows."""

    code: CodeType
    is_unclear: bool


@dataclass
class _Equal:
    names: dict[str, _Rank]
    values: set[int] = field(default_factory=set)
    count: int = 0


class EqualSizes:
    """What was equal in all calls that the program accepts."""

    def __init__(self) -> None:
        self._sites: dict[str, dict[int, list[_Site]]] = {}
        self._equal: dict[_Key, _Equal] = {}
        self._waiting: list[tuple[_Key, int, dict[str, _Rank], bool]] = []

    def has_sites(self, code: CodeType) -> bool:
        """Return whether lines of a function are worth looking at."""
        file = code.co_filename
        if file not in self._sites:
            self._sites[file] = _sites_in(file)
        return any(line in self._sites[file] for _, _, line in code.co_lines())

    def look(self, frame: FrameType) -> None:
        """Note the numbers of the line that is about to run, and what equals them."""
        code = frame.f_code
        for site in self._sites[code.co_filename].get(frame.f_lineno, ()):
            key = (code.co_filename, code.co_name, site.text)
            if key in self._equal and self._equal[key].count >= _MAX_HITS:
                continue
            try:
                value = eval(site.code, frame.f_globals, frame.f_locals)
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
                **dict(zip(("file", "function", "text"), key, strict=True)),
                "names": sorted(equal.names, key=equal.names.__getitem__),
                "count": equal.count,
            }
            for key, equal in self._equal.items()
            if equal.names and len(equal.values) >= _LEAST
        ]


def _sites_in(file: str) -> dict[int, list[_Site]]:
    sites: dict[int, list[_Site]] = {}
    try:
        text = Path(file).read_bytes()
        if not any(name in text for name in (b".item(", b"int(", *map(str.encode, _LENGTHS))):
            return sites
        waiting: list[tuple[ast.AST, _Values]] = [(ast.parse(text), {})]
    except (OSError, SyntaxError, ValueError, RecursionError):
        return sites
    while waiting:
        node, values = waiting.pop()
        if isinstance(node, ast.FunctionDef):
            values = _values_in(node)
        if isinstance(node, ast.expr) and _is_pure(node):
            length = _length(node)
            if length is not None or _is_read(node):
                code = compile(ast.Expression(node), file, "eval")
                site = _Site(ast.unparse(node), code, length, tuple(_sources(node, values)))
                sites.setdefault(node.lineno, []).append(site)
                if length is None:
                    continue
        waiting += ((child, values) for child in ast.iter_child_nodes(node))
    return sites


def _values_in(function: ast.FunctionDef) -> _Values:
    values: _Values = {}
    for node in ast.walk(function):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AugAssign(target=ast.Name(id=name), value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                values.setdefault(name, []).append(value)
    return values


def _sources(expression: ast.expr, values: _Values) -> Iterator[_Source]:
    """Find the parts of an expression, and of what the names in it are set to."""
    waiting: list[ast.AST] = [expression]
    followed: set[str] = set()
    while waiting:
        node = waiting.pop()
        made = values.get(node.id, []) if isinstance(node, ast.Name) else []
        if isinstance(node, ast.expr) and _is_pure(node):
            yield _Source(compile(ast.Expression(node), "", "eval"), not all(map(_is_pure, made)))
        if isinstance(node, ast.Name) and node.id not in followed:
            followed.add(node.id)
            waiting += made
        waiting += ast.iter_child_nodes(node)


def _is_telling(site: _Site, number: int, frame: FrameType) -> bool:
    """Check that a number is made of tensors, none of which is a mask that is the same
    everywhere.
    """
    tensors: list[Tensor] = []
    for source in site.made_of:
        try:
            value = eval(source.code, frame.f_globals, frame.f_locals)
        except Exception:  # noqa: BLE001 - a name has another value by now
            continue
        if isinstance(value, Tensor):
            if source.is_unclear and value.ndim == 0:
                return False
            tensors.append(value)
    return any(tensor.ndim for tensor in tensors) and not any(
        _is_same_everywhere(tensor, is_counted=site.length is None)
        and number in (tensor.numel(), *tensor.shape)
        for tensor in tensors
    )


def _is_same_everywhere(mask: Tensor, *, is_counted: bool) -> bool:
    if mask.dtype == torch.bool:
        return bool(mask.all()) or not mask.any()
    return is_counted and mask.numel() > 1 and bool((mask == 1).all())


def _is_pure(expression: ast.expr) -> bool:
    return all(
        isinstance(node, _PLAIN) and (not isinstance(node, ast.Call) or _called(node) in _PURE)
        for node in ast.walk(expression)
    )


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


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
    if not isinstance(node, ast.Call) or _called(node) not in _LENGTHS:
        return None
    owner = node.func.value if isinstance(node.func, ast.Attribute) else None
    is_of_torch = getattr(owner, "id", "") == "torch"
    passed = dict(zip(_LENGTHS[_called(node)], node.args[is_of_torch:], strict=False))
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
