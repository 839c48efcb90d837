"""What names in a file mean: the import, value or parameter that they stand for, what reads them, which ones are free.

Comes in: a parsed file and nodes of its tree. Goes out: nodes of the same tree and dotted names. Nothing is run or
imported; a name that could mean two things means nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from typing import cast

import libcst as cst
from libcst.metadata import Assignment, BaseAssignment, MetadataWrapper, QualifiedNameSource, Scope, ScopeProvider

from graphdoctor.fixes.source.tree import SourceFile, walk


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


class Names:
    """The names of one function, including those of inner functions."""

    def __init__(self, source: SourceFile, function: cst.FunctionDef | cst.Lambda) -> None:
        self._source = source
        self._function = function
        self._given: set[str] = set()

    @cached_property
    def _used(self) -> list[cst.Name]:
        return list(names_in(self._function))

    @cached_property
    def _parameters(self) -> frozenset[str]:
        return frozenset(found.name.value for found in walk(self._function.params) if isinstance(found, cst.Param))

    def fresh(self, name: str) -> str:
        """A name that the file doesn't use and that wasn't returned before: ``condition``, ``condition_2``."""
        candidate = self._source.free_name(name, self._given)
        self._given.add(candidate)
        return candidate

    def is_only_in(self, name: str, nodes: Sequence[cst.CSTNode]) -> bool:
        """Whether nothing outside some nodes uses or declares a name."""
        inside = sum(found.value == name for node in nodes for found in names_in(node))
        return inside == sum(found.value == name for found in self._used)

    def is_bound_before(self, name: str, node: cst.CSTNode) -> bool:
        """Whether a name is a parameter, or appears before a node or in its test."""
        place = self._source.position(node).start
        test = list(names_in(node.test)) if isinstance(node, cst.If) else []
        if name in self._parameters or any(found.value == name for found in test):
            return True
        for found in self._used:
            start = self._source.position(found).start
            if found.value == name and (start.line, start.column) < (place.line, place.column):
                return True
        return False

    def is_declared(self, name: str) -> bool:
        """Whether ``global`` or ``nonlocal`` declares a name, so that it isn't the function's own."""
        return any(
            item.name.value == name
            for found in walk(self._function)
            if isinstance(found, cst.Global | cst.Nonlocal)
            for item in found.names
        )

    def values(self, name: str) -> list[cst.BaseExpression]:
        """All values that a local name is set to; empty if that isn't certain."""
        if name in self._parameters:
            return []
        values: list[cst.BaseExpression] = []
        stores = 0
        for found in walk(self._function):
            if isinstance(found, cst.Assign) and len(found.targets) == 1:
                target = found.targets[0].target
                if isinstance(target, cst.Name) and target.value == name:
                    values.append(found.value)
            stores += isinstance(found, _BINDERS) and any(part.value == name for part in names_in(_bound(found)))
        return values if stores == len(values) else []

    @cached_property
    def is_changing_tensors(self) -> bool:
        """Whether the function visibly changes something in place."""
        around = [self._function, *self._source.parents(self._function)]
        outermost = [found for found in around if isinstance(found, cst.FunctionDef | cst.Lambda)][-1]
        for found in walk(outermost):
            if isinstance(found, cst.AugAssign) or is_in_place(found):
                return True
            if isinstance(found, cst.AssignTarget) and isinstance(found.target, cst.Subscript):
                return True
        return False


_BINDERS = (
    cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.NamedExpr, cst.For, cst.CompFor, cst.AsName, cst.NameItem,
    cst.FunctionDef, cst.ClassDef, cst.ImportAlias,
)  # fmt: skip


def _bound(node: cst.CSTNode) -> cst.CSTNode:
    if isinstance(node, cst.FunctionDef | cst.ClassDef | cst.AsName | cst.ImportAlias | cst.NameItem):
        return node.name
    assert isinstance(node, cst.AssignTarget | cst.AugAssign | cst.AnnAssign | cst.NamedExpr | cst.For | cst.CompFor)
    return node.target


