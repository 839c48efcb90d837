"""What lives longer or shorter than a call: iterators made outside, numbers of modules, parameters
made inside.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass

from libcst import (
    AddAssign,
    AnnAssign,
    Arg,
    AsName,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseElement,
    BaseExpression,
    BaseSmallStatement,
    BaseSuite,
    BinaryOperation,
    Call,
    ClassDef,
    CompFor,
    CSTNode,
    Del,
    Dict,
    DictElement,
    Divide,
    Expr,
    Float,
    For,
    FunctionDef,
    GeneratorExp,
    Integer,
    LeftSquareBracket,
    List,
    ListComp,
    Minus,
    MultiplyAssign,
    Name,
    Param,
    Return,
    RightSquareBracket,
    Set,
    SetComp,
    SimpleStatementLine,
    SimpleString,
    SubtractAssign,
    Tuple,
    UnaryOperation,
    matchers,
    parse_expression,
)

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.nodes import (
    ARITHMETIC,
    called,
    calls_in,
    enclosed,
    expression,
    keyword_of,
    method_call,
    targets_of,
)
from graphdoctor.fixes.source.torch_names import words
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    find,
    holds,
    known,
    need,
    only,
)

_ITERATORS = words("iter enumerate zip map filter reversed")
_METHODS = words("""
    parameters named_parameters buffers named_buffers modules named_modules children
""")
"""Methods of a module that return a new iterator."""


@recipe("GD121", "GD122")
def iterable_to_list(place: Place) -> Edit:
    """``parts = {a, b}`` becomes ``parts = [a, b]``, ``steps = iter(x)`` becomes ``steps =
    list(x)``.

    Only if the file creates it once and does nothing but loop over it. Unsafe: a list has an order
    and keeps duplicates, and a loop over a list starts over at each call, while one over an
    iterator continues.
    """
    looped = place.statement.iter if isinstance(place.statement, For) else None
    is_plain = isinstance(looped, Name | Attribute)
    decline_if(not is_plain, "the line doesn't loop over a variable or an attribute")
    is_other = isinstance(looped, Attribute) and dotted(looped.value) != "self"
    decline_if(is_other, "it's an attribute of another object")
    name = place.source.code(known(looped))
    made = _made(place.source, isinstance(looped, Name), name)
    is_iterator = isinstance(made, Call) and (
        dotted(made.func) in _ITERATORS | {"set", "frozenset"}
    )
    is_known = isinstance(made, Set | SetComp | GeneratorExp) or is_iterator
    decline_if(not is_known, f"`{name}` isn't created by a set or a built-in iterator")
    return place.edit(f"Make `{name}` a list", (made, _as_list(made)))


def _made(source: SourceFile, is_variable: bool, name: str) -> BaseExpression:
    made: list[BaseExpression] = []
    last = matchers.Name(name.rpartition(".")[2])
    pattern = last if is_variable else matchers.Attribute(attr=last)
    for node in matchers.findall(source.tree, pattern):
        match parent := source.parent(node):
            case AssignTarget():
                assignment = need(source.parent(parent), Assign)
                is_shared = len(assignment.targets) > 1
                decline_if(is_shared, f"`{name}` is set together with other names")
                made.append(assignment.value)
            case AnnAssign(target=target, value=BaseExpression() as value) if target is node:
                made.append(value)
            case For(iter=same) | CompFor(iter=same) | Attribute(attr=same) | Arg(keyword=same) if (
                same is node
            ):
                pass
            case Param():
                raise DeclinedError(f"`{name}` is an argument, so the caller creates it")
            case _:
                line = source.start(node)[0]
                raise DeclinedError(f"line {line} does more than loop over `{name}`")
    decline_if(not made, f"the file never sets `{name}`")
    return only(made, f"the file sets `{name}` more than once")


def _as_list(made: BaseExpression) -> BaseExpression:
    copy = made.deep_clone()
    match copy:
        case Set(elements=elements, lbrace=opened, rbrace=closed):
            left = LeftSquareBracket(opened.whitespace_after)
            return List(elements, left, RightSquareBracket(closed.whitespace_before))
        case SetComp(elt=element, for_in=loops) | GeneratorExp(elt=element, for_in=loops):
            return ListComp(element, loops)
        case Call(func=Name(value="set" | "frozenset" | "iter"), args=[argument]):
            return Call(Name("list"), [argument])
    return expression("list({made})", made=made)


@recipe("GD121")
def list_argument(place: Place) -> Edit:
    """``clip(model.parameters())`` becomes ``clip(list(model.parameters()))``.

    torch doesn't trace through an iterator that was created outside of the compiled code. The
    function gets the same elements in the same order. Unsafe: a list may be looped over again where
    the iterator would be used up.
    """
    source, statement = place.source, place.statement
    loops: Sequence[For | CompFor] = ()
    if isinstance(statement, For):
        loops = [statement]
    elif isinstance(statement, SimpleStatementLine):
        loops = find(statement, CompFor)
    names = [loop.iter for loop in loops if isinstance(loop.iter, Name)]
    name = only(names, "the line doesn't loop over one variable")
    function = source.function_of(name) if source.parameter(name) is not None else None
    function = need(function, FunctionDef, f"`{name.value}` isn't an argument")
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
    source: SourceFile, call: Call, function: FunctionDef, name: str
) -> list[BaseExpression]:
    params = [*function.params.posonly_params, *function.params.params]
    is_bound = isinstance(call.func, Attribute) and source.around(function, ClassDef) is not None
    names = [param.name.value for param in params][is_bound:]
    for at, argument in enumerate(call.args):
        if argument.star:
            break
        if (keyword_of(argument) or "".join(names[at : at + 1])) == name:
            return [argument.value]
    return []


def _is_iterator(value: BaseExpression) -> bool:
    is_method = isinstance(value, Call) and isinstance(value.func, Attribute)
    made = _METHODS if is_method else _ITERATORS
    return isinstance(value, GeneratorExp) or called(value) in made


_IN_PLACE = (AddAssign, SubtractAssign, MultiplyAssign)
_FUNCTIONS = words("add sub mul div pow where minimum maximum", "torch.")
"""Functions of torch that take a zero-dim tensor in place of a number."""

_COUNTING = words("""
    arange chunk empty expand eye full linspace narrow new_full new_ones new_zeros ones rand randn
    repeat reshape roll split tensor view zeros
