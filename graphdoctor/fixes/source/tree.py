"""A Python source file as recipes read and edit it: a concrete syntax tree that keeps formatting
and comments.

What names mean comes from libcst's scopes. A name that could mean two things means nothing here.
"""

from __future__ import annotations

import ast
import codecs
import re
import warnings
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar, cast

import libcst as cst
from libcst.metadata import (
    Assignment,
    BaseAssignment,
    CodeRange,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    QualifiedNameSource,
    Scope,
    ScopeProvider,
)

from graphdoctor.fixes.source.torch_names import TENSOR_FUNCTIONS, TENSOR_METHODS

DeclineKind = Literal["unsure", "elsewhere", "another_line"]
"""Why an edit isn't written. ``elsewhere``: torch points to something that the recipe isn't for;
``another_line``: the line isn't of the kind that it is for, which says nothing about the line."""


class DeclinedError(Exception):
    """The source stays unchanged."""

    def __init__(self, reason: str, kind: DeclineKind = "unsure") -> None:
        super().__init__(reason)
        self.reason, self.kind = reason, kind


def decline_if(condition: object, reason: str, why: DeclineKind = "unsure") -> None:
    """Leave the source unchanged if a condition holds."""
    if condition:
        raise DeclinedError(reason, why)


_Node = TypeVar("_Node", bound=cst.CSTNode)
_Item = TypeVar("_Item")


def need(node: object, kind: type[_Node], reason: str, why: DeclineKind = "unsure") -> _Node:
    """The node, or leave the source unchanged if it is of another kind."""
    if isinstance(node, kind):
        return node
    raise DeclinedError(reason, why)


def known(item: _Item | None, reason: str = "") -> _Item:
    """What is there, or leave the source unchanged if nothing is."""
    if item is None:
        raise DeclinedError(reason)
    return item


def only(found: Sequence[_Item], reason: str, why: DeclineKind = "unsure") -> _Item:
    """The only one, or leave the source unchanged if there are none or several."""
    decline_if(len(found) != 1, reason, why)
    return found[0]


Change = tuple[cst.CSTNode, cst.CSTNode | Sequence[cst.CSTNode]]
"""A node of the tree and its replacement; several, or none, for a line or a small statement."""

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
_Line = TypeVar("_Line", bound=cst.CSTNode)
"""A statement of a body; ``a; b`` is one statement made of two small statements."""

_MODULES = ("torch", "numpy", "random")
"""Modules that edits use."""

_DEEPEST = 100
"""Levels of Python's own tree. libcst's visitors need up to nine frames for each, and the stack
limit is 1000."""


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