def is_in_place(node: cst.CSTNode) -> bool:
    """Whether a call changes a tensor, by torch's conventions: ``x.add_(1)``, ``relu(x, inplace=True)``, ``out=``."""
    if not isinstance(node, cst.Call):
        return False
    name = called(node)
    if name.endswith("_") and not name.endswith("__"):
        return True
    for arg in node.args:
        if arg.keyword is not None and (
            arg.keyword.value == "out"
            or (arg.keyword.value == "inplace" and not (isinstance(arg.value, cst.Name) and arg.value.value == "False"))
        ):
            return True
    return False


def called(call: cst.Call) -> str:
    """The last name of what is called, or an empty string."""
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value
    return call.func.value if isinstance(call.func, cst.Name) else ""


@lru_cache(maxsize=1)
def _scopes(source: SourceFile) -> dict[cst.CSTNode, Scope | None]:
    wrapper = MetadataWrapper(source.tree, unsafe_skip_copy=True)
    return cast("dict[cst.CSTNode, Scope | None]", dict(wrapper.resolve(ScopeProvider)))


def dotted_name(source: SourceFile, node: cst.CSTNode) -> str:
    """The full name of something imported or built in, or an empty string.

    With ``import torch.nn.functional as F`` the expression ``F.one_hot`` is ``torch.nn.functional.one_hot``;
    ``float`` is ``builtins.float``.
    """
    scope, root = _scopes(source).get(node), node
    while isinstance(root, cst.Attribute):
        root = root.value
    if scope is None or not isinstance(root, cst.Name):
        return ""
    names = list(scope.get_qualified_names_for(node))
    if len(names) != 1 or names[0].source is QualifiedNameSource.LOCAL:
        return ""
    return names[0].name


def method_name(source: SourceFile, call: cst.BaseExpression) -> str:
    """``max`` for ``x.abs().max()`` and ``torch.max(x)``; an empty string for ``self.max(x)`` and everything else."""
    if not isinstance(call, cst.Call):
        return ""
    if isinstance(call.func, cst.Attribute):
        is_own = isinstance(call.func.value, cst.Name) and call.func.value.value == "self"
        return "" if is_own else call.func.attr.value
    return dotted_name(source, call.func).rpartition(".")[2]


def receiver(source: SourceFile, call: cst.Call) -> cst.BaseExpression | None:
    """What a method is called on, or the first argument of a function of torch: ``x`` in both examples above."""
    if dotted_name(source, call.func).startswith("torch."):
        first = call.args[0] if call.args else None
        return first.value if first is not None and first.keyword is None and not first.star else None
    return call.func.value if isinstance(call.func, cst.Attribute) else None


def assignments(source: SourceFile, name: cst.Name) -> list[BaseAssignment]:
    """Every binding of the variable that a name stands for."""
    scope = _scopes(source).get(name)
    return list(scope[name.value]) if scope is not None else []


def is_local(source: SourceFile, name: cst.Name) -> bool:
    """Whether the variable belongs to the function around the name, and no inner or outer function shares it."""
    scope = _scopes(source).get(name)
    found = assignments(source, name)
    return bool(found) and all(assignment.scope is scope for assignment in found)


def reads(source: SourceFile, name: cst.Name) -> list[cst.Name]:
    """Where the variable that a name stands for is read, in file order."""
    nodes = {
        access.node
        for assignment in assignments(source, name)
        for access in assignment.references
        if isinstance(access.node, cst.Name) and not is_target(source, access.node)
    }
    return sorted(nodes, key=lambda node: _start(source, node))


def values(source: SourceFile, name: cst.Name) -> list[cst.BaseExpression | None]:
    """What the variable is set to or changed by, for each binding; None for a parameter, a loop and the like."""
    found: list[cst.BaseExpression | None] = []
    for assignment in assignments(source, name):
        node = assignment.node if isinstance(assignment, Assignment) else None
        holder = next(source.parents(node), None) if node is not None else None
        if isinstance(holder, cst.AssignTarget):
            holder = next(source.parents(holder), None)
        settings = cst.Assign | cst.AnnAssign | cst.AugAssign | cst.NamedExpr
        found.append(holder.value if isinstance(holder, settings) else None)
    return found