""")
"""Functions and methods that take sizes and counts."""

_Set = Assign | AnnAssign | AugAssign


@recipe("GD205")
def module_number_to_buffer(place: Place) -> Edit:
    """``self.step = 0`` in ``__init__`` becomes a zero-dim buffer, and assignments in the file
    write into it.

    Every use of the attribute in the file must do arithmetic with it, or write it. Unsafe: code in
    other files reads a tensor, and a float loses precision.
    """
    numbers = [change for change in place.finding.changes if change.kind == "module_number"]
    is_known = numbers and "." in numbers[0].expression
    decline_if(not is_known, "it's unknown which number changed")
    change = numbers[0]
    number = _Number(place.source, change.expression.rpartition(".")[2])
    decline_if(not number.name.isidentifier(), f"`{change.expression}` isn't an attribute")
    values = [value for value in (change.old, change.new) if value is not None]
    title = f"Keep `{change.expression}` in a buffer and write into it"
    return place.edit(title, *number.changes(values))


@dataclass(frozen=True)
class _Number:
    source: SourceFile
    name: str

    def changes(self, values: Sequence[str]) -> list[Change]:
        source, name, tree = self.source, self.name, self.source.tree
        definition = self._definition()
        texts = {text.value.strip("rbuRBU\"'") for text in find(tree, SimpleString)}
        reason = f'the file has "{name}" as a string, so it may be read or set by name'
        decline_if(name in texts, reason)
        calls = {call.func for call in calls_in(tree)}
        written = {
            node: self._write(node)
            for node in find(tree, Attribute)
            if node.attr.value == name
            and definition not in source.parents(node)
            and node not in calls
        }
        writes = [write for write in dict.fromkeys(written.values()) if write is not None]
        is_float = any("." in value or "e" in value for value in values) or any(
            holds(write, Float, Divide) for write in [definition, *writes]
        )
        owner = source.around(definition, ClassDef)
        for node, write in written.items():
            is_self = dotted(node.value) == "self"
            is_other = is_self and source.around(node, ClassDef) is not owner
            decline_if(is_other, f"another class also uses `self.{name}`")
            if write is None:
                self._check_read(node)
        changes: list[Change] = [(definition, self._buffer(definition, is_float=is_float))]
        for write in writes:
            if isinstance(write, AugAssign):
                unclear = f"`{source.code(write)}` has no in-place version that keeps the dtype"
                decline_if(not isinstance(write.operator, _IN_PLACE), unclear)
            else:
                to, value = known(_target(write)), known(write.value)
                fill = expression("{to}.fill_({value})", to=to, value=value)
                changes.append((write, Expr(fill, semicolon=write.semicolon)))
        return changes

    def _definition(self) -> _Set:
        definitions: list[_Set] = []
        for function in find(self.source.tree, FunctionDef):
            smalls = _smalls(function.body) if function.name.value == "__init__" else []
            codes = [self.source.code(small) for small in smalls]
            for at, small in enumerate(smalls):
                if isinstance(small, _Set) and self._is_start(small):
                    is_late = any("super().__init__(" in code for code in codes[: at + 1])
                    early = f"`{self.name}` is set before the module is initialized"
                    decline_if(not is_late, early)
                    definitions.append(small)
                    break
        number = "more than one class" if definitions else "no class"
        reason = f"{number} in the file sets `{self.name}` to a number in `__init__`"
        definition = only(definitions, reason)
        owner = need(self.source.around(definition, ClassDef), ClassDef)
        class_names = {
            self.source.code(target.target)
            for small in _smalls(owner.body)
            for target in getattr(small, "targets", ())
        }
        decline_if(self.name in class_names, f"the class also has its own `{self.name}`")
        return definition

    def _is_start(self, node: _Set) -> bool:
        value = node.value.expression if isinstance(node.value, UnaryOperation) else node.value
        is_number = isinstance(value, Integer | Float | Name) and not isinstance(node, AugAssign)
        target = _target(node)
        return is_number and target is not None and self.source.code(target) == f"self.{self.name}"

    def _write(self, node: CSTNode) -> _Set | None:
        """Return the statement that writes the attribute that a node names; None if it is read."""
        inner, outer = node, self.source.parent(node)
        while isinstance(outer, AssignTarget | Tuple | List | BaseElement):
            inner, outer = outer, self.source.parent(outer)
        if isinstance(outer, _Set) and _target(outer) is node:
            return outer
        is_target = isinstance(inner, AssignTarget) or inner is getattr(outer, "target", None)
        reason = f"line {self.source.start(node)[0]} does more than set `{self.name}`"
        decline_if(is_target or isinstance(outer, Del | AsName), reason)
        return None

    def _check_read(self, node: CSTNode) -> None:
        """Decline unless only arithmetic reads it: code that keeps the buffer itself would see its
        value change.
        """
        is_computed = False
        below = node
        kept = Attribute | Tuple | List | Dict | BaseElement | DictElement
        for outer in self.source.parents(node):
            match outer:
                case BinaryOperation(operator=operator) if isinstance(operator, ARITHMETIC):
                    is_computed = True
                case UnaryOperation(operator=Minus()):
                    is_computed = True
                case Call(func=function) if (
                    below is not function and self.source.code(function) in _FUNCTIONS
                ):
                    is_computed = True
                case Call(func=function) if is_computed and (
                    below is function or not self._counts(function)
                ):
                    pass
                case AugAssign():
                    return
                case Assign() | AnnAssign() | Return() | Expr() if is_computed:
                    return
                case Arg():
                    pass
                case _ if not is_computed or not isinstance(outer, kept):
                    line = self.source.start(node)[0]
                    raise DeclinedError(f"line {line} does more than arithmetic with `{self.name}`")
            below = outer

    def _counts(self, function: BaseExpression) -> bool:
        """Check whether a function needs a number: a built-in, or one that creates or reshapes
        tensors.
        """
        name = self.source.code(function)
        is_python = hasattr(builtins, name) or name.startswith("math.")
        return is_python or name.rpartition(".")[2] in _COUNTING

    def _buffer(self, definition: _Set, *, is_float: bool) -> Expr:
        value = self.source.code(definition.value) if definition.value is not None else "0"
        if is_float and value.lstrip("-").isdigit():
            value += ".0"
        elif is_float and value.lstrip("-").isidentifier():
            value = f"float({value})"
        call = f'self.register_buffer("{self.name}", torch.tensor({value}), persistent=False)'
        return Expr(parse_expression(call), semicolon=definition.semicolon)


def _smalls(body: BaseSuite) -> list[BaseSmallStatement]:
    lines = [line for line in body.body if isinstance(line, SimpleStatementLine)]
    return [line.body[0] for line in lines if len(line.body) == 1]


def _target(node: _Set) -> BaseExpression | None:
    targets = targets_of(node)
    return targets[0] if len(targets) == 1 and node.value is not None else None


_FACTORIES = words("""
    arange empty eye full linspace ones ones_like rand rand_like randn randn_like tensor zeros
    zeros_like