def dotted(node: cst.CSTNode) -> str | None:
    """``self.scale`` for a name or a chain of attributes; None for anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute) and (base := dotted(node.value)) is not None:
        return f"{base}.{node.attr.value}"
    return None


def parsed(statements: Iterable[cst.BaseStatement | cst.BaseSmallStatement]) -> list[ast.stmt]:
    """Statements as Python's own syntax tree; declines if this version of Python doesn't know the
    syntax.
    """
    lines = [
        node if isinstance(node, cst.BaseStatement) else cst.SimpleStatementLine([node])
        for node in statements
    ]
    if not lines:
        return []
    try:
        return (
            ast.parse(cst.Module([]).code_for_node(cst.If(cst.Name("_"), cst.IndentedBlock(lines))))
            .body[0]
            .body
        )  # type: ignore[attr-defined, no-any-return]
    except SyntaxError:
        raise DeclinedError("this version of Python can't parse it") from None


def with_replaced(node: cst.CSTNode, changes: Sequence[Change]) -> cst.CSTNode:
    """A copy of a node in which other nodes, found by identity, are replaced."""
    return cast("cst.CSTNode", node.visit(_Replacement(changes, None, ())))


_TENSOR_FUNCTIONS = TENSOR_FUNCTIONS | {
    "torch.where",
    "torch.nn.Parameter",
    "torch.nn.parameter.Parameter",
}
_TENSOR_METHODS = TENSOR_METHODS - {"cpu", "cuda", "to"}
"""Those that a module doesn't have."""


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
        except (
            cst.ParserSyntaxError,
            UnicodeDecodeError,
            LookupError,
            SyntaxError,
            ValueError,
            RecursionError,
        ):
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
        """The file's bytes with nodes of the tree replaced; UnicodeEncodeError for a character that
        its encoding lacks.

        If the new nodes name a module of ``_MODULES`` that the old ones don't, and that the file
        doesn't import, an ``import`` line is added after the last import above the first change. No
        old node is inside another; new nodes are new or a ``deep_clone()``: one node must not be in
        a tree twice.
        """
        had, has = (
            _named(old for old, _ in changes),
            _named(node for _, new in changes for node in _listed(new)),
        )
        needed = [*imports, *(name for name in _MODULES if has[name] > had[name])]
        missing = [name for name in dict.fromkeys(needed) if not self.imports(name)]
        first = min((self.position(old).start.line for old, _ in changes), default=None)
        lines = [
            line for line in reversed(self.tree.body) if isinstance(line, cst.SimpleStatementLine)
        ]
        lines = [line for line in lines if isinstance(line.body[0], cst.Import | cst.ImportFrom)]
        anchor = next(
            (line for line in lines if first is None or self.position(line).end.line < first), None
        )
        added = [
            cst.SimpleStatementLine([cst.Import([cst.ImportAlias(cst.Name(name))])])
            for name in missing
        ]
        tree = self.tree.visit(_Replacement(changes, anchor if added else None, added))
        if added and anchor is None:
            at = 1 if self.tree.get_docstring() is not None else 0
            tree = tree.with_changes(body=[*tree.body[:at], *added, *tree.body[at:]])
        return self.edited(self._without_unused_imports(tree, had.keys() - has.keys()))

    def _without_unused_imports(self, tree: cst.Module, gone: Collection[str]) -> cst.Module:
        """An edited tree without the file's own imports of names that the edited code no longer
        uses.
        """
        unused = set(gone).difference(_used(tree)) if gone else set()
        # A text may name it, as ``__all__`` and annotations do.
        unused -= {name for name in unused if re.search(rf"['\"#].*\b{name}\b", tree.code)}
        if not unused or self.path.name == "__init__.py":
            return tree
        body = [kept for line in tree.body if (kept := _without_names(line, unused)) is not None]
        return tree.with_changes(body=body)

    def changed(self, *changes: Change) -> SourceFile:
        """The file with nodes of the tree replaced, parsed again."""
        return SourceFile.parse(self.path, self.replaced(*changes))

    def free_name(self, wanted: str, given: Iterable[str] = ()) -> str:
        """A name that neither the file nor ``given`` has: ``wanted`` itself, or ``wanted_2`` and so
        on.
        """
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
        return cast(
            "dict[cst.CSTNode, cst.CSTNode]", dict(self._wrapper.resolve(ParentNodeProvider))
        )

    @cached_property
    def scopes(self) -> dict[cst.CSTNode, Scope | None]:
        """Libcst's scope of each node."""
        return cast("dict[cst.CSTNode, Scope | None]", dict(self._wrapper.resolve(ScopeProvider)))

    def position(self, node: cst.CSTNode) -> CodeRange:
        """The position of a node of the tree: 1-based lines, 0-based columns, without the comments
        before it.
        """
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
        return next(
            (
                found
                for found in self.parents(node)
                if isinstance(found, cst.FunctionDef | cst.Lambda)
            ),
            None,
        )

    def class_of(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """The innermost class around a node."""
        return next(
            (found for found in self.parents(node) if isinstance(found, cst.ClassDef)), None
        )

    def code(self, node: cst.CSTNode) -> str:
        """A node as source text."""
        return self.tree.code_for_node(node)

    def shortened(self, node: cst.CSTNode) -> str:
        """A node as source text on one line, cut where it is long."""
        text = " ".join(self.code(node).split())
        return text if len(text) <= 40 else text[:39] + "…"

    def statement_at(self, line: int) -> Statement | None:
        """The innermost statement that a line belongs to; a decorator's line belongs to what it
        decorates.
        """
        around: list[tuple[int, int, Statement]] = []
        for node, place in self._positions.items():
            if isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement):
                decorators = (
                    node.decorators if isinstance(node, cst.FunctionDef | cst.ClassDef) else ()
                )
                start = self.position(decorators[0]).start if decorators else place.start
                if start.line <= line <= place.end.line:
                    around.append((place.end.line - start.line, -start.column, node))
        return min(around, key=lambda found: found[:2])[2] if around else None

    def expression_at(
        self, line: int, column: int, end_column: int | None
    ) -> cst.BaseExpression | None:
        """The outermost expression at a position; lines and columns are 1-based, and the end is
        exclusive.

        Without ``end_column``, the outermost one that begins there and ends on another line.
        """
        found: list[tuple[tuple[int, int], cst.BaseExpression]] = []
        for node, place in self._positions.items():
            if isinstance(node, cst.BaseExpression) and self.start(node) == (line, column - 1):
                is_on_line = place.end.line == line
                if (end_column is None and not is_on_line) or (
                    is_on_line and end_column == place.end.column + 1
                ):
                    found.append(((place.end.line, place.end.column), node))
        # Of equal positions, the first is the outermost: metadata lists parents before their
        # children.
        return max(found, key=lambda item: item[0])[1] if found else None

    def dotted_name(self, node: cst.CSTNode) -> str:
        """The full name of something imported or built in, or of what a call calls; an empty string
        for others.

        With ``import torch.nn.functional as F`` the expression ``F.one_hot`` is
        ``torch.nn.functional.one_hot``; ``float`` is ``builtins.float``.
        """
        node = node.func if isinstance(node, cst.Call) else node
        scope, root = self.scopes.get(node), node
        while isinstance(root, cst.Attribute):
            root = root.value
        if scope is None or not isinstance(root, cst.Name):
            return ""
        names = list(scope.get_qualified_names_for(node))
        return (
            names[0].name
            if len(names) == 1 and names[0].source is not QualifiedNameSource.LOCAL
            else ""
        )

    def method_name(self, call: cst.CSTNode) -> str:
        """``max`` for ``x.abs().max()`` and ``torch.max(x)``; an empty string for ``self.max(x)``
        and all else.
        """
        match call:
            case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(value=name))):
                return "" if dotted(value) == "self" else name
            case cst.Call():
                return self.dotted_name(call).rpartition(".")[2]
        return ""

    def receiver(self, call: cst.CSTNode) -> cst.BaseExpression | None:
        """What a method is called on, or the first argument of a function of torch: ``x`` in both
        examples above.
        """
        match call:
            case cst.Call(args=args) if self.dotted_name(call).startswith("torch."):
                return (
                    args[0].value if args and args[0].keyword is None and not args[0].star else None
                )
            case cst.Call(func=cst.Attribute(value=value)):
                return value
        return None

    def given_to(self, call: cst.Call) -> Sequence[cst.Arg]:
        """The arguments of a call beside its receiver."""
        return call.args[1:] if self.dotted_name(call) else call.args

    def read_of(self, node: cst.CSTNode, casts: Collection[str]) -> cst.BaseExpression | None:
        """The tensor whose value a node reads: ``x.max()`` for ``x.max().item()``, and for casts:
        ``float(…)``.
        """
        match node:
            case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("item")), args=[]):
                return tensor
            case cst.Call(args=[cst.Arg(value=tensor, keyword=None, star="")]) if (
                self.dotted_name(node) in casts
            ):
                return tensor
        return None

    def bound_to(self, node: cst.Name | cst.Attribute) -> Sequence[cst.BaseExpression | None]:
        """What a variable, or an attribute of ``self``, is set to; None for a parameter, a loop and
        the like.

        A buffer counts as set to the tensor that it is registered with.
        """
        if isinstance(node, cst.Name):
            return self.values(node)
        owner = self.class_of(node)
        return (
            _set_in(owner, node.attr.value)
            if owner is not None and dotted(node.value) == "self"
            else []
        )

    def assignments(self, name: cst.Name) -> list[BaseAssignment]:
        """Every binding of the variable that a name stands for."""
        scope = self.scopes.get(name)
        return list(scope[name.value]) if scope is not None else []

    def is_local(self, name: cst.Name) -> bool:
        """Whether the variable belongs to the function around the name, and no inner or outer
        function shares it.
        """
        found = self.assignments(name)
        return bool(found) and all(
            assignment.scope is self.scopes.get(name) for assignment in found
        )

    def reads(self, name: cst.Name) -> list[cst.Name]:
        """Where the variable that a name stands for is read, in file order."""
        nodes = {
            access.node
            for assignment in self.assignments(name)
            for access in assignment.references
            if isinstance(access.node, cst.Name) and not self.is_target(access.node)
        }
        return sorted(nodes, key=self.start)

    def _setting(self, assignment: BaseAssignment) -> cst.CSTNode | None:
        node = assignment.node if isinstance(assignment, Assignment) else None
        holder = next(self.parents(node), None) if node is not None else None
        return next(self.parents(holder), None) if isinstance(holder, cst.AssignTarget) else holder

    def values(self, name: cst.Name) -> list[cst.BaseExpression | None]:
        """What the variable is set to or changed by, for each binding; None for a parameter, a loop
        and the like.
        """
        settings = cst.Assign | cst.AnnAssign | cst.AugAssign | cst.NamedExpr
        found = [self._setting(assignment) for assignment in self.assignments(name)]
        return [holder.value if isinstance(holder, settings) else None for holder in found]

    def set_values(self, name: cst.Name) -> list[cst.BaseExpression]:
        """All values that a variable is set to by ``=`` alone; empty if anything else binds it."""
        found = [self._setting(assignment) for assignment in self.assignments(name)]
        plain = [
            holder.value
            for holder in found
            if isinstance(holder, cst.Assign) and len(holder.targets) == 1
        ]
        return plain if len(plain) == len(found) else []

    def parameter(self, name: cst.CSTNode) -> cst.Param | None:
        """The parameter that a name stands for, if it is never reassigned."""
        found = self.assignments(name) if isinstance(name, cst.Name) else []
        node = found[0].node if len(found) == 1 and isinstance(found[0], Assignment) else None
        return node if isinstance(node, cst.Param) else None

    def is_in_scope(self, node: cst.CSTNode, name: str) -> bool:
        """Whether a name can be read at a node: a parameter, or a variable that was set to a single
        value before.
        """
        scope = self.scopes.get(node)
        found = scope[name] if scope is not None else ()
        return bool(found) and all(self._is_set_before(assignment, node) for assignment in found)

    def _is_set_before(self, assignment: BaseAssignment, node: cst.CSTNode) -> bool:
        target = assignment.node if isinstance(assignment, Assignment) else None
        if isinstance(target, cst.Param):
            return target.default is None or dotted(target.default) != "None"
        holder = self._setting(assignment) if isinstance(target, cst.Name) else None
        if (
            not isinstance(holder, cst.Assign | cst.AnnAssign)
            or holder.value is None
            or not _is_one(holder.value)
        ):
            return False
        is_elsewhere = assignment.scope is not self.scopes.get(node)
        return is_elsewhere or self.position(holder).end.line < self.position(node).start.line

    def own_attributes(self, node: cst.CSTNode) -> set[str]:
        """Attributes of ``self`` that the class around a node only sets to single values; empty
        without ``self``.
        """
        owner = self.class_of(node)
        if owner is None or not self.is_in_scope(node, "self"):
            return set()
        names = {found.attr.value for found in walk(owner) if isinstance(found, cst.Attribute)}
        targets = [
            found.target for found in walk(owner.body) if isinstance(found, cst.AssignTarget)
        ]
        names |= {target.value for target in targets if isinstance(target, cst.Name)}
        return {
            name for name in names if (found := _set_in(owner, name)) and all(map(_is_one, found))
        }

    def is_target(self, name: cst.CSTNode) -> bool:
        """Whether the name is set, by ``=`` or ``+=``, rather than read."""
        parent = self.parent(name)
        return isinstance(parent, cst.AssignTarget) or (
            isinstance(parent, cst.AugAssign) and parent.target is name
        )

    def is_tensor(self, node: cst.BaseExpression, depth: int = 0) -> bool:
        """Whether it is certainly one tensor, or a parameter of a module."""
        match node:
            case cst.Call():
                name = self.dotted_name(node)
                return (
                    name in _TENSOR_FUNCTIONS if name else self.method_name(node) in _TENSOR_METHODS
                )
            case cst.Name() | cst.Attribute() if depth < 4:
                bound = self.bound_to(node)
                return bool(bound) and all(
                    value is not None and self.is_tensor(value, depth + 1) for value in bound
                )
        return False

    def is_without_grad(self, node: cst.CSTNode) -> bool:
        """Whether it is ``torch.no_grad()`` or ``torch.inference_mode()``."""
        return self.dotted_name(node) in ("torch.no_grad", "torch.inference_mode")


