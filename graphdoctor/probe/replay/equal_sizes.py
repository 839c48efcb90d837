"""Sizes in scope that equal a number that the host reads from a tensor, or the length of a result,
in each call.

Looked at is the program's own code in eager mode, line by line: just before a line with
``idx[-1].item() + 1``, ``torch.bincount(x)`` or ``torch.repeat_interleave(x, counts)`` runs, what
it will give is compared with sizes of the tensors that names there stand for, and with integers.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

_LENGTHS = {
    "bincount": ("weights", "minlength"),
    "repeat_interleave": ("repeats", "dim", "output_size"),
}
"""Functions whose result has a length that depends on values, with their parameters after the
tensor."""

_PURE = frozenset(_LENGTHS) | frozenset(
    {
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
    }
    | {"flatten", "view", "reshape", "squeeze", "unsqueeze", "argmax"}
)
_PLAIN = (
    ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.Constant, ast.UnaryOp, ast.BinOp, ast.Call,
    ast.keyword, ast.operator, ast.unaryop, ast.expr_context,
)  # fmt: skip
_MAX_HITS = 200
_MAX_ITEMS = 64


@dataclass(frozen=True)
class _Site:
    """An expression; ``length``: what gives its number is the result's size there, rather than the
    result.
    """

    text: str
    code: CodeType
    length: int | None


@dataclass
class _Equal:
    values: set[int] = field(default_factory=set)
    count: int = 0
    names: dict[str, tuple[bool, int, int, int]] = field(default_factory=dict)
    """What equals it, with its rank."""


class EqualSizes:
    """What was equal in all calls that the program accepts."""

    def __init__(self) -> None:
        self._sites: dict[str, dict[int, list[_Site]]] = {}
        self._found: dict[tuple[str, str, str], _Equal] = {}
        self._waiting: list[
            tuple[tuple[str, str, str], int, dict[str, tuple[bool, int, int, int]]]
        ] = []

    def has_sites(self, code: CodeType) -> bool:
        """Whether lines of a function are worth looking at."""
        file = code.co_filename
        if file not in self._sites:
            self._sites[file] = _sites_in(file)
        return any(line in self._sites[file] for _, _, line in code.co_lines() if line is not None)

    def look(self, frame: FrameType) -> None:
        """Before a line is run: note what its numbers are, and what equals them."""
        code = frame.f_code
        for site in self._sites[code.co_filename].get(frame.f_lineno, ()):
            key = (code.co_filename, code.co_name, site.text)
            if self._found.get(key, _Equal()).count >= _MAX_HITS:
                continue
            try:
                found = eval(site.code, frame.f_globals, frame.f_locals)
                value = found if site.length is None else found.shape[site.length]
            except Exception:  # noqa: BLE001 - the program raises it itself, or doesn't get there
                continue
            if type(value) is int:
                names = {name: rank for name, size, rank in _sizes_in(frame) if size == value}
                self._waiting.append((key, value, names))

    def settle(self, *, is_accepted: bool) -> None:
        """After a call: keep what was noted in it, or forget it if the program refused the call."""
        for key, value, names in self._waiting if is_accepted else ():
            found = self._found.setdefault(key, _Equal(names=names))
            found.values.add(value)
            found.count += 1
            found.names = {name: rank for name, rank in found.names.items() if name in names}
        self._waiting.clear()

    def as_json(self) -> list[dict[str, Any]]:
        """What was found, the best name of each first; ``is_varied``: the number wasn't always the
        same.
        """
        return [
            {
                **dict(zip(("file", "function", "text"), key, strict=True)),
                "names": sorted(found.names, key=lambda name: found.names[name]),
                "count": found.count,
                "is_varied": len(found.values) > 1,
            }
            for key, found in self._found.items()
            if found.names
        ]


def _sites_in(file: str) -> dict[int, list[_Site]]:
    try:
        text = Path(file).read_bytes()
        tree = (
            ast.parse(text)
            if any(name in text for name in (b".item(", b"int(", *map(str.encode, _LENGTHS)))
            else None
        )
    except (OSError, SyntaxError, ValueError, RecursionError):
        return {}
    found: dict[int, list[_Site]] = {}
    waiting: list[ast.AST] = [tree] if tree is not None else []
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.expr) and _is_pure(node):
            length = _length(node)
            if length is not None or _is_read(node):
                code = compile(ast.Expression(node), file, "eval")
                found.setdefault(node.lineno, []).append(_Site(ast.unparse(node), code, length))
                if length is None:
                    continue
        waiting += ast.iter_child_nodes(node)
    return found


def _is_pure(node: ast.expr) -> bool:
    return all(
        isinstance(one, _PLAIN) and (not isinstance(one, ast.Call) or _called(one) in _PURE)
        for one in ast.walk(node)
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
    """Which size of a call's result depends on values and isn't given; None if none."""
    if not isinstance(node, ast.Call) or _called(node) not in _LENGTHS:
        return None
    is_of_torch = (
        isinstance(node.func, ast.Attribute) and getattr(node.func.value, "id", "") == "torch"
    )
    given = dict(zip(_LENGTHS[_called(node)], node.args[is_of_torch:], strict=False))
    given |= {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    if given.keys() & {"minlength", "output_size"}:
        return None
    try:
        dim = ast.literal_eval(given.get("dim", ast.Constant(0)))
    except ValueError:
        return None
    return dim if isinstance(dim, int) else 0


def _sizes_in(frame: FrameType) -> Iterator[tuple[str, int, tuple[bool, int, int, int]]]:
    """Sizes and integers that names stand for, with their ranks: sizes before integers, first dims
    before others.
    """
    given = frame.f_code.co_varnames[: frame.f_code.co_argcount]
    for name, value in [*frame.f_locals.items()]:
        inner = {name: value}
        if isinstance(value, dict):
            inner = {
                f"{name}[{json.dumps(key)}]": one
                for key, one in [*value.items()][:_MAX_ITEMS]
                if type(key) is str
            }
        elif isinstance(value, torch.nn.Module):
            owned = {**vars(value), **value._parameters, **value._buffers}
            inner = {f"{name}.{key}": one for key, one in owned.items() if key != "_version"}
        for text, one in inner.items():
            if isinstance(one, torch.Tensor):
                for dim, size in enumerate(one.shape):
                    yield f"{text}.shape[{dim}]", size, (False, dim, name not in given, len(text))
            elif type(one) is int:
                yield text, one, (True, 0, name not in given, len(text))
            elif type(one) in (list, tuple):
                yield f"len({text})", len(one), (False, 0, name not in given, len(text))
