"""Numbers and parameters that belong to a module or to one call: keep a number in a buffer, and use a plain tensor."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, recipe
from graphdoctor.fixes.source.expressions import enclosed
from graphdoctor.fixes.source.place import Place
from graphdoctor.fixes.source.tree import Change, DeclinedError, SourceFile, decline_if

_ARITHMETIC = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide, cst.FloorDivide, cst.Modulo, cst.Power)
_IN_PLACE = (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign)
_FUNCTIONS = {f"torch.{name}" for name in ("add", "sub", "mul", "div", "pow", "where", "minimum", "maximum")}
"""Functions of torch that take a zero-dim tensor in place of a number."""

_COUNTING = frozenset(
    {
        "arange", "chunk", "empty", "expand", "eye", "full", "linspace", "narrow", "new_full", "new_ones", "new_zeros",
        "ones", "rand", "randn", "repeat", "reshape", "roll", "split", "tensor", "view", "zeros",
    }
)  # fmt: skip
"""Functions and methods that take sizes and counts."""

_Set = cst.Assign | cst.AnnAssign | cst.AugAssign


@recipe("GD205")
def module_number_to_buffer(place: Place) -> Edit:
    """``self.step = 0`` in ``__init__`` becomes a zero-dim buffer, and assignments in the file write into it.

    Every use of the attribute in the file must do arithmetic with it, or write it. Unsafe: code in other files reads a
    tensor, and a float loses precision.
    """
    change = next((change for change in place.changes if change.kind == "module_number"), None)
    if change is None or "." not in change.expression:
        raise DeclinedError("it's unknown which number changed")
    attribute = _Attribute(place.source, change.expression.rpartition(".")[2])
    decline_if(not attribute.name.isidentifier(), f"`{change.expression}` isn't an attribute")
    values = [value for value in (change.old, change.new) if value is not None]
    content = place.source.replaced(*attribute.changes(values), imports=("torch",))
    title = f"Keep `{change.expression}` in a buffer and write into it"
    return Edit(title=title, content=content, is_safe=False)


@dataclass(frozen=True)
class _Attribute:
    """A number that a class of the file sets in ``__init__``."""

    source: SourceFile
    name: str

    def changes(self, values: Sequence[str]) -> list[Change]:
        """The edits that make it a buffer."""
        definition = self._definition()
        named = matchers.findall(self.source.tree, matchers.Attribute(attr=matchers.Name(self.name)))
        if matchers.findall(self.source.tree, matchers.SimpleString(value=matchers.MatchIfTrue(self._is_quoted))):
            raise DeclinedError(f'the file has "{self.name}" as a string, so it may be read or set by name')
        others = [node for node in named if not self._is_in(node, definition) and not self._is_called(node)]
        writes = list(dict.fromkeys(write for node in others if (write := self._write(node)) is not None))
        is_float = any("." in value or "e" in value for value in values) or any(
            matchers.findall(write, matchers.Float() | matchers.Divide()) for write in [definition, *writes]
        )
        for node in others:
            self._check_object(node, definition)
            if self._write(node) is None:
                self._check_read(node)
        found: list[Change] = [(definition, self._buffer(definition, is_float=is_float))]
        for write in writes:
            if isinstance(write, cst.AugAssign):
                if not isinstance(write.operator, _IN_PLACE):
                    raise DeclinedError(f"`{self.source.code(write)}` has no in-place version that keeps the dtype")
            else:
                found.append((write, self._fill(write)))
        return found

    def _is_quoted(self, text: str) -> bool:
        return text.strip("rbuRBU\"'") == self.name

    def _definition(self) -> _Set:
        """The first assignment in an ``__init__``."""
        found: list[_Set] = []
        for node in matchers.findall(self.source.tree, matchers.FunctionDef(name=matchers.Name("__init__"))):
            assert isinstance(node, cst.FunctionDef)  # the matcher says so
            has_super = False
            for small in (small for line in node.body.body if (small := _only(line)) is not None):
                has_super = has_super or "super().__init__(" in self.source.code(small)
                if self._sets(small):
                    assert isinstance(small, _Set)  # it sets the attribute
                    decline_if(not has_super, f"`{self.name}` is set before the module is initialized")
                    found.append(small)
                    break
        if len(found) != 1:
            number = "no class" if not found else "more than one class"
            raise DeclinedError(f"{number} in the file sets `{self.name}` to a number in `__init__`")
        owner = self.source.class_of(found[0])
        assert owner is not None  # __init__ is a method
        for line in owner.body.body:
            small = _only(line)
            if isinstance(small, cst.Assign) and any(
                self.source.code(target.target) == self.name for target in small.targets
            ):
                raise DeclinedError(f"the class also has its own `{self.name}`")
        return found[0]

    def _sets(self, node: cst.CSTNode) -> bool:
        """``self.step = 0``, ``self.step: int = start``."""
        target = _target(node)
        value = node.value if isinstance(node, cst.Assign | cst.AnnAssign) else None
        if isinstance(value, cst.UnaryOperation):
            value = value.expression
        return (
            target is not None
            and self.source.code(target) == f"self.{self.name}"
            and isinstance(value, cst.Integer | cst.Float | cst.Name)
        )

    def _is_in(self, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
        return any(parent is statement for parent in self.source.parents(node))

    def _is_called(self, node: cst.CSTNode) -> bool:
        """``optimizer.step()``: a number isn't called."""
        parent = next(self.source.parents(node))
        return isinstance(parent, cst.Call) and parent.func is node

    def _write(self, node: cst.CSTNode) -> _Set | None:
        """The statement that writes the attribute that a node names; None if the node is read."""
        around = [node, *self.source.parents(node)]
        at = 1
        while isinstance(around[at], cst.AssignTarget | cst.Tuple | cst.List | cst.BaseElement):
            at += 1
        inner, outer = around[at - 1], around[at]
        if isinstance(outer, _Set) and _target(outer) is node:
            return outer
        is_target = isinstance(inner, cst.AssignTarget) or inner is getattr(outer, "target", None)
        if is_target or isinstance(outer, cst.Del | cst.AsName):
            raise DeclinedError(f"line {self.source.position(node).start.line} does more than set `{self.name}`")
        return None

    def _check_object(self, node: cst.CSTNode, definition: cst.CSTNode) -> None:
        assert isinstance(node, cst.Attribute)  # the matcher says so
        is_self = isinstance(node.value, cst.Name) and node.value.value == "self"
        if is_self and self.source.class_of(node) is not self.source.class_of(definition):
            raise DeclinedError(f"another class also uses `self.{self.name}`")

    def _check_read(self, node: cst.CSTNode) -> None:
        """Decline unless only arithmetic reads it: code that keeps the buffer itself would see its value change."""
        is_computed = False
        below = node
        for outer in self.source.parents(node):
            match outer:
                case cst.BinaryOperation(operator=operator) if isinstance(operator, _ARITHMETIC):
                    is_computed = True
                case cst.UnaryOperation(operator=cst.Minus()):
                    is_computed = True
                case cst.Call(func=function) if below is not function and self.source.code(function) in _FUNCTIONS:
                    is_computed = True
                case cst.Call(func=function) if is_computed and (below is function or not self._counts(function)):
                    pass
                case cst.AugAssign():
                    return
                case cst.Assign() | cst.AnnAssign() | cst.Return() | cst.Expr() if is_computed:
                    return
                case (
                    cst.Attribute() | cst.Tuple() | cst.List() | cst.Dict() | cst.BaseElement() | cst.DictElement()
                ) if is_computed:
                    pass
                case cst.Arg():
                    pass
                case _:
                    where = self.source.position(node).start.line
                    raise DeclinedError(f"line {where} does more than arithmetic with `{self.name}`")
            below = outer

    def _counts(self, function: cst.BaseExpression) -> bool:
        """Whether a function needs a number: a built-in, or one that creates or reshapes tensors."""
        name = self.source.code(function)
        return hasattr(builtins, name) or name.startswith("math.") or name.rpartition(".")[2] in _COUNTING

    def _buffer(self, definition: _Set, *, is_float: bool) -> cst.Expr:
        value = self.source.code(definition.value) if definition.value is not None else "0"
        if is_float and value.lstrip("-").isdigit():
            value += ".0"
        elif is_float and value.lstrip("-").isidentifier():
            value = f"float({value})"
        call = f'self.register_buffer("{self.name}", torch.tensor({value}), persistent=False)'
        return cst.Expr(cst.parse_expression(call), semicolon=_semicolon(definition))

    def _fill(self, write: cst.Assign | cst.AnnAssign) -> cst.Expr:
        target = _target(write)
        assert target is not None and write.value is not None  # a write of ours has both
        fill = cst.Attribute(target.deep_clone(), cst.Name("fill_"))
        return cst.Expr(cst.Call(fill, [cst.Arg(write.value.deep_clone())]), semicolon=_semicolon(write))


