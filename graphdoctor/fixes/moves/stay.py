"""Values that stay in the graph: a number that is read is what it was made of, a size that equals
it, or the tensor itself, wherever it goes; what a mask selects is a whole tensor with its shape.
"""

from __future__ import annotations

import ast
import contextlib

from libcst import (
    Add,
    Arg,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseExpression,
    BaseNumber,
    BaseString,
    BinaryOperation,
    Call,
    ClassDef,
    Comparison,
    CSTNode,
    Divide,
    FunctionDef,
    If,
    IfExp,
    Index,
    Multiply,
    Name,
    NamedExpr,
    SimpleStatementLine,
    SimpleString,
    Subscript,
    Subtract,
    UnaryOperation,
    With,
    parse_expression,
)
from libcst.metadata import Assignment

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.expressions import is_integer, is_literal_number
from graphdoctor.fixes.source.nodes import (
    as_operand,
    bare,
    calls_in,
    index_of,
    is_in_place,
    method_call,
    refuse_comment,
    without_parentheses,
)
from graphdoctor.fixes.source.spread import CASTS, MATH, Spread, is_number, traced_from
from graphdoctor.fixes.source.torch_names import FRESH, REDUCED, words
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
)

_ANY_CAST = {*CASTS, "builtins.bool"}
_REDUCTIONS = REDUCED - {"all", "any", "prod", "sum"}
"""Methods of a tensor that return one zero-dim tensor of the same dtype if they are called without
arguments."""

_SAME_DTYPE = _REDUCTIONS | {"abs", "detach"}
"""Methods of a tensor whose result has the same dtype."""

_WHOLE = words("argmax argmin count_nonzero long int")
"""Methods whose result is an integer, through which no gradient can flow."""


@recipe("GD103")
def keep_tensor(place: Place) -> Edit:
    """``y / y.max().item()`` becomes ``y / y.max().detach()``, and ``history.append(float(err))``
    keeps the tensor.

    ``detach()`` keeps gradients as they are, because a number has none; it is left out if no
    gradient can flow. The tensor is followed through variables, attributes, containers and
    functions of the file; outside of what is compiled it is read as a number. Safe only for a
    maximum, a mean and the like of the same tensor that the number is combined with, so that the
    dtype stays the same.
    """
    source, spread = place.source, Spread(place.source, traced_from(place.source, roots_of(place)))
    reads = [_Read(source, spread, node) for node in _pointed_reads(place)]
    reads[0].follow()
    others = [
        _Read(source, spread, call)
        for call in calls_in(place.statement)
        if call not in spread.seen and _is_read_for_certain(source, call)
    ]
    for other in (*reads[1:], *others):
        with contextlib.suppress(DeclinedError):
            other.follow()
    read = reads[0]
    kept = "a detached tensor" if read.needs_detach else "the tensor"
    title = f"Keep {kept} in place of the number that `{read.words}` reads"
    return place.edit(title, *spread.changes(), is_safe=read.keeps_dtype and not others)


def _pointed_reads(place: Place) -> list[BaseExpression]:
    """Return the read that torch points to, or all those of the line."""
    source = place.source
    try:
        what = "`.item()`, `float(…)` or `int(…)`"
        return [place.pointed(lambda node: _read_by(source, node), what)]
    except DeclinedError:
        calls = calls_in(place.statement) if place.expression is None else []
        reads = [call for call in calls if _read_by(source, call) is not None]
        if len(reads) < 2 or not isinstance(place.statement, SimpleStatementLine):
            raise
        return [*reads]


@recipe("GD103", "GD119")
def keep_number(place: Place) -> Edit:
    """``data["mode"] = torch.tensor(1)`` becomes ``data["mode"] = 1``, where it's only read by
    ``.item()`` and casts; otherwise ``idx[-1].item() + 1`` becomes ``charge.shape[0]``, if it
    equaled that in each call.

    The same for attributes of ``self`` and for variables. Unsafe: other files may read a tensor
    there, and other inputs have other sizes.
    """
    source = place.source
    first = place.pointed(
        lambda node: source.read_of(node, _ANY_CAST), "`.item()`, `int(…)` or `bool(…)`"
    )
    kept = first
    while (inner := source.read_of(kept, _ANY_CAST)) is not None:
        kept = inner
    try:
        changes = _made_of_number(source, kept)
    except DeclinedError as error:
        return _equal_number(place, first, error)
    title = f"Keep the number itself in `{source.shortened(kept)}`, in place of a tensor of it"
    return place.edit(title, *changes)


def _equal_number(place: Place, first: BaseExpression, otherwise: DeclinedError) -> Edit:
    source = place.source
    outer = [node for node in source.parents(first) if isinstance(node, BaseExpression)]
    equals = [(node, equal) for node in (first, *outer) if (equal := place.equal_to(node))]
    if not equals:
        raise otherwise
    node, equal = equals[-1]
    shown = source.shortened(without_parentheses(node))
    title = f"Use `{equal.names[0]}` in place of `{shown}`{equal.words}"
    return place.edit(title, (node, parse_expression(equal.names[0])))


