"""Where a number goes in a file: what is computed with it, what keeps it, who is given it; and what
to write so that a tensor can take its place.

Inside of what is compiled the tensor stays; where the value leaves that, the number is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property

import libcst
from libcst import (
    Add,
    AnnAssign,
    Arg,
    Assert,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseExpression,
    BaseNumber,
    BaseSlice,
    BaseString,
    BinaryOperation,
    BooleanOperation,
    Call,
    ClassDef,
    Comparison,
    ComparisonTarget,
    CompFor,
    CSTNode,
    Dict,
    DictComp,
    DictElement,
    Element,
    Expr,
    For,
    FormattedStringExpression,
    FunctionDef,
    GeneratorExp,
    If,
    IfExp,
    Index,
    Integer,
    Is,
    IsNot,
    Lambda,
    List,
    ListComp,
    Minus,
    Name,
    NamedExpr,
    Plus,
    Return,
    SimpleString,
    Slice,
    StarredDictElement,
    StarredElement,
    Subscript,
    SubscriptElement,
    Tuple,
    UnaryOperation,
    While,
    Yield,
)

from graphdoctor.fixes.source.nodes import (
    ARITHMETIC,
    ORDERS,
    as_operand,
    enclosed,
    expression,
    index_of,
    keyword_argument,
    keyword_of,
)
from graphdoctor.fixes.source.torch_names import TENSOR_METHODS, words
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    dotted,
    find,
    last_name,
    names_in,
    need,
    with_replaced,
)

CASTS = {"builtins.float": "float", "builtins.int": "int"}
MATH = words("sqrt exp log log2 log10 log1p expm1 sin cos tan tanh sinh cosh atan", "math.")
"""Functions of ``math`` that torch has under the same name, for one tensor."""

_TAKES_TENSOR = words("""
    add sub subtract mul multiply div divide true_divide floor_divide pow fmod remainder where lerp
    masked_fill fill eq ne lt le gt ge
