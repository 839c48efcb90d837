"""A Python source file as recipes read and edit it: a concrete syntax tree that keeps formatting and comments."""

from __future__ import annotations

import ast
import codecs
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar, cast

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, ParentNodeProvider, PositionProvider, Scope, ScopeProvider


class DeclinedError(Exception):
    """The source stays unchanged."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def decline_if(condition: object, reason: str) -> None:
    """Leave the source unchanged if a condition holds."""
    if condition:
        raise DeclinedError(reason)


_Node = TypeVar("_Node", bound=cst.CSTNode)
_Item = TypeVar("_Item")


def need(node: object, kind: type[_Node], reason: str) -> _Node:
    """The node, or leave the source unchanged if it is of another kind."""
    if isinstance(node, kind):
        return node
    raise DeclinedError(reason)


def known(item: _Item | None, reason: str = "") -> _Item:
    """What is there, or leave the source unchanged if nothing is."""
    if item is None:
        raise DeclinedError(reason)
    return item


def only(found: Sequence[_Item], reason: str) -> _Item:
    """The only one, or leave the source unchanged if there are none or several."""
    decline_if(len(found) != 1, reason)
    return found[0]


Change = tuple[cst.CSTNode, cst.CSTNode | Sequence[cst.CSTNode]]
"""A node of the tree and its replacement; several, or none, for a line or a small statement."""

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
"""A statement of a body; ``a; b`` is one statement made of two small statements."""

_MODULES = ("torch", "numpy", "random")
"""Modules that edits use."""

_DEEPEST = 100
"""Levels of Python's own tree. libcst's visitors need up to nine frames for each, and the stack limit is 1000."""


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and everything below it, in source order."""
    yield node
    for child in node.children:
        yield from walk(child)


def names_in(node: cst.CSTNode) -> Iterator[cst.Name]:
    """The variables in a node, without attributes and keywords of calls."""
    for child in node.children:
        is_label = (isinstance(node, cst.Attribute) and child is node.attr) or (
            isinstance(node, cst.Arg) and child is node.keyword
        )
        if not is_label:
            yield from names_in(child)
    if isinstance(node, cst.Name):
        yield node


def parsed(statements: Iterable[cst.BaseStatement | cst.BaseSmallStatement]) -> list[ast.stmt]:
    """Statements as Python's own syntax tree; declines if this version of Python doesn't know the syntax."""
    lines = [node if isinstance(node, cst.BaseStatement) else cst.SimpleStatementLine([node]) for node in statements]
    if not lines:
        return []
    try:
        return ast.parse(cst.Module([]).code_for_node(cst.If(cst.Name("_"), cst.IndentedBlock(lines)))).body[0].body  # type: ignore[attr-defined, no-any-return]
    except SyntaxError:
        raise DeclinedError("this version of Python can't parse it") from None


def with_replaced(node: cst.CSTNode, changes: Sequence[Change]) -> cst.CSTNode:
    """A copy of a node in which other nodes, found by identity, are replaced."""
    return cast("cst.CSTNode", node.visit(_Replacement(changes, None, ())))