""")
"""Functions whose results have no gradient to detach."""


@recipe("GD115")
def local_parameter_to_tensor(place: Place) -> Edit:
    """``scale = nn.Parameter(torch.ones(8))`` becomes ``scale = torch.ones(8)`` if only arithmetic
    uses it.

    The function creates a new one at each call, so no optimizer has it and its gradient is lost
    anyway. Unsafe: what is computed only from it no longer requires a gradient.
    """
    source = place.source
    pointed = (
        [place.expression] if place.expression is not None else calls_in(place.small_statement)
    )
    calls = [node for node in pointed if isinstance(node, Call) and called(node) == "Parameter"]
    call = only(calls, "the line doesn't create exactly one parameter")
    keywords = list(map(keyword_of, call.args))
    is_given = keywords[:1] in ([""], ["data"]) and not call.args[0].star
    decline_if(not is_given, "it doesn't say what the parameter is initialized with")
    is_more = set(keywords[1:]) - {"requires_grad"}
    decline_if(is_more, "it has arguments that a tensor doesn't take")
    value, parent = call.args[0].value, source.parent(call)
    if isinstance(parent, Assign | AnnAssign):
        outlives = "the parameter outlives the call"
        name = need(_target(parent), Name, outlives)
        function = known(source.function_of(call), outlives)
        for node in find(function, Name):
            is_passed = (
                node.value == name.value and node is not name and not _is_operand(source, node)
            )
            reason = f"line {source.start(node)[0]} may pass `{name.value}` to other code"
            decline_if(is_passed, reason)
    else:
        decline_if(not _is_operand(source, call), "the parameter may be passed to other code")
    # Detached from what it was computed from, as a parameter is.
    is_fresh = called(value) in _FACTORIES
    new = value.deep_clone() if is_fresh else method_call(enclosed(value), "detach")
    return place.edit("Use a plain tensor for the local parameter", (call, new))


def _is_operand(source: SourceFile, node: CSTNode) -> bool:
    """``x * scale`` or ``torch.add(x, scale)``."""
    parent = source.parent(node)
    around = source.parent(parent) if isinstance(parent, Arg) else None
    if not isinstance(around, Call):
        return isinstance(parent, BinaryOperation)
    is_torch = source.code(around.func).partition(".")[0] in ("torch", "F", "nn")
    return is_torch and called(around) != "Parameter"