def _made_of_number(source: SourceFile, kept: BaseExpression) -> list[Change]:
    same = _same(source, kept)
    is_set = any(isinstance(source.parent(node), AssignTarget) for node in same)
    decline_if(not is_set, "nothing in the file sets it to a tensor of one number")
    return [change for node in same for change in _as_number(source, node)]


def _same(source: SourceFile, node: BaseExpression) -> list[CSTNode]:
    """Return where the file names what a node stands for: an item of any dictionary, an attribute
    of ``self``, a variable.
    """
    match node, index_of(node):
        case Name(), _:
            bindings = source.assignments(node)
            set_ = [binding.node for binding in bindings if isinstance(binding, Assignment)]
            return [*set_, *source.reads(node)]
        case Attribute(value=Name("self")), _:
            unclear = "the attribute isn't of a class in the file"
            owner = known(source.around(node, ClassDef), unclear)
            return [
                attribute
                for attribute in find(owner, Attribute)
                if dotted(attribute) == dotted(node)
            ]
        case _, SimpleString(value=key):
            texts = [(subscript, index_of(subscript)) for subscript in find(source.tree, Subscript)]
            return [
                subscript
                for subscript, text in texts
                if isinstance(text, SimpleString)
                and ast.literal_eval(text.value) == ast.literal_eval(key)
            ]
    raise DeclinedError("it isn't an item, an attribute or a variable")


def _as_number(source: SourceFile, node: CSTNode) -> list[Change]:
    parent = source.parent(node)
    outer = source.parent(parent)
    match parent, outer:
        case AssignTarget(), Assign(value=Call(args=[Arg(value=value, keyword=None, star="")])):
            is_tensor = source.dotted_name(outer.value) == "torch.tensor"
            if is_tensor and (is_literal_number(value) or dotted(value) in ("True", "False")):
                return [(outer.value, value)]
        case If(test=test) | IfExp(test=test), _ if test is node:
            return []
        case _, Call() if source.read_of(outer, _ANY_CAST) is node:
            return [] if isinstance(parent, Arg) else [(outer, node)]
    is_set = isinstance(parent, AssignTarget)
    written = "it isn't always a tensor of one number that is written there"
    raise DeclinedError(written if is_set else "it's used as a tensor, too")


def _is_read_for_certain(source: SourceFile, call: Call) -> bool:
    tensor = _tensor_of(source, call)
    is_reduced = isinstance(tensor, Call) and source.method_name(tensor) in REDUCED
    return source.method_name(call) == "item" or is_reduced or source.is_tensor(tensor)


def _read_by(source: SourceFile, node: CSTNode) -> BaseExpression | None:
    """Return what a node reads: a tensor, or what ``math.sqrt(x)`` takes unless it is a number
    already.
    """
    match node:
        case Call(args=[Arg(value=value, keyword=None, star="")]) if source.dotted_name(
            node
        ) in MATH and not is_number(source, value):
            return value
    return _tensor_of(source, node)


def _tensor_of(source: SourceFile, node: CSTNode) -> BaseExpression | None:
    tensor = source.read_of(node, CASTS)
    return None if isinstance(tensor, BaseString | BaseNumber) else tensor


