"""What names in a file mean: the import, value or parameter that they stand for, what reads them, which ones are free.

A name that could mean two things means nothing here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property

import libcst as cst
from libcst import matchers
from libcst.metadata import Assignment, BaseAssignment, QualifiedNameSource

from graphdoctor.fixes.source.nodes import assigned, dotted, is_in_place
from graphdoctor.fixes.source.tree import SourceFile, names_in, walk


class Names:
    """The names of one function, including those of inner functions."""

    def __init__(self, source: SourceFile, function: cst.FunctionDef | cst.Lambda) -> None:
        self.source = source
        self._function = function
        self._given: set[str] = set()

    @cached_property
    def _used(self) -> list[cst.Name]:
        return list(names_in(self._function))

    def fresh(self, name: str) -> str:
        """A name that the file doesn't use and that wasn't returned before: ``condition``, ``condition_2``."""
        candidate = self.source.free_name(name, self._given)
        self._given.add(candidate)
        return candidate

    def named(self, test: cst.BaseExpression) -> tuple[cst.Name, list[cst.BaseStatement]]:
        """A name for a condition, and the line that sets it, unless it is a name already."""
        if isinstance(test, cst.Name):
            return test, []
        name = cst.Name(self.fresh("condition"))
        return name, [assigned(name, test)]

    def is_only_in(self, name: str, nodes: Sequence[cst.CSTNode]) -> bool:
        """Whether nothing outside some nodes uses or declares a name."""
        inside = sum(found.value == name for node in nodes for found in names_in(node))
        return inside == sum(found.value == name for found in self._used)

    def is_bound_before(self, name: str, node: cst.CSTNode) -> bool:
        """Whether a name is a parameter, or appears before a node or in its test."""
        parameters = (found.name.value for found in walk(self._function.params) if isinstance(found, cst.Param))
        tested = [found.value for found in names_in(node.test)] if isinstance(node, cst.If) else []
        before = (found.value for found in self._used if self.source.start(found) < self.source.start(node))
        return name in (*parameters, *tested, *before)

    def is_declared(self, name: str) -> bool:
        """Whether ``global`` or ``nonlocal`` declares a name, so that it isn't the function's own."""
        declarations = [found for found in walk(self._function) if isinstance(found, cst.Global | cst.Nonlocal)]
        return any(item.name.value == name for found in declarations for item in found.names)

    @property
    def is_changing_tensors(self) -> bool:
        """Whether the function, or one around it, visibly changes something in place."""
        around = [self._function, *self.source.parents(self._function)]
        outermost = [found for found in around if isinstance(found, cst.FunctionDef | cst.Lambda)][-1]
        stored = matchers.AugAssign() | matchers.AssignTarget(target=matchers.Subscript())
        return any(is_in_place(found) or matchers.matches(found, stored) for found in walk(outermost))


def dotted_name(source: SourceFile, node: cst.CSTNode) -> str:
    """The full name of something imported or built in, or of what a call calls; an empty string for others.

    With ``import torch.nn.functional as F`` the expression ``F.one_hot`` is ``torch.nn.functional.one_hot``;
    ``float`` is ``builtins.float``.
    """
    node = node.func if isinstance(node, cst.Call) else node
    scope, root = source.scopes.get(node), node
    while isinstance(root, cst.Attribute):
        root = root.value
    if scope is None or not isinstance(root, cst.Name):
        return ""
    names = list(scope.get_qualified_names_for(node))
    return names[0].name if len(names) == 1 and names[0].source is not QualifiedNameSource.LOCAL else ""


def method_name(source: SourceFile, call: cst.CSTNode) -> str:
    """``max`` for ``x.abs().max()`` and ``torch.max(x)``; an empty string for ``self.max(x)`` and everything else."""
    match call:
        case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(value=name))):
            return "" if dotted(value) == "self" else name
        case cst.Call():
            return dotted_name(source, call).rpartition(".")[2]
    return ""


def receiver(source: SourceFile, call: cst.CSTNode) -> cst.BaseExpression | None:
    """What a method is called on, or the first argument of a function of torch: ``x`` in both examples above."""
    match call:
        case cst.Call(args=args) if dotted_name(source, call).startswith("torch."):
            return args[0].value if args and args[0].keyword is None and not args[0].star else None
        case cst.Call(func=cst.Attribute(value=value)):
            return value
    return None


def given_to(source: SourceFile, call: cst.Call) -> Sequence[cst.Arg]:
    """The arguments of a call beside its receiver."""
    return call.args[1:] if dotted_name(source, call) else call.args


def read_of(source: SourceFile, node: cst.CSTNode, casts: Collection[str]) -> cst.BaseExpression | None:
    """The tensor whose value a node reads: ``x.max()`` for ``x.max().item()``, and for casts such as ``float(…)``."""
    match node:
        case cst.Call(func=cst.Attribute(value=tensor, attr=cst.Name("item")), args=[]):
            return tensor
        case cst.Call(args=[cst.Arg(value=tensor, keyword=None, star="")]) if dotted_name(source, node) in casts:
            return tensor
    return None


def bound_to(source: SourceFile, node: cst.Name | cst.Attribute) -> Sequence[cst.BaseExpression | None]:
    """What a variable, or an attribute of ``self``, is set to; None for a parameter, a loop and the like."""
    return attribute_values(source, node) if isinstance(node, cst.Attribute) else values(source, node)


def assignments(source: SourceFile, name: cst.Name) -> list[BaseAssignment]:
    """Every binding of the variable that a name stands for."""
    scope = source.scopes.get(name)
    return list(scope[name.value]) if scope is not None else []


def is_local(source: SourceFile, name: cst.Name) -> bool:
    """Whether the variable belongs to the function around the name, and no inner or outer function shares it."""
    found = assignments(source, name)
    return bool(found) and all(assignment.scope is source.scopes.get(name) for assignment in found)


def reads(source: SourceFile, name: cst.Name) -> list[cst.Name]:
    """Where the variable that a name stands for is read, in file order."""
    nodes = {
        access.node
        for assignment in assignments(source, name)
        for access in assignment.references
        if isinstance(access.node, cst.Name) and not is_target(source, access.node)
    }
    return sorted(nodes, key=source.start)


def _setting(source: SourceFile, assignment: BaseAssignment) -> cst.CSTNode | None:
    node = assignment.node if isinstance(assignment, Assignment) else None
    holder = next(source.parents(node), None) if node is not None else None
    return next(source.parents(holder), None) if isinstance(holder, cst.AssignTarget) else holder


def values(source: SourceFile, name: cst.Name) -> list[cst.BaseExpression | None]:
    """What the variable is set to or changed by, for each binding; None for a parameter, a loop and the like."""
    settings = cst.Assign | cst.AnnAssign | cst.AugAssign | cst.NamedExpr
    found = [_setting(source, assignment) for assignment in assignments(source, name)]
    return [holder.value if isinstance(holder, settings) else None for holder in found]


def set_values(source: SourceFile, name: cst.Name) -> list[cst.BaseExpression]:
    """All values that a variable is set to by ``=`` alone; empty if anything else binds it."""
    found = [_setting(source, assignment) for assignment in assignments(source, name)]
    plain = [holder.value for holder in found if isinstance(holder, cst.Assign) and len(holder.targets) == 1]
    return plain if len(plain) == len(found) else []


def parameter(source: SourceFile, name: cst.CSTNode) -> cst.Param | None:
    """The parameter that a name stands for, if it is never reassigned."""
    found = assignments(source, name) if isinstance(name, cst.Name) else []
    node = found[0].node if len(found) == 1 and isinstance(found[0], Assignment) else None
    return node if isinstance(node, cst.Param) else None


def is_in_scope(source: SourceFile, node: cst.CSTNode, name: str) -> bool:
    """Whether a name can be read at a node: it is a parameter, or a variable that was set to a single value before."""
    scope = source.scopes.get(node)
    found = scope[name] if scope is not None else ()
    return bool(found) and all(_is_set_before(source, assignment, node) for assignment in found)


def _is_set_before(source: SourceFile, assignment: BaseAssignment, node: cst.CSTNode) -> bool:
    target = assignment.node if isinstance(assignment, Assignment) else None
    if isinstance(target, cst.Param):
        return target.default is None or dotted(target.default) != "None"
    holder = _setting(source, assignment) if isinstance(target, cst.Name) else None
    if not isinstance(holder, cst.Assign | cst.AnnAssign) or holder.value is None or not _is_one(holder.value):
        return False
    is_elsewhere = assignment.scope is not source.scopes.get(node)
    return is_elsewhere or source.position(holder).end.line < source.position(node).start.line


def _is_one(value: cst.BaseExpression) -> bool:
    """Whether it is a single value: neither None nor a literal with several values."""
    several = cst.List | cst.Tuple | cst.Dict | cst.Set | cst.BaseComp | cst.BaseString | cst.Lambda
    return not isinstance(value, several) and dotted(value) != "None"


def own_attributes(source: SourceFile, node: cst.CSTNode) -> set[str]:
    """Attributes of ``self`` that the class around a node only sets to single values; empty without ``self``."""
    owner = source.class_of(node)
    if owner is None or not is_in_scope(source, node, "self"):
        return set()
    names = {found.attr.value for found in walk(owner) if isinstance(found, cst.Attribute)}
    targets = [found.target for found in walk(owner.body) if isinstance(found, cst.AssignTarget)]
    names |= {target.value for target in targets if isinstance(target, cst.Name)}
    return {name for name in names if (found := _set_in(owner, name)) and all(map(_is_one, found))}


def is_target(source: SourceFile, name: cst.CSTNode) -> bool:
    """Whether the name is set, by ``=`` or ``+=``, rather than read."""
    parent = source.parent(name)
    return isinstance(parent, cst.AssignTarget) or (isinstance(parent, cst.AugAssign) and parent.target is name)


def attribute_values(source: SourceFile, node: cst.Attribute) -> list[cst.BaseExpression]:
    """What the class around ``self.name`` sets that attribute to, in its methods and in its body.

    A buffer counts as set to the tensor that it is registered with.
    """
    owner = source.class_of(node)
    return _set_in(owner, node.attr.value) if owner is not None and dotted(node.value) == "self" else []


def _set_in(owner: cst.ClassDef, name: str) -> list[cst.BaseExpression]:
    found: list[cst.BaseExpression] = []
    for node in walk(owner):
        match node:
            case cst.Assign(targets=targets, value=value):
                found += [value] if any(dotted(target.target) == f"self.{name}" for target in targets) else []
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                found += [value] if dotted(target) == f"self.{name}" else []
            case cst.Call(args=[cst.Arg(value=cst.SimpleString() as text), cst.Arg(value=value), *_]):
                is_buffer = dotted(node.func) == "self.register_buffer" and text.evaluated_value == name
                found += [value] if is_buffer else []
    smalls = [small for line in owner.body.body if isinstance(line, cst.SimpleStatementLine) for small in line.body]
    for small in smalls:
        if isinstance(small, cst.Assign) and any(dotted(target.target) == name for target in small.targets):
            found.append(small.value)
    return found


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
            module, _, name = dotted_name(source, node).rpartition(".")
            if module == "torch" or name == "Parameter":
                return name in _MAKERS or name == "Parameter"
            return isinstance(node.func, cst.Attribute) and method_name(source, node) in _METHODS
        case cst.Name() | cst.Attribute() if depth < 4:
            bound = bound_to(source, node)
            return bool(bound) and all(value is not None and is_tensor(source, value, depth + 1) for value in bound)
    return False


_OFF = frozenset({"torch.no_grad", "torch.inference_mode"})


def is_without_grad(source: SourceFile, node: cst.CSTNode) -> bool:
    """Whether it is ``torch.no_grad()`` or ``torch.inference_mode()``."""
    return dotted_name(source, node) in _OFF