def _is_one(value: cst.BaseExpression) -> bool:
    """Whether it is a single value: neither None nor a literal with several values."""
    several = cst.List | cst.Tuple | cst.Dict | cst.Set | cst.BaseComp | cst.BaseString | cst.Lambda
    return not isinstance(value, several) and dotted(value) != "None"


def _set_in(owner: cst.ClassDef, name: str) -> list[cst.BaseExpression]:
    found: list[cst.BaseExpression] = []
    for node in walk(owner):
        match node:
            case cst.Assign(targets=targets, value=value):
                found += (
                    [value]
                    if any(dotted(target.target) == f"self.{name}" for target in targets)
                    else []
                )
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                found += [value] if dotted(target) == f"self.{name}" else []
            case cst.Call(
                args=[cst.Arg(value=cst.SimpleString() as text), cst.Arg(value=value), *_]
            ):
                found += (
                    [value]
                    if dotted(node.func) == "self.register_buffer" and text.evaluated_value == name
                    else []
                )
    smalls = [
        small
        for line in owner.body.body
        if isinstance(line, cst.SimpleStatementLine)
        for small in line.body
    ]
    for small in smalls:
        if isinstance(small, cst.Assign) and any(
            dotted(target.target) == name for target in small.targets
        ):
            found.append(small.value)
    return found