""")
"""Functions and methods of torch that compute the same with a number and with a zero-dim tensor."""

_KEEPS = words("append appendleft extend insert add update setdefault")
"""Methods by which containers keep what they are given."""

_PASSES = words("builtins.list builtins.tuple builtins.dict builtins.reversed collections.deque")
_CALLED = {"forward", "backward", "__call__"}
"""Methods that run without their name."""

_BOUNDS = {"builtins.max": "min", "builtins.min": "max"}
_CHOOSING = (If, While, Assert, BooleanOperation, UnaryOperation)
_NEEDS: tuple[tuple[tuple[type[CSTNode], ...], str], ...] = (
    ((*_CHOOSING, IfExp), "the number decides which branch runs"),
    ((Return, Yield, Lambda), "the number is returned"),
    ((FormattedStringExpression,), "the number is formatted as text"),
    ((Element, DictElement, AnnAssign), "the number is stored"),
    ((Expr,), "nothing uses the number"),
)
_INDEX = "the number is an index"
_STORED, _PASSED_ON = "the number is stored", "the number is passed on"
_COMPARED = "the number is compared in Python"

Path = tuple[object, ...]
"""Which item of which container it is: a position, a key, or None for any; empty for the value."""


class _Field(str):
    """The name of a field, as part of a path."""

    __slots__ = ()


_Build = Callable[[CSTNode], CSTNode]


class Spread:
    """Follows a value that becomes a tensor, and notes what has to change with it.

    Args:
        source: The file.
        traced: The functions that torch traces; the value is read again outside of them.
    """

    def __init__(self, source: SourceFile, traced: Collection[FunctionDef]) -> None:
        self.source, self._traced, self._cast = source, traced, "float"
        self._builds: dict[CSTNode, _Build] = {}
        self._followed: set[tuple[CSTNode, Path]] = set()
        self.seen: set[CSTNode] = set()
        self._kept: set[tuple[str, Path]] = set()
        self.is_kept = False
        """Whether something outlives the function with it."""

    def replace(self, node: CSTNode, build: _Build) -> None:
        """Note how a node is written anew, of a copy in which those inside it are."""
        self._builds[node] = build

    def put(self, node: CSTNode, new: CSTNode) -> None:
        """Note what takes a node's place, whatever is inside it."""
        self._builds[node] = lambda _: new

    def changes(self) -> list[Change]:
        """Return the outermost nodes that change, each with those inside it."""
        return [
            (node, self._built(node))
            for node in self._builds
            if not any(parent in self._builds for parent in self.source.parents(node))
        ]

    def _built(self, node: CSTNode) -> CSTNode:
        inner = [
            (part, self._built(part))
            for part in self._builds
            if next((at for at in self.source.parents(part) if at in self._builds), None) is node
        ]
        return self._builds[node](with_replaced(node, inner) if inner else node)

    def spread(self, node: CSTNode, cast: str, build: _Build) -> None:
        """Note how an expression is written as a tensor, and follow its value, which ``cast`` reads
        outside; all or nothing.
        """
        before = dict(self._builds), set(self._followed), set(self._kept), self.is_kept
        self._cast = cast
        self.replace(node, build)
        try:
            self.follow(node)
        except DeclinedError:
            self._builds, self._followed, self._kept, self.is_kept = before
            raise

    def follow(self, node: CSTNode, path: Path = ()) -> None:
        """Follow an expression whose value, or an item of it, is a tensor now."""
        if (node, path) in self._followed:
            return
        self._followed.add((node, path))
        self.seen.add(node)
        parent = self.source.parent(node)
        match parent:
            case _ if not path and self._is_outside(node):
                self._read_there(node)
            case Arg():
                self._follow_argument(parent, path)
            case Element() | StarredElement():
                values = self.source.parent(parent)
                at = values.elements.index(parent) if isinstance(values, Tuple) else None
                self.follow(values, path if isinstance(parent, StarredElement) else (at, *path))
            case DictElement(key=key) if key is not node:
                self.follow(self.source.parent(parent), (_key(key), *path))
            case GeneratorExp() | ListComp() | DictComp() if (
                getattr(parent, "key", None) is not node
            ):
                self.follow(parent, (None, *path))
            case Assign():
                for target in parent.targets:
                    self._bind(target.target, path)
            case AugAssign(target=Name() as name) if not path and not is_number(self.source, name):
                pass
            case AugAssign() | AnnAssign() | NamedExpr():
                self._bind(parent.target, path)
                if isinstance(parent, NamedExpr):
                    self.follow(parent, path)
            case IfExp() if parent.test is not node:
                self.follow(parent, path)
            case Return(value=BaseExpression() as value) if path and self._is_outside(node):
                self._read_all_there(value, path)
            case Return() if isinstance(function := self.source.function_of(parent), FunctionDef):
                self._follow_return(function, path)
            case _ if path:
                self._follow_items(node, parent, path)
            case _:
                self._follow_value(node, parent)

    def _follow_items(self, node: CSTNode, parent: CSTNode, path: Path) -> None:
        match parent:
            case StarredDictElement():
                self.follow(self.source.parent(parent), path)
            case BinaryOperation():
                self.follow(parent, path)
            case Subscript() if parent.value is node:
                is_read = not self.source.is_target(parent)
                if is_read and _may_be(path[0], _key(index_of(parent))):
                    self.follow(parent, path[1:])
            case Attribute():
                self._follow_method(parent, path)
            case For(iter=rows) | CompFor(iter=rows) if rows is node:
                self._bind(parent.target, path[1:])
            case Expr():
                pass
            case _:
                raise DeclinedError(_STORED)

    def _follow_value(self, node: CSTNode, parent: CSTNode) -> None:
        match parent:
            case BinaryOperation(operator=operator) if isinstance(operator, ARITHMETIC):
                other = parent.right if parent.left is node else parent.left
                decline_if(isinstance(other, BaseString | List | Tuple), "it isn't arithmetic")
                if other in self.seen or is_number(self.source, other):
                    self.follow(parent)
            case UnaryOperation(operator=Minus() | Plus()):
                self.follow(parent)
            case Comparison():
                self._follow_comparison(parent, node)
            case ComparisonTarget():
                self._follow_comparison(self.source.parent(parent), node)
            case Index():
                self.index_with(parent)
            case Slice():
                self._slice_with(parent)
            case _:
                needs = (reason for kinds, reason in _NEEDS if isinstance(parent, kinds))
                raise DeclinedError(next(needs, "it's unclear what uses the number"))

    # Where it is a number again.

    def _is_outside(self, node: CSTNode) -> bool:
        """Check whether a node is in no function that is traced, nor in one that is inside such a
        function.
        """
        around = [parent for parent in self.source.parents(node) if isinstance(parent, FunctionDef)]
        return not any(function in self._traced for function in around)

    def _read_there(self, node: CSTNode) -> None:
        """Read the number where the value is used outside of what is compiled."""
        parent = self.source.parent(node)
        is_cast = isinstance(parent, Arg) and (
            self.source.dotted_name(self.source.parent(parent)) in CASTS
        )
        # A zero-dim tensor is formatted as its number is.
        if not is_cast and not isinstance(parent, FormattedStringExpression | Expr):
            self.replace(node, lambda copy: _call(self._cast, copy))

    # What keeps it.

    def _is_own(self, target: CSTNode) -> bool:
        """Check whether nothing else can be the same tensor as what is changed in place."""
        same = [
            node
            for node in find(self.source.tree, Name, Attribute, Subscript)
            if node.deep_equals(target) and not self.source.is_target(node)
        ]
        sets = [
            assign.value
            for assign in find(self.source.tree, Assign)
            if any(part.target.deep_equals(target) for part in assign.targets)
        ]
        is_stored = any(
            isinstance(self.source.parent(node), Arg | Assign | Element | DictElement)
            for node in same
        )
        return not is_stored and not any(isinstance(value, Name | Attribute) for value in sets)

    def _bind(self, target: CSTNode, path: Path) -> None:
        match target:
            case Tuple(elements=elements) | List(elements=elements):
                for at, element in enumerate(elements):
                    if path and _may_be(path[0], at):
                        self._bind(element.value, path[1:])
            case Subscript() if not path and self.source.is_tensor(target.value):
                pass
            case Subscript():
                self._hold(target.value, (_key(index_of(target)), *path))
            case Name() | Attribute():
                self._hold(target, path)
            case _:
                raise DeclinedError(_STORED)

    def _hold(self, holder: CSTNode, path: Path) -> None:
        """Follow the reads of a variable or attribute that holds it."""
        source = self.source
        for node in find(source.tree, AugAssign) if not path else ():
            is_same = node.target.deep_equals(need(holder, BaseExpression))
            is_there = isinstance(holder, Attribute) or (
                source.function_of(node) is source.function_of(holder)
            )
            if is_same and is_there and not self._is_own(node.target):
                self.replace(node, _out_of_place)
        match holder:
            case Name():
                is_callers = path and source.parameter(holder) is not None
                decline_if(is_callers or not source.assignments(holder), _STORED)
                for name in source.reads(holder):
                    self.follow(name, path)
            case Attribute(attr=Name(value=attribute)):
                self.is_kept = True
                if (attribute, path) not in self._kept:
                    self._kept.add((attribute, path))
                    for read in self._reads(holder):
                        self.follow(read, path)
            case Subscript():
                self._hold(holder.value, (_key(index_of(holder)), *path))
            case _:
                raise DeclinedError(_STORED)

    def _reads(self, kept: Attribute) -> Iterator[Attribute]:
        """Iterate over the reads of an attribute, by its name; ``self`` of another class is another
        one's.
        """
        owner = self.source.around(kept, ClassDef) if dotted(kept.value) == "self" else None
        for node in find(self.source.tree, Attribute):
            is_same = node.attr.value == kept.attr.value and not self.source.is_target(node)
            if is_same and owner is not None and dotted(node.value) == "self":
                around = self.source.around(node, ClassDef)
                is_same = around is owner or _are_related(around, owner)
            if is_same:
                yield node

    # Who is given it.

    def _follow_argument(self, argument: Arg, path: Path) -> None:
        source = self.source
        call = need(source.parent(argument), Call, _PASSED_ON)
        name, method = source.dotted_name(call), source.method_name(call).rstrip("_")
        callees = self._callees(call)
        if callees:
            for callee in callees:
                self._pass(callee, argument, call, path)
            return
        match call.func:
            case Attribute(value=holder, attr=Name(value=keeps)) if keeps in _KEEPS and not name:
                is_whole = keeps in ("update", "extend") and not keyword_of(argument)
                self._hold(holder, path if is_whole else (keyword_of(argument) or None, *path))
                return
        decline_if(argument.star, _PASSED_ON)
        if path:
            self._follow_container(call, argument, name, path)
        elif name == "builtins.abs":
            self.follow(call)
        elif name in MATH:
            self.replace(call.func, lambda copy: Attribute(Name("torch"), Name(last_name(copy))))
            self.follow(call)
        elif name in _BOUNDS and len(call.args) == 2:
            self._bound(call, argument, _BOUNDS[name])
        elif name == "builtins.round" and call.args[0] is argument:
            self.replace(call, _rounded)
            self.follow(call)
        elif name in CASTS and len(call.args) == 1:
            self.replace(call, lambda copy: need(copy, Call).args[0].value)
            self.follow(call)
        elif name in ("torch.tensor", "torch.as_tensor") and len(call.args) == 1:
            self.replace(call, lambda copy: need(copy, Call).args[0].value)
        else:
            code = source.code(call.func)
            decline_if(name and not name.startswith("torch."), f"`{code}` needs a Python number")
            # Either both bounds are tensors, or one is missing.
            is_bound = method in ("clamp", "clip") and len(source.given_to(call)) == 1
            others = {"alpha", "rounding_mode", "out"}.intersection(map(keyword_of, call.args))
            is_taken = method in _TAKES_TENSOR and not others
            decline_if(not is_bound and not is_taken, f"`{code}` may need a Python number")

    def _read_all_there(self, node: BaseExpression, path: Path) -> None:
        """Read the numbers of a list outside of what is compiled."""
        is_known = isinstance(node, Name | Attribute) and any(
            isinstance(value, List) for value in self.source.bound_to(node)
        )
        is_read = path == (None,) and is_known and self._is_outside(node)
        decline_if(not is_read, _PASSED_ON)
        numbers = f"[{self._cast}(value) for value in {{values}}]"
        self.replace(node, lambda copy: expression(numbers, values=need(copy, BaseExpression)))

    def _follow_container(self, call: Call, argument: Arg, name: str, path: Path) -> None:
        is_reduced = name in ("builtins.sum", "builtins.max", "builtins.min")
        if is_reduced and (name == "builtins.sum" or self._is_outside(call)):
            self.follow(call, path[1:])
        elif name in _PASSES:
            self.follow(call, path)
        elif name == "builtins.enumerate":
            self.follow(call, (None, 1, *path[1:]))
        elif name == "builtins.zip":
            self.follow(call, (None, call.args.index(argument), *path[1:]))
        elif name != "builtins.len":
            self._read_all_there(argument.value, path)

    def _bound(self, call: Call, argument: Arg, bound: str) -> None:
        """Write ``max(y, 1)`` as ``y.clamp(min=1)``."""
        at, is_float = call.args.index(argument), self._cast == "float"

        def clamped(copy: CSTNode) -> CSTNode:
            args = need(copy, Call).args
            if at and is_float:  # In `max(1, y)`, Python leaves out a NaN.
                parts = {"other": args[0].value, "y": args[1].value}
                name = {"min": "fmax", "max": "fmin"}[bound]
                return expression(f"torch.{name}({{y}}, torch.as_tensor({{other}}))", **parts)
            func = Attribute(as_operand(args[at].value), Name("clamp"))
            return Call(func, [keyword_argument(bound, args[1 - at].value.deep_clone())])

        if call not in self._builds:
            self.replace(call, clamped)
            self.follow(call)

    def _follow_method(self, method: Attribute, path: Path) -> None:
        call = self.source.parent(method)
        match method.attr.value, call:
            case name, _ if isinstance(path[0], _Field):
                if name == path[0]:
                    self.follow(method, path[1:])
            case "values", Call():
                self.follow(call, (None, *path[1:]))
            case "items", Call():
                self.follow(call, (None, 1, *path[1:]))
            case "get" | "pop" | "popleft", Call(args=args):
                key = _key(args[0].value) if args and method.attr.value == "get" else None
                if _may_be(path[0], key):
                    self.follow(call, path[1:])
            case "copy", Call():
                self.follow(call, path)
            case name, Call() if name in {*_KEEPS, "clear", "keys"}:
                pass
            case _:
                raise DeclinedError(_STORED)

    def _pass(self, callee: FunctionDef | ClassDef, argument: Arg, call: Call, path: Path) -> None:
        if isinstance(callee, ClassDef):
            # The fields of a dataclass are its parameters.
            fields = [dotted(item.target) or "" for item in find(callee.body, AnnAssign)]
            at = call.args.index(argument)
            name = keyword_of(argument) or "".join(fields[at : at + 1])
            decline_if(argument.star or not name, _PASSED_ON)
            self._hold(Attribute(Name("_"), Name(name)), path)
            self.follow(call, (_Field(name), *path))
            return
        listed = [*callee.params.posonly_params, *callee.params.params]
        listed = listed[1:] if self.source.is_method(callee) else listed
        named = {param.name.value: param for param in (*listed, *callee.params.kwonly_params)}
        at = call.args.index(argument)
        name = keyword_of(argument) or (listed[at].name.value if at < len(listed) else "")
        decline_if(argument.star or name not in named, _PASSED_ON)
        for read in self.source.reads_of_parameter(named[name]):
            self.follow(read, path)

    def _callees(self, call: Call) -> list[FunctionDef] | list[ClassDef]:
        """Return the functions of the file that a call may run, or the dataclass that it makes."""
        source, func = self.source, call.func
        name = func.attr.value if isinstance(func, Attribute) else dotted(func) or ""
        owner = source.around(call, ClassDef)
        is_own = isinstance(func, Attribute) and dotted(func.value) == "self" and owner is not None
        made_by = _class_of(source, func.value if isinstance(func, Attribute) else func)
        if isinstance(func, Name) and (name in self._classes or made_by & self._classes.keys()):
            name, made_by = "__init__" if name in self._classes else "__call__", made_by or {name}
            made = self._classes[next(iter(made_by & self._classes.keys()))]
            return [part for part in _methods(made) if part.name.value == name] or [made]
        found = [
            part
            for part in find(source.tree, FunctionDef)
            if part.name.value == name and source.is_method(part) is isinstance(func, Attribute)
        ]
        owners = {owner.name.value} if is_own and owner is not None else made_by
        of_owners = [part for part in found if _owner(source, part) in owners]
        if not isinstance(func, Attribute) or of_owners:
            return of_owners or found
        values = source.bound_to(func.value) if isinstance(func.value, Name | Attribute) else ()
        is_container = any(isinstance(value, Dict | List) for value in values)
        return [] if is_container or (made_by and name in _KEEPS) else found

    @cached_property
    def _classes(self) -> dict[str, ClassDef]:
        return {owner.name.value: owner for owner in find(self.source.tree, ClassDef)}

    def _follow_return(self, function: FunctionDef, path: Path) -> None:
        """Follow what callers in the file get; the last one outside reads the number."""
        calls = list(self._calls_of(function))
        decline_if(not calls, "the number is returned")
        for call in calls:
            self.follow(call, path)

    def _calls_of(self, function: FunctionDef) -> Iterator[CSTNode]:
        source, kind = self.source, Attribute if self.source.is_method(function) else Name
        is_property = any(last_name(item.decorator) == "property" for item in function.decorators)
        for node in find(source.tree, kind):
            parent = source.parent(node)
            is_label = isinstance(parent, FunctionDef | Attribute) and kind is Name
            is_label = is_label or (isinstance(parent, Arg) and parent.keyword is node)
            is_label = is_label or (isinstance(node, Attribute) and _may_be_of_tensor(node))
            if last_name_of(node) != function.name.value or is_label:
                continue
            is_called = isinstance(parent, Call) and parent.func is node
            decline_if(not is_called and not is_property, "the number is returned")
            yield node if is_property else parent

    def _follow_comparison(self, comparison: CSTNode, node: CSTNode) -> None:
        user = self.source.parent(comparison)
        is_test = isinstance(user, If | IfExp | Assert) and user.test is comparison
        is_truth = isinstance(user, _CHOOSING) or is_test
        match comparison:
            case Comparison(
                left=left, comparisons=[ComparisonTarget(operator=operator, comparator=right)]
            ):
                if isinstance(operator, Is | IsNot) and dotted(right) == "None":
                    return
                if is_test and isinstance(node, Name | BinaryOperation):
                    return  # the branch on the tensor is the next break to fix
                other = right if left is node else left
                is_tensors = isinstance(operator, ORDERS) and not is_truth
                if is_tensors and not is_number(self.source, other):
                    return
        raise DeclinedError(_COMPARED)

    def _slice_with(self, part: Slice) -> None:
        """Write ``x[:, i : i + n]`` as ``x[:, i + torch.arange(n, device=x.device)]``."""
        holder, elements, at = self._held_at(part)
        match part:
            case Slice(
                lower=BaseExpression() as start,
                upper=BinaryOperation(left=first, operator=Add(), right=size),
                step=None,
            ) if self.source.code(first) == self.source.code(start):
                pass
            case _:
                raise DeclinedError(_INDEX)
        are_slices = all(isinstance(other.slice, Slice) for other in elements)
        decline_if(not are_slices or not self.source.is_tensor(holder.value), _INDEX)

        def places(old: BaseSlice, x: BaseExpression) -> BaseExpression:
            lower = need(need(old, Slice).lower, BaseExpression)
            template = "{start} + torch.arange({size}, device={x}.device)"
            return expression(template, start=as_operand(lower), size=size, x=as_operand(x))

        self.replace(holder, lambda copy: _indexed(copy, at, places))

    def _held_at(self, part: CSTNode) -> tuple[Subscript, Sequence[SubscriptElement], int]:
        element = self.source.parent(part)
        holder = need(self.source.parent(element), Subscript, _INDEX)
        return holder, holder.slice, [other is element for other in holder.slice].index(True)

    def index_with(self, index: Index) -> None:
        """Write ``x[:, i]`` as ``x[:, i[None]].squeeze(1)``: torch reads an index without dims."""
        holder, elements, at = self._held_at(index)
        before, after = elements[:at], elements[at + 1 :]
        slices = [other for other in before if isinstance(other.slice, Slice)]
        are_adjacent = len(slices) in (0, at) and all(
            isinstance(other.slice, Slice) for other in after
        )
        is_tensor = len(elements) > 1 or self.source.is_tensor(holder.value)
        decline_if(not is_tensor or not are_adjacent, _INDEX)

        def place(old: BaseSlice, _: BaseExpression) -> BaseExpression:
            return expression("{i}[None]", i=as_operand(need(old, Index).value))

        squeezed = "" if self.source.is_target(holder) else f".squeeze({len(slices)})"
        template = f"{{x}}{squeezed}"
        self.replace(holder, lambda copy: expression(template, x=_indexed(copy, at, place)))