class _Read:
    """One read of a number, ``call``, with casts around it, and the ``tensor`` that it reads."""

    def __init__(self, source: SourceFile, spread: Spread, first: BaseExpression) -> None:
        self._source, self._spread = source, spread
        self._is_math = source.dotted_name(first) in MATH
        self._call = self._tensor = known(_read_by(source, first))
        self._cast = ""
        if not self._is_math:
            outer: CSTNode = first
            while _tensor_of(source, outer) is not None:
                self._call = need(outer, BaseExpression)
                argument = source.parent(outer)
                outer = source.parent(argument) if isinstance(argument, Arg) else argument
            self._cast = CASTS.get(source.dotted_name(self._call), "")
            while (inner := _tensor_of(source, self._tensor)) is not None:
                self._tensor = inner
        self._chain = []
        """The calls that produce the tensor, last first: ``max`` and ``abs`` for
        ``y.abs().max()``."""
        node: BaseExpression | None = self._tensor
        while isinstance(node, Call):
            self._chain.append(node)
            node = source.receiver(node)
        self._root = node
        self._methods = [source.method_name(call) for call in self._chain]

    def follow(self) -> None:
        """Keep the tensor, wherever its value goes."""
        source = self._source
        if self._call in self._spread.seen:
            return
        refuse_comment(self._call, self._tensor)
        has_places = any(source.method_name(call) == "nonzero" for call in calls_in(self._tensor))
        decline_if(has_places, "the places where a mask is true are another break")
        is_whole = self._is_whole or is_integer(self._tensor, source)
        cast = "int" if self._cast == "int" or (is_whole and not self._cast) else "float"
        self._spread.spread(self._call, cast, lambda _: self._kept())

    @property
    def words(self) -> str:
        return self._source.shortened(self._call)

    @property
    def _is_whole(self) -> bool:
        return bool(_WHOLE.intersection(self._methods))

    @property
    def needs_detach(self) -> bool:
        if self._cast == "int" or self._is_under_no_grad():
            return False
        for call, name in zip(self._chain, self._methods, strict=True):
            if name in _WHOLE | {"detach"}:
                return False
            arguments = self._source.given_to(call)
            if not all(is_number(self._source, argument.value) for argument in arguments):
                return True  # through another argument
        return not is_integer(self._tensor, self._source)

    def _is_under_no_grad(self) -> bool:
        """Check whether it is computed without a graph; what has a name may come from outside."""
        source = self._source
        for parent in source.parents(self._call):
            if isinstance(parent, With):
                managers = [item.item for item in parent.items]
                is_named = isinstance(self._root, Name) and self._root is self._tensor
                if any(map(source.is_without_grad, managers)) and not is_named:
                    return True
            if isinstance(parent, FunctionDef):
                decorators = [item.decorator for item in parent.decorators]
                is_given = source.parameter(self._tensor) is not None
                return any(map(source.is_without_grad, decorators)) and not is_given
        return False

    def _kept(self) -> BaseExpression:
        source, tensor, user = self._source, self._tensor, self._source.parent(self._call)
        names = ["detach"] if self.needs_detach else []
        if self._cast == "int" and not self._is_whole and not is_integer(tensor, source):
            names.append("long")
        if self._cast == "float" and (self._is_whole or isinstance(tensor, Comparison)):
            names.append("float")
        # A number doesn't change after it was read; a tensor that shares memory would.
        is_bare = not isinstance(user, BinaryOperation | AugAssign | UnaryOperation)
        is_named = isinstance(user, Assign | NamedExpr) or (self._spread.is_kept and is_bare)
        if is_named and not self._is_fresh(tensor):
            names.append("clone")
        kept = method_call(tensor, *names) if names else as_operand(tensor)
        is_alone = isinstance(user, Arg | Assign) and not source.spans_lines(tensor)
        return bare(kept) if is_alone else kept

    def _is_fresh(self, tensor: BaseExpression) -> bool:
        """Check whether nothing changes it in place later: it's computed there, or a variable that
        isn't changed.
        """
        source = self._source
        if isinstance(tensor, Name) and source.is_local(tensor):
            # A change under another name counts, too.
            body = known(source.around(tensor, FunctionDef)).body
            is_changed = holds(body, AugAssign) or any(map(is_in_place, calls_in(body)))
            is_changed |= any(
                isinstance(part.target, Subscript) and not _has_text_key(part.target)
                for part in find(body, AssignTarget)
            )
            values = source.set_values(tensor)
            return bool(values) and not is_changed and all(map(self._is_fresh, values))
        is_computed = isinstance(tensor, BinaryOperation | UnaryOperation | Comparison)
        is_loss = source.dotted_name(tensor).startswith("torch.nn.functional.")
        return is_computed or is_loss or source.method_name(tensor) in FRESH

    @property
    def keeps_dtype(self) -> bool:
        root, methods = self._root, self._methods
        is_made = self._cast or self._is_math or not methods or self._spread.is_kept
        if is_made or not isinstance(root, Name) or len(self._source.values(root)) != 1:
            return False
        if methods[0] not in _REDUCTIONS or not _SAME_DTYPE.issuperset(methods):
            return False
        users = map(self._source.parent, self._spread.seen)
        has_arguments = any(self._source.given_to(call) for call in self._chain)
        return not has_arguments and all(
            _is_with(user, root.value)
            for user in users
            if not isinstance(user, AssignTarget | Assign)
        )


def _has_text_key(subscript: Subscript) -> bool:
    """Check whether what is indexed can't be a tensor."""
    keys = [part.slice.value for part in subscript.slice if isinstance(part.slice, Index)]
    return any(isinstance(key, SimpleString) for key in keys)


def roots_of(place: Place) -> list[FunctionDef]:
    """Return the functions of the file on the path from what torch.compile was given."""
    around = place.source.function_of(place.statement)
    return [*([around] if isinstance(around, FunctionDef) else []), *place.path_here]


def _is_with(user: CSTNode, name: str) -> bool:
    match user:
        case BinaryOperation(operator=Add() | Subtract() | Multiply() | Divide()):
            return name in (dotted(user.left), dotted(user.right))
    return False