def _only(line: cst.CSTNode) -> cst.BaseSmallStatement | None:
    return line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else None


def _target(node: cst.CSTNode) -> cst.BaseExpression | None:
    match node:
        case cst.Assign(targets=[cst.AssignTarget(target=target)]):
            return target
        case cst.AugAssign(target=target):
            return target
        case cst.AnnAssign(target=target, value=value) if value is not None:
            return target
    return None


def _semicolon(node: _Set) -> cst.Semicolon | cst.MaybeSentinel:
    return node.semicolon


_FACTORIES = {
    "arange", "empty", "eye", "full", "linspace", "ones", "ones_like", "rand", "rand_like", "randn", "randn_like",
    "tensor", "zeros", "zeros_like",
}  # fmt: skip
"""Functions whose results have no gradient to detach."""

_PARAMETER = matchers.Name("Parameter") | matchers.Attribute(attr=matchers.Name("Parameter"))


@recipe("GD115")
def local_parameter_to_tensor(place: Place) -> Edit:
    """``scale = nn.Parameter(torch.ones(8))`` becomes ``scale = torch.ones(8)`` if only arithmetic uses it.

    The function creates a new one at each call, so no optimizer has it and its gradient is lost anyway. Unsafe: what is
    computed only from it no longer requires a gradient.
    """
    call = _parameter_call(place)
    source = place.source
    tensor = call.args[0] if call.args else None
    options = call.args[1:]
    if tensor is None or tensor.star or (tensor.keyword is not None and tensor.keyword.value != "data"):
        raise DeclinedError("it doesn't say what the parameter is initialized with")
    if any(option.keyword is None or option.keyword.value != "requires_grad" for option in options):
        raise DeclinedError("it has arguments that a tensor doesn't take")
    parent = next(source.parents(call))
    if isinstance(parent, cst.AssignTarget | cst.Assign | cst.AnnAssign):
        _check_uses(source, call, parent)
    elif not _is_operand(source, call):
        raise DeclinedError("the parameter may be passed to other code")
    content = source.replaced((call, _plain(source, tensor.value)), imports=("torch",))
    return Edit(title="Use a plain tensor for the local parameter", content=content, is_safe=False)