def _indexed(
    node: CSTNode, at: int, place: Callable[[BaseSlice, BaseExpression], BaseExpression]
) -> Subscript:
    """Write one index of a tensor anew."""
    subscript = need(node, Subscript)
    parts = list(subscript.slice)
    new = Index(place(parts[at].slice, subscript.value))
    parts[at] = parts[at].with_changes(slice=new)
    return subscript.with_changes(slice=parts)


def _call(name: str, argument: CSTNode) -> Call:
    return Call(Name(name), [Arg(need(argument, BaseExpression).deep_clone())])


def _rounded(node: CSTNode) -> CSTNode:
    """Write ``round(y, 2)`` as ``y.round(decimals=2)``."""
    value, *digits = need(node, Call).args
    args = [keyword_argument("decimals", digit.value.deep_clone()) for digit in digits]
    return Call(Attribute(as_operand(value.value), Name("round")), args)


def _out_of_place(node: CSTNode) -> CSTNode:
    """Write ``x += y`` as ``x = x + y``."""
    added = need(node, AugAssign)
    operator = getattr(libcst, type(added.operator).__name__.removesuffix("Assign"))()
    loose = () if isinstance(operator, libcst.Multiply | libcst.Divide) else (BinaryOperation,)
    value = BinaryOperation(added.target.deep_clone(), operator, enclosed(added.value, loose))
    return Assign([AssignTarget(added.target.deep_clone())], value, semicolon=added.semicolon)