@dataclass(frozen=True)
class SourceFile:
    """One parsed file."""

    path: Path
    content: bytes
    tree: cst.Module

    @classmethod
    def read(cls, path: Path) -> SourceFile:
        """Read and parse a file."""
        if path.suffix != ".py":
            raise DeclinedError(f"{path.name or path} isn't a .py file")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise DeclinedError(f"{path} can't be read: {error.strerror}") from error
        return cls.parse(path, content)

    @classmethod
    def parse(cls, path: Path, content: bytes) -> SourceFile:
        """Parse bytes as the content of a file."""
        if _is_too_deep(content):
            raise DeclinedError(f"{path.name} is nested too deeply")
        if b"\0" in content:
            raise DeclinedError(f"{path.name} has a null byte")
        try:
            tree = cst.parse_module(content)
        except (cst.ParserSyntaxError, UnicodeDecodeError, LookupError, SyntaxError, ValueError, RecursionError):
            raise DeclinedError(f"{path.name} can't be parsed") from None
        source = cls(path, content, tree)
        if source.edited(tree) != content:
            raise DeclinedError(f"{path.name} wouldn't be written back unchanged")
        return source

    def edited(self, tree: cst.Module) -> bytes:
        """The file's bytes with another tree; its encoding, byte-order mark and newlines stay."""
        encoding = "utf-8" if self.tree.encoding == "utf-8-sig" else self.tree.encoding
        mark = codecs.BOM_UTF8 if self.content.startswith(codecs.BOM_UTF8) else b""
        return mark + tree.code.encode(encoding)

    def replaced(self, *changes: Change, imports: Sequence[str] = ()) -> bytes:
        """The file's bytes with nodes of the tree replaced; UnicodeEncodeError for a character that its encoding lacks.

        If the new nodes name a module of ``_MODULES`` that the old ones don't, and that the file doesn't import, an
        ``import`` line is added after the last import above the first change. No old node is inside another; new nodes
        are new or a ``deep_clone()``: one node must not be in a tree twice.
        """
        had, has = _named(old for old, _ in changes), _named(node for _, new in changes for node in _listed(new))
        needed = [*imports, *(name for name in _MODULES if has[name] > had[name])]
        missing = [name for name in dict.fromkeys(needed) if not self.imports(name)]
        first = min((self.position(old).start.line for old, _ in changes), default=None)
        lines = [line for line in reversed(self.tree.body) if isinstance(line, cst.SimpleStatementLine)]
        lines = [line for line in lines if isinstance(line.body[0], cst.Import | cst.ImportFrom)]
        anchor = next((line for line in lines if first is None or self.position(line).end.line < first), None)
        added = [cst.SimpleStatementLine([cst.Import([cst.ImportAlias(cst.Name(name))])]) for name in missing]
        tree = self.tree.visit(_Replacement(changes, anchor if added else None, added))
        if added and anchor is None:
            at = 1 if self.tree.get_docstring() is not None else 0
            tree = tree.with_changes(body=[*tree.body[:at], *added, *tree.body[at:]])
        return self.edited(tree)

    def changed(self, *changes: Change) -> SourceFile:
        """The file with nodes of the tree replaced, parsed again."""
        return SourceFile.parse(self.path, self.replaced(*changes))

    def free_name(self, wanted: str, given: Iterable[str] = ()) -> str:
        """A name that neither the file nor ``given`` has: ``wanted`` itself, or ``wanted_2`` and so on."""
        taken = {*re.findall(r"\w+", self.tree.code), *given}
        name, number = wanted, 1
        while name in taken:
            number += 1
            name = f"{wanted}_{number}"
        return name

    def imports(self, name: str) -> bool:
        """Whether the file imports a top-level module under its own name at the top level."""
        for line in self.tree.body:
            for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                for alias in small.names if isinstance(small, cst.Import) else ():
                    if alias.asname is None and self.code(alias.name).partition(".")[0] == name:
                        return True
        return False

    @cached_property
    def _wrapper(self) -> MetadataWrapper:
        return MetadataWrapper(self.tree, unsafe_skip_copy=True)

    @cached_property
    def _positions(self) -> dict[cst.CSTNode, CodeRange]:
        return cast("dict[cst.CSTNode, CodeRange]", dict(self._wrapper.resolve(PositionProvider)))

    @cached_property
    def _parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        return cast("dict[cst.CSTNode, cst.CSTNode]", dict(self._wrapper.resolve(ParentNodeProvider)))

    @cached_property
    def scopes(self) -> dict[cst.CSTNode, Scope | None]:
        """Libcst's scope of each node."""
        return cast("dict[cst.CSTNode, Scope | None]", dict(self._wrapper.resolve(ScopeProvider)))

    def position(self, node: cst.CSTNode) -> CodeRange:
        """The position of a node of the tree: 1-based lines, 0-based columns, without the comments before it."""
        return self._positions[node]

    def start(self, node: cst.CSTNode) -> tuple[int, int]:
        """The line and column where a node begins."""
        start = self._positions[node].start
        return start.line, start.column

    def spans_lines(self, node: cst.CSTNode) -> bool:
        """Whether a node begins on one line and ends on another."""
        return self._positions[node].start.line != self._positions[node].end.line

    def parent(self, node: cst.CSTNode) -> cst.CSTNode:
        """The node around a node that isn't the module."""
        return self._parents[node]

    def parents(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around a node, innermost first, the module last."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def function_of(self, node: cst.CSTNode) -> cst.FunctionDef | cst.Lambda | None:
        """The innermost function around a node."""
        return next((found for found in self.parents(node) if isinstance(found, cst.FunctionDef | cst.Lambda)), None)

    def class_of(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """The innermost class around a node."""
        return next((found for found in self.parents(node) if isinstance(found, cst.ClassDef)), None)

    def code(self, node: cst.CSTNode) -> str:
        """A node as source text."""
        return self.tree.code_for_node(node)

    def shortened(self, node: cst.CSTNode) -> str:
        """A node as source text on one line, cut where it is long."""
        text = " ".join(self.code(node).split())
        return text if len(text) <= 40 else text[:39] + "…"

    def statement_at(self, line: int) -> Statement | None:
        """The innermost statement that a line belongs to; a decorator's line belongs to what it decorates."""
        around: list[tuple[int, int, Statement]] = []
        for node, place in self._positions.items():
            if isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                decorators = node.decorators if isinstance(node, cst.FunctionDef | cst.ClassDef) else ()
                start = self.position(decorators[0]).start if decorators else place.start
                if start.line <= line <= place.end.line:
                    around.append((place.end.line - start.line, -start.column, node))
        return min(around, key=lambda found: found[:2])[2] if around else None

    def expression_at(self, line: int, column: int, end_column: int | None) -> cst.BaseExpression | None:
        """The outermost expression at a position; lines and columns are 1-based, and the end is exclusive.

        Without ``end_column``, the outermost one that begins there and ends on another line.
        """
        found: list[tuple[tuple[int, int], cst.BaseExpression]] = []
        for node, place in self._positions.items():
            if isinstance(node, cst.BaseExpression) and self.start(node) == (line, column - 1):
                is_on_line = place.end.line == line
                if (end_column is None and not is_on_line) or (is_on_line and end_column == place.end.column + 1):
                    found.append(((place.end.line, place.end.column), node))
        # Of equal positions, the first is the outermost: metadata lists parents before their children.
        return max(found, key=lambda item: item[0])[1] if found else None


def _is_too_deep(content: bytes) -> bool:
    """Whether the text is nested so deeply that libcst would run out of stack, or end the process."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            nodes: list[ast.AST] = [ast.parse(content)]
    except (RecursionError, MemoryError):
        return True
    except SyntaxError as error:
        # Otherwise it may be valid in a later version of Python.
        return "too many nested" in error.msg
    except ValueError:
        return False
    for _ in range(_DEEPEST):
        nodes = [child for node in nodes for child in ast.iter_child_nodes(node)]
    return bool(nodes)


def _listed(new: cst.CSTNode | Sequence[cst.CSTNode]) -> Sequence[cst.CSTNode]:
    return [new] if isinstance(new, cst.CSTNode) else new


def _named(nodes: Iterable[cst.CSTNode]) -> Counter[str]:
    return Counter(name.value for node in nodes for name in names_in(node))


class _Replacement(cst.CSTTransformer):
    """Replaces nodes, found by identity, and adds lines after one of them."""

    def __init__(
        self, changes: Sequence[Change], anchor: cst.CSTNode | None, added: Sequence[cst.SimpleStatementLine]
    ) -> None:
        super().__init__()
        self._changes = changes
        self._anchor = anchor
        self._added = added

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        for old, new in self._changes:
            if old is original_node:
                return new if isinstance(new, cst.CSTNode) else cast("cst.CSTNode", cst.FlattenSentinel(new))
        if original_node is self._anchor:
            return cast("cst.CSTNode", cst.FlattenSentinel([updated_node, *self._added]))
        return updated_node
