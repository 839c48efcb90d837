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
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from libcst import (
    AnnAssign,
    Arg,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseCompoundStatement,
    BaseExpression,
    BinaryOperation,
    Call,
    ClassDef,
    CSTNode,
    CSTTransformer,
    Element,
    FlattenSentinel,
    For,
    FunctionDef,
    Import,
    ImportAlias,
    ImportFrom,
    ImportStar,
    Lambda,
    List,
    MaybeSentinel,
    Module,
    Name,
    NamedExpr,
    Param,
    ParserSyntaxError,
    SimpleStatementLine,
    SimpleString,
    StarredElement,
    Tuple,
    parse_module,
    parse_statement,
)
from libcst.metadata import (
    Assignment,
    BaseAssignment,
    CodeRange,
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    QualifiedNameSource,
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


_Node = TypeVar("_Node", bound=CSTNode)
_Item = TypeVar("_Item")


def need(node: object, kind: type[_Node], reason: str = "", why: DeclineKind = "unsure") -> _Node:
    """Return the node, or decline if it is of another kind."""
    if isinstance(node, kind):
        return node
    raise DeclinedError(reason, why)


def known(item: _Item | None, reason: str = "") -> _Item:
    """Return what is there, or decline if nothing is."""
    if item is None:
        raise DeclinedError(reason)
    return item


def only(items: Sequence[_Item], reason: str, why: DeclineKind = "unsure") -> _Item:
    """Return the only item, or decline if there are none or several."""
    decline_if(len(items) != 1, reason, why)
    return items[0]


Change = tuple[CSTNode, CSTNode | Sequence[CSTNode]]
"""A node of the tree and its replacement; several, or none, for a line or a small statement."""

Statement = SimpleStatementLine | BaseCompoundStatement
"""A statement of a body; ``a; b`` is one statement made of two small statements."""

_MODULES = ("torch", "numpy", "random")
"""Modules that edits use."""

_DEEPEST = 100
"""Levels of Python's own tree. libcst's visitors need up to nine frames for each, and the stack
limit is 1000."""

_TENSOR_FUNCTIONS = TENSOR_FUNCTIONS | {
    "torch.where",
    "torch.nn.functional.normalize",
    "torch.nn.Parameter",
    "torch.nn.parameter.Parameter",
}
_TENSOR_METHODS = TENSOR_METHODS - {"cpu", "cuda", "to"}
"""Those that a module doesn't have."""


def walk(node: CSTNode) -> Iterator[CSTNode]:
    """Iterate over a node and everything below it, in source order."""
    yield node
    for child in _children(node):
        yield from walk(child)


@lru_cache(maxsize=2**16)
def _children(node: CSTNode) -> tuple[CSTNode, ...]:
    """Collect what is right below a node, once: libcst rebuilds the node to find it."""
    return tuple(node.children)


def find(node: CSTNode, *kinds: type[_Node]) -> list[_Node]:
    """Return the nodes of some kinds in a node, in source order."""
    return [part for part in walk(node) if isinstance(part, kinds)]


def holds(node: CSTNode, *kinds: type[CSTNode]) -> bool:
    """Check whether a node is or contains one of some kinds."""
    return any(isinstance(part, kinds) for part in walk(node))


def names_in(node: CSTNode) -> Iterator[Name]:
    """Iterate over the variables in a node, without attributes and keywords of calls."""
    for child in _children(node):
        is_label = (isinstance(node, Attribute) and child is node.attr) or (
            isinstance(node, Arg) and child is node.keyword
        )
        if not is_label:
            yield from names_in(child)
    if isinstance(node, Name):
        yield node


def dotted(node: CSTNode | None) -> str | None:
    """Return ``self.scale`` for a name or a chain of attributes; None for anything else."""
    if isinstance(node, Name):
        return node.value
    if isinstance(node, Attribute) and (base := dotted(node.value)) is not None:
        return f"{base}.{node.attr.value}"
    return None


def last_name(node: CSTNode | None) -> str:
    """Return ``scale`` for ``self.scale``, as of ``dotted``; an empty string if that is None."""
    return (dotted(node) or "").rpartition(".")[2]


def with_replaced(node: _Node, changes: Sequence[Change]) -> _Node:
    """Return a copy of a node in which other nodes, found by identity, are replaced."""
    return cast("_Node", node.visit(_Replacement(changes)))


@dataclass(frozen=True)
class SourceFile:
    """A parsed file."""

    path: Path
    content: bytes
    tree: Module

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
        decline_if(_is_too_deep(content), f"{path.name} is nested too deeply")
        decline_if(b"\0" in content, f"{path.name} has a null byte")
        try:
            tree = parse_module(content)
        except (ParserSyntaxError, LookupError, SyntaxError, ValueError, RecursionError):
            raise DeclinedError(f"{path.name} can't be parsed") from None
        source = cls(path, content, tree)
        if source.edited(tree) != content:
            raise DeclinedError(f"{path.name} wouldn't be written back unchanged")
        return source

    def edited(self, tree: Module) -> bytes:
        """Return the file's bytes with another tree; encoding, byte-order mark and newlines
        stay.
        """
        encoding = "utf-8" if self.tree.encoding == "utf-8-sig" else self.tree.encoding
        mark = codecs.BOM_UTF8 if self.content.startswith(codecs.BOM_UTF8) else b""
        return mark + tree.code.encode(encoding)

    def replaced(self, *changes: Change, imports: Sequence[str] = ()) -> bytes:
        """Return the file's bytes with nodes of the tree replaced.

        If the new nodes name a module of ``_MODULES`` that the old ones don't, and that the file
        doesn't import, an ``import`` line is added after the last import above the first change. No
        old node is inside another; new nodes are new or a ``deep_clone()``: one node must not be in
        a tree twice. Raises UnicodeEncodeError for a character that the file's encoding lacks.
        """
        had = _counted(old for old, _ in changes)
        has = _counted(
            node for _, new in changes for node in ([new] if isinstance(new, CSTNode) else new)
        )
        needed = [*imports, *(name for name in _MODULES if has[name] > had[name])]
        missing = [name for name in dict.fromkeys(needed) if not self.imports(name)]
        added = [need(parse_statement(f"import {name}"), SimpleStatementLine) for name in missing]
        first = min((self.start(old)[0] for old, _ in changes), default=None)
        anchor = None
        for line in self.tree.body:
            is_import = isinstance(line, SimpleStatementLine) and isinstance(
                line.body[0], Import | ImportFrom
            )
            if is_import and (first is None or self.position(line).end.line < first):
                anchor = line
        tree = self.tree.visit(_Replacement(changes, anchor if added else None, added))
        if added and anchor is None:
            at = 1 if self.tree.get_docstring() is not None else 0
            tree = tree.with_changes(body=[*tree.body[:at], *added, *tree.body[at:]])
        return self.edited(self._without_unused_imports(tree, had.keys() - has.keys()))

    def _without_unused_imports(self, tree: Module, gone: Collection[str]) -> Module:
        """Drop the file's own imports of names that the edited code no longer uses."""
        unused = set(gone).difference(_used(tree)) if gone else set()
        # A text may name it, as ``__all__`` and annotations do.
        unused -= {name for name in unused if re.search(rf"['\"#].*\b{name}\b", tree.code)}
        if not unused or self.path.name == "__init__.py":
            return tree
        body = [kept for line in tree.body if (kept := _without_names(line, unused)) is not None]
        return tree.with_changes(body=body)

    def changed(self, *changes: Change) -> SourceFile:
        """Return the file with nodes of the tree replaced, parsed again."""
        return SourceFile.parse(self.path, self.replaced(*changes))

    def free_name(self, base: str, taken: Iterable[str] = ()) -> str:
        """Return ``wanted``, or ``wanted_2`` and so on if the file or ``taken`` has that."""
        used = {*re.findall(r"\w+", self.tree.code), *taken}
        name, number = base, 1
        while name in used:
            number += 1
            name = f"{base}_{number}"
        return name

    def imports(self, name: str) -> bool:
        """Check whether the file imports a top-level module under its own name at the top level."""
        return any(
            alias.asname is None and self.code(alias.name).partition(".")[0] == name
            for line in self.tree.body
            for small in (line.body if isinstance(line, SimpleStatementLine) else ())
            for alias in (small.names if isinstance(small, Import) else ())
        )

    @cached_property
    def _metadata(self) -> MetadataWrapper:
        return MetadataWrapper(self.tree, unsafe_skip_copy=True)

    @cached_property
    def _positions(self) -> dict[CSTNode, CodeRange]:
        return cast("dict[CSTNode, CodeRange]", dict(self._metadata.resolve(PositionProvider)))

    @cached_property
    def _parents(self) -> dict[CSTNode, CSTNode]:
        return cast("dict[CSTNode, CSTNode]", dict(self._metadata.resolve(ParentNodeProvider)))

    @cached_property
    def scopes(self) -> dict[CSTNode, Any]:
        """Libcst's scope of each node; None for some."""
        return dict(self._metadata.resolve(ScopeProvider))

    def position(self, node: CSTNode) -> CodeRange:
        """Return where a node is: 1-based lines, 0-based columns, without comments before it."""
        return self._positions[node]

    def start(self, node: CSTNode) -> tuple[int, int]:
        """Return the line and column where a node begins."""
        start = self._positions[node].start
        return start.line, start.column

    def spans_lines(self, node: CSTNode) -> bool:
        """Check whether a node takes several lines."""
        return self._positions[node].start.line != self._positions[node].end.line

    def parent(self, node: CSTNode) -> CSTNode:
        """Return the node around a node that isn't the module."""
        return self._parents[node]

    def parents(self, node: CSTNode) -> Iterator[CSTNode]:
        """Iterate over the nodes around a node, innermost first, the module last."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def path_to(self, top: CSTNode, node: CSTNode) -> list[CSTNode]:
        """Return a node and those around it, innermost first, that are inside ``top``."""
        path = [node, *self.parents(node)]
        return path[: path.index(top)]

    def around(self, node: CSTNode, *kinds: type[_Node]) -> _Node | None:
        """Return the innermost node of some kinds around a node."""
        return next((parent for parent in self.parents(node) if isinstance(parent, kinds)), None)

    def function_of(self, node: CSTNode) -> FunctionDef | Lambda | None:
        """Return the innermost function around a node."""
        return cast("FunctionDef | Lambda | None", self.around(node, FunctionDef, Lambda))

    def is_method(self, function: CSTNode) -> bool:
        """Check whether a function is defined in the body of a class."""
        return isinstance(self._parents.get(self.parent(function)), ClassDef)

    def code(self, node: CSTNode) -> str:
        """Return a node as source text."""
        return self.tree.code_for_node(node)

    def shortened(self, node: CSTNode) -> str:
        """Return a node as source text on one line, cut where it is long."""
        text = " ".join(self.code(node).split())
        return text if len(text) <= 40 else text[:39] + "…"

    def statement_at(self, line: int) -> Statement | None:
        """Return the innermost statement that a line belongs to, decorators included."""
        around = []
        for node, place in self._positions.items():
            if isinstance(node, Statement):
                decorators = getattr(node, "decorators", ())
                start = self.position(decorators[0]).start if decorators else place.start
                if start.line <= line <= place.end.line:
                    around.append((place.end.line - start.line, -start.column, node))
        return min(around, key=lambda item: item[:2])[2] if around else None

    def expression_at(
        self, line: int, column: int, end_column: int | None
    ) -> BaseExpression | None:
        """Return the outermost expression at a position.

        Lines and columns are 1-based, the end is exclusive. Without ``end_column``, it's the
        outermost one that begins there and ends on another line.
        """
        nodes = []
        for node, place in self._positions.items():
            if isinstance(node, BaseExpression) and self.start(node) == (line, column - 1):
                end = place.end.column + 1 if place.end.line == line else None
                nodes += [node] if end == end_column else []
        ends = [(self.position(node).end.line, self.position(node).end.column) for node in nodes]
        # Of equal positions, the first is the outermost: metadata lists parents before children.
        return nodes[ends.index(max(ends))] if nodes else None

    def dotted_name(self, node: CSTNode) -> str:
        """Return the full name of something imported or built in, or of what a call calls.

        With ``import torch.nn.functional as F`` the expression ``F.one_hot`` is
        ``torch.nn.functional.one_hot``; ``float`` is ``builtins.float``. An empty string for
        others.
        """
        node = node.func if isinstance(node, Call) else node
        scope, root = self.scopes.get(node), node
        while isinstance(root, Attribute):
            root = root.value
        if scope is None or not isinstance(root, Name):
            return ""
        names = list(scope.get_qualified_names_for(node))
        is_clear = len(names) == 1 and names[0].source is not QualifiedNameSource.LOCAL
        return names[0].name if is_clear else ""

    def method_name(self, call: CSTNode) -> str:
        """Return ``max`` for ``x.abs().max()`` and ``torch.max(x)``; an empty string for
        ``self.max(x)`` and all else.
        """
        match call:
            case Call(func=Attribute(value=value, attr=Name(value=name))):
                return "" if dotted(value) == "self" else name
            case Call():
                return self.dotted_name(call).rpartition(".")[2]
        return ""

    def receiver(self, call: CSTNode) -> BaseExpression | None:
        """Return what a method is called on, or the first argument of a function of torch."""
        match call:
            case Call(args=args) if self.dotted_name(call).startswith("torch."):
                is_plain = bool(args) and args[0].keyword is None and not args[0].star
                return args[0].value if is_plain else None
            case Call(func=Attribute(value=value)):
                return value
        return None

    def given_to(self, call: Call) -> Sequence[Arg]:
        """Return the arguments of a call beside its receiver."""
        return call.args[1:] if self.dotted_name(call) else call.args

    def read_of(self, node: CSTNode, casts: Collection[str]) -> BaseExpression | None:
        """Return the tensor whose value a node reads: by ``.item()``, or by one of the casts."""
        match node:
            case Call(func=Attribute(value=tensor, attr=Name("item")), args=[]):
                return tensor
            case Call(args=[Arg(value=tensor, keyword=None, star="")]) if (
                self.dotted_name(node) in casts
            ):
                return tensor
        return None

    def bound_to(self, node: Name | Attribute) -> Sequence[BaseExpression | None]:
        """Return what a variable, or an attribute of ``self``, is set to.

        None stands for a parameter, a loop and the like. A buffer counts as set to the tensor that
        it is registered with.
        """
        if isinstance(node, Name):
            return self.values(node)
        owner = self.around(node, ClassDef)
        is_own = owner is not None and dotted(node.value) == "self"
        return _set_in(owner, node.attr.value) if is_own and owner is not None else []

    def assignments(self, name: CSTNode) -> list[BaseAssignment]:
        """Return every binding of the variable that a name stands for."""
        scope = self.scopes.get(name)
        return list(scope[name.value]) if scope is not None and isinstance(name, Name) else []

    def is_local(self, name: CSTNode) -> bool:
        """Check whether a variable belongs to the function around the name, and to no other one."""
        bindings = self.assignments(name)
        return bool(bindings) and all(
            binding.scope is self.scopes.get(name) for binding in bindings
        )

    def reads(self, name: Name) -> list[Name]:
        """Return where the variable that a name stands for is read, in file order."""
        nodes = {
            access.node
            for assignment in self.assignments(name)
            for access in assignment.references
            if isinstance(access.node, Name) and not self.is_target(access.node)
        }
        return sorted(nodes, key=self.start)

    def reads_of_parameter(self, parameter: Param) -> list[CSTNode]:
        """Return where a parameter is read, in file order, if nothing else binds it."""
        named = (name for name in find(self.function_of(parameter), Name))  # type: ignore[arg-type]
        same = (name for name in named if self.parameter(name) is parameter)
        return [*self.reads(first)] if (first := next(same, None)) is not None else []

    def _setting(self, assignment: BaseAssignment) -> CSTNode | None:
        node = assignment.node if isinstance(assignment, Assignment) else None
        holder = self._parents.get(node) if node is not None else None
        return self._parents.get(holder) if isinstance(holder, AssignTarget) else holder

    def values(self, name: Name) -> list[BaseExpression | None]:
        """Return what the variable is set to or changed by, for each binding; None for a
        parameter, a loop and the like.
        """
        settings = Assign | AnnAssign | AugAssign | NamedExpr
        holders = map(self._setting, self.assignments(name))
        return [holder.value if isinstance(holder, settings) else None for holder in holders]

    def set_values(self, name: Name) -> list[BaseExpression]:
        """Return all values that a variable is set to by ``=`` alone; none if anything else binds
        it.
        """
        holders = list(map(self._setting, self.assignments(name)))
        plain = [
            holder for holder in holders if isinstance(holder, Assign) and len(holder.targets) == 1
        ]
        return [holder.value for holder in plain] if len(plain) == len(holders) else []

    def parameter(self, name: CSTNode) -> Param | None:
        """Return the parameter that a name stands for, if it is never reassigned."""
        bindings = self.assignments(name)
        node = getattr(bindings[0], "node", None) if len(bindings) == 1 else None
        return node if isinstance(node, Param) else None

    def parameter_of(self, name: CSTNode) -> Param | None:
        """Return the parameter that a name may stand for."""
        nodes = (getattr(binding, "node", None) for binding in self.assignments(name))
        return next((node for node in nodes if isinstance(node, Param)), None)

    def is_target(self, name: CSTNode) -> bool:
        """Check whether the name is set, by ``=`` or ``+=``, rather than read."""
        parent = self.parent(name)
        while isinstance(parent, Element | StarredElement | Tuple | List):
            name, parent = parent, self.parent(parent)
        is_bound = isinstance(parent, AugAssign | AnnAssign | For) and parent.target is name
        return isinstance(parent, AssignTarget) or is_bound

    def is_tensor(self, node: BaseExpression | None, depth: int = 0) -> bool:
        """Check whether it is certainly one tensor, or a parameter of a module."""
        match node:
            case Call() if name := self.dotted_name(node):
                return name in _TENSOR_FUNCTIONS
            case Call():
                return self.method_name(node) in _TENSOR_METHODS
            case BinaryOperation(left=left, right=right):
                return any(self.is_tensor(side, depth + 1) for side in (left, right))
            case Name() | Attribute() if depth < 4:
                values = self.bound_to(node)
                return bool(values) and all(self.is_tensor(value, depth + 1) for value in values)
        return False

    def is_without_grad(self, node: CSTNode) -> bool:
        """Check for ``torch.no_grad()`` or ``torch.inference_mode()``."""
        return self.dotted_name(node) in ("torch.no_grad", "torch.inference_mode")


def _set_in(owner: ClassDef, name: str) -> list[BaseExpression]:
    """Return what a class sets an attribute of its objects to."""
    values = []
    for node in walk(owner):
        match node:
            case Assign(targets=targets, value=value):
                is_own = any(dotted(target.target) == f"self.{name}" for target in targets)
            case AnnAssign(target=target, value=BaseExpression() as value):
                is_own = dotted(target) == f"self.{name}"
            case Call(args=[Arg(value=SimpleString() as text), Arg(value=value), *_]):
                is_buffer = dotted(node.func) == "self.register_buffer"
                is_own = is_buffer and text.evaluated_value == name
            case _:
                continue
        values += [value] if is_own else []
    for line in owner.body.body:
        for small in line.body if isinstance(line, SimpleStatementLine) else ():
            if isinstance(small, Assign) and name in [
                dotted(target.target) for target in small.targets
            ]:
                values.append(small.value)
    return values


def _is_too_deep(content: bytes) -> bool:
    """Check whether libcst would run out of stack for a text, or end the process."""
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


def _used(tree: Module) -> Iterator[str]:
    """Iterate over the names that a file uses, but for those that its imports bind."""
    for node in tree.body:
        bound = {id(name) for part in find(node, Import, ImportFrom) for name in names_in(part)}
        yield from (name.value for name in names_in(node) if id(name) not in bound)


def _without_names(line: Any, unused: Container[str]) -> CSTNode | None:  # noqa: ANN401 - a line
    """Drop what a line of a module imports under some names; None if nothing is left."""
    match line:
        case SimpleStatementLine(body=[Import() | ImportFrom() as statement]) if not isinstance(
            statement.names, ImportStar
        ):
            names = [alias for alias in statement.names if bound_by(alias) not in unused]
            if not names:
                return None
            if len(names) < len(statement.names):
                names[-1] = names[-1].with_changes(comma=MaybeSentinel.DEFAULT)
                return line.with_changes(body=[statement.with_changes(names=names)])
    return cast("CSTNode", line)


def bound_by(alias: ImportAlias) -> str:
    """Return the name that an import binds: of ``import a.b``, that is ``a``."""
    bound = alias.asname.name if alias.asname is not None else alias.name
    return (dotted(cast("CSTNode", bound)) or "").partition(".")[0]


def _counted(nodes: Iterable[CSTNode]) -> Counter[str]:
    return Counter(name.value for node in nodes for name in names_in(node))


class _Replacement(CSTTransformer):
    """Replaces nodes, found by identity, and adds lines after one of them."""

    def __init__(
        self,
        changes: Sequence[Change],
        anchor: CSTNode | None = None,
        added: Sequence[CSTNode] = (),
    ) -> None:
        super().__init__()
        self._changes = changes
        self._anchor = anchor
        self._added = added

    def on_leave(self, original_node: CSTNode, updated_node: CSTNode) -> Any:  # noqa: ANN401
        for old, new in self._changes:
            if old is original_node:
                return new if isinstance(new, CSTNode) else FlattenSentinel(new)
        if original_node is self._anchor:
            return FlattenSentinel([updated_node, *self._added])
        return updated_node