def _is_too_deep(content: bytes) -> bool:
    """Whether the text is nested so deeply that libcst would run out of stack, or end the
    process.
    """
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


def _used(tree: cst.Module) -> Iterator[str]:
    """The names that a file uses, but for those that its imports bind."""
    for node in tree.body:
        imports = (part for part in walk(node) if isinstance(part, cst.Import | cst.ImportFrom))
        bound = {id(name) for part in imports for name in names_in(part)}
        yield from (name.value for name in names_in(node) if id(name) not in bound)


def _without_names(line: _Line, unused: Container[str]) -> _Line | None:
    """A line of a module without what it imports under some names; None if nothing is left."""
    statement = (
        line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None
    )
    if not isinstance(statement, cst.Import | cst.ImportFrom) or isinstance(
        statement.names, cst.ImportStar
    ):
        return line
    names = [alias for alias in statement.names if bound_by(alias) not in unused]
    if len(names) == len(statement.names):
        return line
    if not names:
        return None
    names[-1] = names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return line.with_changes(body=[statement.with_changes(names=names)])


def bound_by(alias: cst.ImportAlias) -> str:
    """The name that an import binds: of ``import a.b``, that is ``a``."""
    bound = alias.asname.name if alias.asname is not None else alias.name
    return (dotted(cast("cst.CSTNode", bound)) or "").partition(".")[0]


def _named(nodes: Iterable[cst.CSTNode]) -> Counter[str]:
    return Counter(name.value for node in nodes for name in names_in(node))


class _Replacement(cst.CSTTransformer):
    """Replaces nodes, found by identity, and adds lines after one of them."""

    def __init__(
        self,
        changes: Sequence[Change],
        anchor: cst.CSTNode | None,
        added: Sequence[cst.SimpleStatementLine],
    ) -> None:
        super().__init__()
        self._changes = changes
        self._anchor = anchor
        self._added = added

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        for old, new in self._changes:
            if old is original_node:
                return (
                    new
                    if isinstance(new, cst.CSTNode)
                    else cast("cst.CSTNode", cst.FlattenSentinel(new))
                )
        if original_node is self._anchor:
            return cast("cst.CSTNode", cst.FlattenSentinel([updated_node, *self._added]))
        return updated_node
