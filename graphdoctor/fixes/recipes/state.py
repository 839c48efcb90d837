"""What lives longer or shorter than a call: iterators made outside, numbers of modules, parameters
made inside.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.nodes import (
    called,
    calls_in,
    enclosed,
    expression,
    keyword_of,
    method_call,
    targets_of,
)
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    known,
    need,
    only,
    walk,
)

_ITERATORS = {"iter", "enumerate", "zip", "map", "filter", "reversed"}
_METHODS = {
    "parameters",
    "named_parameters",
    "buffers",
    "named_buffers",
    "modules",
    "named_modules",
    "children",
}
"""Methods of a module that return a new iterator."""


@recipe("GD121", "GD122")
def iterable_to_list(place: Place) -> Edit:
    """``parts = {a, b}`` becomes ``parts = [a, b]``, ``steps = iter(x)`` becomes ``steps =
    list(x)``.

    Only if the file creates it once and does nothing but loop over it. Unsafe: a list has an order
    and keeps duplicates, and a loop over a list starts over at each call, while one over an
    iterator continues.
    """
    looped = place.statement.iter if isinstance(place.statement, cst.For) else None
    if not isinstance(looped, cst.Name | cst.Attribute):
        raise DeclinedError("the line doesn't loop over a variable or an attribute")
    if isinstance(looped, cst.Attribute) and dotted(looped.value) != "self":
        raise DeclinedError("it's an attribute of another object")
    name = place.source.code(looped)
    made = _made(place.source, looped, name)
    function = dotted(made.func) if isinstance(made, cst.Call) else None
    is_display = isinstance(made, cst.Set | cst.SetComp | cst.GeneratorExp)
    is_known = is_display or function in {"set", "frozenset", *_ITERATORS}
    decline_if(not is_known, f"`{name}` isn't created by a set or a built-in iterator")
    return place.edit(f"Make `{name}` a list", (made, _as_list(made)))


def _made(source: SourceFile, looped: cst.Name | cst.Attribute, name: str) -> cst.BaseExpression:
    found: list[cst.BaseExpression] = []
    last = matchers.Name(name.rpartition(".")[2])
    for node in matchers.findall(
        source.tree, last if isinstance(looped, cst.Name) else matchers.Attribute(attr=last)
    ):
        match parent := source.parent(node):
            case cst.AssignTarget():
                assignment = need(source.parent(parent), cst.Assign, "")
                decline_if(
                    len(assignment.targets) > 1, f"`{name}` is set together with other names"
                )
                found.append(assignment.value)
            case cst.AnnAssign(target=target, value=value) if target is node and value is not None:
                found.append(value)
            case cst.For(iter=iterated) | cst.CompFor(iter=iterated) if iterated is node:
                pass
            case cst.Attribute(attr=attribute) | cst.Arg(keyword=attribute) if attribute is node:
                pass
            case cst.Param():
                raise DeclinedError(f"`{name}` is an argument, so the caller creates it")
            case _:
                raise DeclinedError(
                    f"line {source.start(node)[0]} does more than loop over `{name}`"
                )
    decline_if(not found, f"the file never sets `{name}`")
    return only(found, f"the file sets `{name}` more than once")


def _as_list(made: cst.BaseExpression) -> cst.BaseExpression:
    match made:
        case cst.Set(elements=elements, lbrace=opened, rbrace=closed):
            left = cst.LeftSquareBracket(opened.whitespace_after.deep_clone())
            right = cst.RightSquareBracket(closed.whitespace_before.deep_clone())
            return cst.List([element.deep_clone() for element in elements], left, right)
        case cst.SetComp(elt=element, for_in=loops) | cst.GeneratorExp(elt=element, for_in=loops):
            return cst.ListComp(element.deep_clone(), loops.deep_clone())
        case cst.Call(func=cst.Name(value="set" | "frozenset" | "iter"), args=[argument]):
            return cst.Call(cst.Name("list"), [argument.deep_clone()])
    return expression("list({made})", made=made)


@recipe("GD121")
def list_argument(place: Place) -> Edit:
    """``clip(model.parameters())`` becomes ``clip(list(model.parameters()))``.

    torch doesn't trace through an iterator that was created outside of the compiled code. The
    function gets the same elements in the same order. Unsafe: a list may be looped over again where
    the iterator would be used up.
    """
    source, statement = place.source, place.statement
    is_line = isinstance(statement, cst.SimpleStatementLine)
    loops = [node for node in walk(statement) if is_line and isinstance(node, cst.CompFor)]
    looped = [loop.iter for loop in ([statement] if isinstance(statement, cst.For) else loops)]
    names = [iterated for iterated in looped if isinstance(iterated, cst.Name)]
    name = only(names, "the line doesn't loop over one variable")
    function = source.function_of(name)
    if source.parameter(name) is None or not isinstance(function, cst.FunctionDef):
        raise DeclinedError(f"`{name.value}` isn't an argument")
    iterators = [
        value
        for call in calls_in(source.tree)
        if called(call) == function.name.value
        for value in _passed(source, call, function, name.value)
        if _is_iterator(value)
    ]
    decline_if(not iterators, f"no call in this file passes an iterator as `{name.value}`")
    title = f"Pass a list as `{name.value}` of `{function.name.value}`"
    return place.edit(title, *((value, _as_list(value)) for value in iterators))


def _passed(
    source: SourceFile, call: cst.Call, function: cst.FunctionDef, name: str
) -> list[cst.BaseExpression]:
    parameters = [
        given.name.value for given in (*function.params.posonly_params, *function.params.params)
    ]
    if isinstance(call.func, cst.Attribute) and source.class_of(function) is not None:
        parameters = parameters[1:]
    for at, argument in enumerate(call.args):
        if argument.star:
            break
        if (keyword_of(argument) or "".join(parameters[at : at + 1])) == name:
            return [argument.value]
    return []


def _is_iterator(value: cst.BaseExpression) -> bool:
    made = (
        _METHODS
        if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute)
        else _ITERATORS
    )
    return isinstance(value, cst.GeneratorExp) or called(value) in made


_ARITHMETIC = (
    cst.Add,
    cst.Subtract,
    cst.Multiply,
    cst.Divide,
    cst.FloorDivide,
    cst.Modulo,
    cst.Power,
)
_IN_PLACE = (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign)
_FUNCTIONS = {
    f"torch.{name}" for name in ("add", "sub", "mul", "div", "pow", "where", "minimum", "maximum")
}
"""Functions of torch that take a zero-dim tensor in place of a number."""

_COUNTING = frozenset(
    {
        "arange",
        "chunk",
        "empty",
        "expand",
        "eye",
        "full",
        "linspace",
        "narrow",
        "new_full",
        "new_ones",
        "new_zeros",
    }
    | {"ones", "rand", "randn", "repeat", "reshape", "roll", "split", "tensor", "view", "zeros"}
)
"""Functions and methods that take sizes and counts."""

_Set = cst.Assign | cst.AnnAssign | cst.AugAssign


@recipe("GD205")
def module_number_to_buffer(place: Place) -> Edit:
    """``self.step = 0`` in ``__init__`` becomes a zero-dim buffer, and assignments in the file
    write into it.

    Every use of the attribute in the file must do arithmetic with it, or write it. Unsafe: code in
    other files reads a tensor, and a float loses precision.
    """
    change = next(
        (change for change in place.finding.changes if change.kind == "module_number"), None
    )
    if change is None or "." not in change.expression:
        raise DeclinedError("it's unknown which number changed")
    number = _Number(place.source, change.expression.rpartition(".")[2])
    decline_if(not number.name.isidentifier(), f"`{change.expression}` isn't an attribute")
    values = [value for value in (change.old, change.new) if value is not None]
    return place.edit(
        f"Keep `{change.expression}` in a buffer and write into it", *number.changes(values)
    )


@dataclass(frozen=True)
class _Number:
    source: SourceFile
    name: str

    def changes(self, values: Sequence[str]) -> list[Change]:
        definition = self._definition()
        strings = (
            node.value for node in walk(self.source.tree) if isinstance(node, cst.SimpleString)
        )
        is_quoted = any(text.strip("rbuRBU\"'") == self.name for text in strings)
        decline_if(
            is_quoted, f'the file has "{self.name}" as a string, so it may be read or set by name'
        )
        named = matchers.findall(
            self.source.tree, matchers.Attribute(attr=matchers.Name(self.name))
        )
        calls = {call.func for call in calls_in(self.source.tree)}
        others = [
            node
            for node in named
            if definition not in self.source.parents(node) and node not in calls
        ]
        written = {node: self._write(node) for node in others}
        writes = [write for write in dict.fromkeys(written.values()) if write is not None]
        is_float = any("." in value or "e" in value for value in values) or any(
            matchers.findall(write, matchers.Float() | matchers.Divide())
            for write in [definition, *writes]
        )
        for node, written_by in written.items():
            is_self = isinstance(node, cst.Attribute) and dotted(node.value) == "self"
            if is_self and self.source.class_of(node) is not self.source.class_of(definition):
                raise DeclinedError(f"another class also uses `self.{self.name}`")
            if written_by is None:
                self._check_read(node)
        found: list[Change] = [(definition, self._buffer(definition, is_float=is_float))]
        for write in writes:
            if not isinstance(write, cst.AugAssign):
                fill = expression(
                    "{to}.fill_({value})", to=_target(write) or write.value, value=write.value
                )  # type: ignore[arg-type]
                found.append((write, cst.Expr(fill, semicolon=write.semicolon)))
            elif not isinstance(write.operator, _IN_PLACE):
                raise DeclinedError(
                    f"`{self.source.code(write)}` has no in-place version that keeps the dtype"
                )
        return found

    def _definition(self) -> _Set:
        found: list[_Set] = []
        for node in matchers.findall(
            self.source.tree, matchers.FunctionDef(name=matchers.Name("__init__"))
        ):
            has_super = False
            for small in _smalls(need(node, cst.FunctionDef, "").body):
                has_super = has_super or "super().__init__(" in self.source.code(small)
                if isinstance(small, _Set) and self._is_start(small):
                    decline_if(
                        not has_super, f"`{self.name}` is set before the module is initialized"
                    )
                    found.append(small)
                    break
        number = "more than one class" if found else "no class"
        definition = only(
            found, f"{number} in the file sets `{self.name}` to a number in `__init__`"
        )
        owner = need(self.source.class_of(definition), cst.ClassDef, "")
        targets = [
            target for small in _smalls(owner.body) for target in getattr(small, "targets", ())
        ]
        is_own = any(self.source.code(target.target) == self.name for target in targets)
        decline_if(is_own, f"the class also has its own `{self.name}`")
        return definition

    def _is_start(self, node: _Set) -> bool:
        value = node.value.expression if isinstance(node.value, cst.UnaryOperation) else node.value
        is_plain = isinstance(value, cst.Integer | cst.Float | cst.Name) and not isinstance(
            node, cst.AugAssign
        )
        target = _target(node)
        return is_plain and target is not None and self.source.code(target) == f"self.{self.name}"

    def _write(self, node: cst.CSTNode) -> _Set | None:
        """The statement that writes the attribute that a node names; None if the node is read."""
        inner, outer = node, self.source.parent(node)
        while isinstance(outer, cst.AssignTarget | cst.Tuple | cst.List | cst.BaseElement):
            inner, outer = outer, self.source.parent(outer)
        if isinstance(outer, _Set) and _target(outer) is node:
            return outer
        is_target = isinstance(inner, cst.AssignTarget) or inner is getattr(outer, "target", None)
        if is_target or isinstance(outer, cst.Del | cst.AsName):
            raise DeclinedError(
                f"line {self.source.start(node)[0]} does more than set `{self.name}`"
            )
        return None

    def _check_read(self, node: cst.CSTNode) -> None:
        """Decline unless only arithmetic reads it: code that keeps the buffer itself would see its
        value change.
        """
        is_computed = False
        below = node
        kept = cst.Attribute | cst.Tuple | cst.List | cst.Dict | cst.BaseElement | cst.DictElement
        for outer in self.source.parents(node):
            match outer:
                case cst.BinaryOperation(operator=operator) if isinstance(operator, _ARITHMETIC):
                    is_computed = True
                case cst.UnaryOperation(operator=cst.Minus()):
                    is_computed = True
                case cst.Call(func=function) if (
                    below is not function and self.source.code(function) in _FUNCTIONS
                ):
                    is_computed = True
                case cst.Call(func=function) if is_computed and (
                    below is function or not self._counts(function)
                ):
                    pass
                case cst.AugAssign():
                    return
                case cst.Assign() | cst.AnnAssign() | cst.Return() | cst.Expr() if is_computed:
                    return
                case cst.Arg():
                    pass
                case _ if not is_computed or not isinstance(outer, kept):
                    line = self.source.start(node)[0]
                    raise DeclinedError(f"line {line} does more than arithmetic with `{self.name}`")
            below = outer

    def _counts(self, function: cst.BaseExpression) -> bool:
        """Whether a function needs a number: a built-in, or one that creates or reshapes
        tensors.
        """
        name = self.source.code(function)
        return (
            hasattr(builtins, name)
            or name.startswith("math.")
            or name.rpartition(".")[2] in _COUNTING
        )

    def _buffer(self, definition: _Set, *, is_float: bool) -> cst.Expr:
        value = self.source.code(definition.value) if definition.value is not None else "0"
        if is_float and value.lstrip("-").isdigit():
            value += ".0"
        elif is_float and value.lstrip("-").isidentifier():
            value = f"float({value})"
        call = f'self.register_buffer("{self.name}", torch.tensor({value}), persistent=False)'
        return cst.Expr(cst.parse_expression(call), semicolon=definition.semicolon)


def _smalls(body: cst.BaseSuite) -> list[cst.BaseSmallStatement]:
    lines = [line for line in body.body if isinstance(line, cst.SimpleStatementLine)]
    return [line.body[0] for line in lines if len(line.body) == 1]


def _target(node: _Set) -> cst.BaseExpression | None:
    targets = targets_of(node)
    return targets[0] if len(targets) == 1 and node.value is not None else None


_FACTORIES = {
    "arange", "empty", "eye", "full", "linspace", "ones", "ones_like", "rand", "rand_like", "randn", "randn_like",
    "tensor", "zeros", "zeros_like",
}  # fmt: skip
"""Functions whose results have no gradient to detach."""


@recipe("GD115")
def local_parameter_to_tensor(place: Place) -> Edit:
    """``scale = nn.Parameter(torch.ones(8))`` becomes ``scale = torch.ones(8)`` if only arithmetic
    uses it.

    The function creates a new one at each call, so no optimizer has it and its gradient is lost
    anyway. Unsafe: what is computed only from it no longer requires a gradient.
    """
    source = place.source
    found = [place.expression] if place.expression is not None else calls_in(place.small_statement)
    parameters = [
        node for node in found if isinstance(node, cst.Call) and called(node) == "Parameter"
    ]
    call = only(parameters, "the line doesn't create exactly one parameter")
    keywords = list(map(keyword_of, call.args))
    is_given = keywords[:1] in ([""], ["data"]) and not call.args[0].star
    value = known(
        call.args[0].value if is_given else None,
        "it doesn't say what the parameter is initialized with",
    )
    decline_if(set(keywords[1:]) - {"requires_grad"}, "it has arguments that a tensor doesn't take")
    parent = source.parent(call)
    if isinstance(parent, cst.Assign | cst.AnnAssign):
        _check_uses(source, call, parent)
    else:
        decline_if(not _is_operand(source, call), "the parameter may be passed to other code")
    # Detached from what it was computed from, as a parameter is.
    new = (
        value.deep_clone()
        if called(value) in _FACTORIES
        else method_call(enclosed(value), "detach")
    )
    return place.edit("Use a plain tensor for the local parameter", (call, new))


def _check_uses(source: SourceFile, call: cst.Call, assignment: cst.Assign | cst.AnnAssign) -> None:
    outlives = "the parameter outlives the call"
    name, function = need(_target(assignment), cst.Name, outlives), source.function_of(call)
    decline_if(function is None, outlives)
    for node in (
        matchers.findall(function, matchers.Name(name.value)) if function is not None else ()
    ):
        if node is not name and not _is_operand(source, node):
            raise DeclinedError(
                f"line {source.start(node)[0]} may pass `{name.value}` to other code"
            )


def _is_operand(source: SourceFile, node: cst.CSTNode) -> bool:
    """``x * scale`` or ``torch.add(x, scale)``."""
    parent = source.parent(node)
    around = source.parent(parent) if isinstance(parent, cst.Arg) else None
    if not isinstance(around, cst.Call):
        return isinstance(parent, cst.BinaryOperation)
    is_torch = source.code(around.func).partition(".")[0] in ("torch", "F", "nn")
    return is_torch and called(around) != "Parameter"