def _key(node: object) -> object:
    match node:
        case SimpleString():
            return node.evaluated_value
        case Integer(value=value):
            return int(value, 0)
    return None


def _may_be(key: object, other: object) -> bool:
    return key is None or other is None or key == other


def _methods(owner: ClassDef) -> list[FunctionDef]:
    return [part for part in owner.body.body if isinstance(part, FunctionDef)]


def last_name_of(node: CSTNode) -> str:
    """Return ``avg`` for ``self.meters[0].avg``."""
    name = node.attr if isinstance(node, Attribute) else node
    return name.value if isinstance(name, Name) else ""


def _owner(source: SourceFile, method: CSTNode) -> str:
    owner = source.around(method, ClassDef)
    return owner.name.value if owner is not None else ""


def _are_related(one: ClassDef | None, other: ClassDef) -> bool:
    names = [last_name(base.value) for owner in (one, other) if owner for base in owner.bases]
    return one is not None and (one.name.value in names or other.name.value in names)


def _class_of(source: SourceFile, node: BaseExpression) -> set[str]:
    """Return the names of what a variable or attribute is set to a call of."""
    values = source.bound_to(node) if isinstance(node, Name | Attribute) else ()
    calls = [value for value in values if isinstance(value, Call)]
    return {last_name(call.func) for call in calls} if len(calls) == len(values) else set()