def parameter(source: SourceFile, name: cst.Name) -> cst.Param | None:
    """The parameter that a name stands for, if it is never reassigned."""
    found = assignments(source, name)
    node = found[0].node if len(found) == 1 and isinstance(found[0], Assignment) else None
    return node if isinstance(node, cst.Param) else None


def is_in_scope(source: SourceFile, node: cst.CSTNode, name: str) -> bool:
    """Whether a name can be read at a node: it is a parameter, or a variable that was set to a single value before."""
    scope = _scopes(source).get(node)
    found = scope[name] if scope is not None else ()
    return bool(found) and all(_is_set_before(source, assignment, node) for assignment in found)


def _is_set_before(source: SourceFile, assignment: BaseAssignment, node: cst.CSTNode) -> bool:
    target = assignment.node if isinstance(assignment, Assignment) else None
    if isinstance(target, cst.Param):
        return not (isinstance(target.default, cst.Name) and target.default.value == "None")
    holder = next(source.parents(target), None) if isinstance(target, cst.Name) else None
    if isinstance(holder, cst.AssignTarget):
        holder = next(source.parents(holder), None)
    if not isinstance(holder, cst.Assign | cst.AnnAssign) or holder.value is None or not _is_one(holder.value):
        return False
    is_elsewhere = assignment.scope is not _scopes(source).get(node)
    return is_elsewhere or source.position(holder).end.line < source.position(node).start.line


def _is_one(value: cst.BaseExpression) -> bool:
    """Whether it is a single value: neither None nor a literal with several values."""
    several = cst.List | cst.Tuple | cst.Dict | cst.Set | cst.BaseComp | cst.BaseString | cst.Lambda
    return not isinstance(value, several) and not (isinstance(value, cst.Name) and value.value == "None")


def own_attributes(source: SourceFile, node: cst.CSTNode) -> set[str]:
    """Attributes of ``self`` that the class around a node only sets to single values; empty without ``self``."""
    owner = source.class_of(node)
    if owner is None or not is_in_scope(source, node, "self"):
        return set()
    names = {found.attr.value for found in walk(owner) if isinstance(found, cst.Attribute)}
    names |= {
        found.target.value
        for found in walk(owner.body)
        if isinstance(found, cst.AssignTarget) and isinstance(found.target, cst.Name)
    }
    found = {name: _set_in(owner, name) for name in names}
    return {name for name, values in found.items() if values and all(_is_one(value) for value in values)}


def is_target(source: SourceFile, name: cst.CSTNode) -> bool:
    """Whether the name is set, by ``=`` or ``+=``, rather than read."""
    parent = next(source.parents(name))
    return isinstance(parent, cst.AssignTarget) or (isinstance(parent, cst.AugAssign) and parent.target is name)


def attribute_values(source: SourceFile, node: cst.Attribute) -> list[cst.BaseExpression]:
    """What the class around ``self.name`` sets that attribute to, in its methods and in its body.

    A buffer counts as set to the tensor that it is registered with.
    """
    owner = source.class_of(node)
    if owner is None or not isinstance(node.value, cst.Name) or node.value.value != "self":
        return []
    return _set_in(owner, node.attr.value)


def _set_in(owner: cst.ClassDef, name: str) -> list[cst.BaseExpression]:
    found = _AttributeValues(name)
    owner.visit(found)
    for line in owner.body.body:
        for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            for target in small.targets if isinstance(small, cst.Assign) else ():
                if isinstance(small, cst.Assign) and target.target.deep_equals(cst.Name(name)):
                    found.values.append(small.value)
    return found.values


class _AttributeValues(cst.CSTVisitor):
    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self.values: list[cst.BaseExpression] = []

    def visit_Assign(self, node: cst.Assign) -> None:  # noqa: N802 - libcst's name
        if any(self._is_it(target.target) for target in node.targets):
            self.values.append(node.value)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:  # noqa: N802 - libcst's name
        if node.value is not None and self._is_it(node.target):
            self.values.append(node.value)

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802 - libcst's name
        match node:
            case cst.Call(
                func=cst.Attribute(value=cst.Name("self"), attr=cst.Name("register_buffer")),
                args=[cst.Arg(value=cst.SimpleString() as name), cst.Arg(value=value), *_],
            ) if name.evaluated_value == self._name:
                self.values.append(value)

    def _is_it(self, target: cst.BaseExpression) -> bool:
        return (
            isinstance(target, cst.Attribute)
            and target.attr.value == self._name
            and isinstance(target.value, cst.Name)
            and target.value.value == "self"
        )