def _parameter_call(place: Place) -> cst.Call:
    expressions = [place.expression] if place.expression is not None else []
    if not expressions:
        expressions = [node for node in matchers.findall(place.small_statement, matchers.Call()) if _is_parameter(node)]  # type: ignore[misc]
    if len(expressions) != 1 or not _is_parameter(expressions[0]):
        raise DeclinedError("the line doesn't create exactly one parameter")
    assert isinstance(expressions[0], cst.Call)  # it makes a parameter
    return expressions[0]


def _is_parameter(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) and matchers.matches(node.func, _PARAMETER)


def _check_uses(source: SourceFile, call: cst.Call, assignment: cst.CSTNode) -> None:
    """Decline unless only arithmetic and calls to torch's functions use the variable."""
    targets = [target.target for target in assignment.targets] if isinstance(assignment, cst.Assign) else []
    if isinstance(assignment, cst.AnnAssign):
        targets = [assignment.target]
    name = targets[0] if len(targets) == 1 else None
    function = source.function_of(call)
    if not isinstance(name, cst.Name) or function is None:
        raise DeclinedError("the parameter outlives the call")
    for node in matchers.findall(function, matchers.Name(name.value)):
        if node is not name and not _is_operand(source, node):
            line = source.position(node).start.line
            raise DeclinedError(f"line {line} may pass `{name.value}` to other code")


def _is_operand(source: SourceFile, node: cst.CSTNode) -> bool:
    """``x * scale`` or ``torch.add(x, scale)``."""
    parents = source.parents(node)
    parent = next(parents)
    if isinstance(parent, cst.BinaryOperation):
        return True
    around = next(parents)
    return (
        isinstance(parent, cst.Arg)
        and isinstance(around, cst.Call)
        and source.code(around.func).partition(".")[0] in ("torch", "F", "nn")
        and "Parameter" not in source.code(around.func)
    )


def _plain(source: SourceFile, tensor: cst.BaseExpression) -> cst.BaseExpression:
    """The tensor, detached from what it was computed from, as a parameter is."""
    new = tensor.deep_clone()
    if isinstance(tensor, cst.Call) and source.code(tensor.func).rpartition(".")[2] in _FACTORIES:
        return new
    return cst.Call(cst.Attribute(enclosed(new), cst.Name("detach")))