def traced_from(source: SourceFile, roots: Collection[FunctionDef]) -> set[FunctionDef]:
    """Return the functions of the file that some functions may call, by name, and themselves."""
    functions = find(source.tree, FunctionDef)
    traced, waiting = set[FunctionDef](), list(roots)
    while waiting:
        function = waiting.pop()
        decorators = " ".join(source.code(line) for line in function.decorators)
        if function not in traced and "disable" not in decorators:
            traced.add(function)
            used = {name.value for name in names_in(function.body)} | _CALLED
            attributes = find(function.body, Attribute)
            used |= {node.attr.value for node in attributes if not _may_be_of_tensor(node)}
            waiting += [other for other in functions if other.name.value in used]
    return traced


def _may_be_of_tensor(method: Attribute) -> bool:
    """Check for ``loss.item``, which is hardly a function of the file that has the same name."""
    is_own = (dotted(method.value) or "").partition(".")[0] == "self"
    return method.attr.value in TENSOR_METHODS | {"item"} and not is_own


def is_number(
    source: SourceFile, node: BaseExpression | None, within: frozenset[str] = frozenset()
) -> bool:
    """Check whether it is certainly a number of Python; within its own value, it is."""
    match node:
        case BaseNumber():
            return True
        case UnaryOperation():
            return is_number(source, node.expression, within)
        case BinaryOperation():
            return is_number(source, node.left, within) and is_number(source, node.right, within)
        case Subscript(value=Attribute(attr=Name("shape"))) | Attribute(attr=Name("ndim")):
            return True
        case Call(func=Attribute(attr=Name("get")), args=[_, Arg(value=BaseNumber())]):
            return True
        case Call():
            name = source.dotted_name(node)
            is_builtin = name in {"builtins.len", "builtins.round", *CASTS}
            is_method = source.method_name(node) in ("item", "numel", "size", "dim")
            return is_builtin or is_method or name.startswith("math.")
        case Name() if (parameter := source.parameter(node)) is not None:
            annotation = (
                parameter.annotation.annotation if parameter.annotation is not None else None
            )
            has_number = isinstance(parameter.default, BaseNumber)
            return has_number or dotted(annotation) in ("float", "int")
        case Name() | Attribute() if source.code(node) not in within:
            values, inner = source.bound_to(node), within | {source.code(node)}
            return source.dotted_name(node).startswith("math.") or (
                bool(values) and all(is_number(source, value, inner) for value in values)
            )
        case Name() | Attribute():
            return True
    return False