_MAKERS = frozenset(
    {"zeros", "ones", "full", "empty", "rand", "randn", "randint", "arange", "linspace", "eye", "tensor", "as_tensor"}
    | {"zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "from_numpy", "randperm"}
    | {"stack", "cat", "where", "sin", "cos", "exp", "tanh", "sigmoid", "relu", "matmul"}
)
"""Functions of torch that return one tensor."""

_METHODS = frozenset(
    {"detach", "clone", "abs", "sum", "mean", "sqrt", "exp", "sin", "cos", "tanh", "sigmoid", "relu", "softmax", "view"}
    | {"reshape", "expand", "unsqueeze", "squeeze", "flatten", "transpose", "permute", "contiguous", "float", "double"}
    | {"half", "long", "bool", "new_zeros", "new_ones", "matmul", "requires_grad_", "argmax", "argmin", "cumsum"}
)
"""Methods of a tensor that return one tensor."""


def is_tensor(source: SourceFile, node: cst.BaseExpression, depth: int = 0) -> bool:
    """Whether it is certainly one tensor, or a parameter of a module."""
    match node:
        case cst.Call():
            module, _, name = dotted_name(source, node.func).rpartition(".")
            if module == "torch" or name == "Parameter":
                return name in _MAKERS or name == "Parameter"
            return isinstance(node.func, cst.Attribute) and method_name(source, node) in _METHODS
        case cst.Name() | cst.Attribute() if depth < 4:
            bound = attribute_values(source, node) if isinstance(node, cst.Attribute) else values(source, node)
            return bool(bound) and all(value is not None and is_tensor(source, value, depth + 1) for value in bound)
    return False


def has_comment(node: cst.CSTNode) -> bool:
    """Whether a node contains a comment."""
    return any(isinstance(found, cst.Comment) for found in walk(node))


def as_operand(node: cst.BaseExpression) -> cst.BaseExpression:
    """A copy that a method can be called on or an operator applied to, in parentheses if it needs them."""
    copy = node.deep_clone()
    atoms = cst.Name | cst.Attribute | cst.Call | cst.Subscript | cst.BaseNumber | cst.List | cst.Dict
    if copy.lpar or (isinstance(copy, atoms) and not _spans_lines(copy)):
        return copy
    return copy.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def method_call(node: cst.BaseExpression, *names: str) -> cst.BaseExpression:
    """``x.detach().clone()`` for ``x``, ``detach`` and ``clone``; a copy of ``x`` is used."""
    result = as_operand(node) if names else node.deep_clone()
    for name in names:
        result = cst.Call(cst.Attribute(result, cst.Name(name)))
    return result


def shortened(source: SourceFile, node: cst.CSTNode) -> str:
    """A node as source text on one line, cut where it is long."""
    text = " ".join(source.code(node).split())
    return text if len(text) <= 40 else text[:39] + "…"


def spans_lines(source: SourceFile, node: cst.CSTNode) -> bool:
    """Whether a node begins on one line and ends on another."""
    place = source.position(node)
    return place.start.line != place.end.line


def is_repeatable(node: cst.BaseExpression) -> bool:
    """Whether it may be written twice: it calls nothing."""
    costly = cst.Call | cst.Await | cst.Yield | cst.NamedExpr | cst.Lambda | cst.BaseComp
    return not any(isinstance(found, costly) for found in walk(node))


def _spans_lines(node: cst.CSTNode) -> bool:
    """Whether it has a newline outside its own brackets, somewhere in its chain of attributes and calls."""
    while isinstance(node, cst.Attribute | cst.Call | cst.Subscript):
        if isinstance(node, cst.Attribute) and any(
            isinstance(found, cst.ParenthesizedWhitespace) for found in walk(node.dot)
        ):
            return True
        node = node.func if isinstance(node, cst.Call) else node.value
    return False


def _start(source: SourceFile, node: cst.CSTNode) -> tuple[int, int]:
    start = source.position(node).start
    return start.line, start.column
