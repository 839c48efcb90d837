"""Which statements only record or report what was computed, what they touch, and which names may share memory.

Comes in: statements of a function. Goes out: whether a statement is a record (it logs, prints, warns, or keeps a number
that it reads from a tensor), the objects that it reads and changes, and for each name the others that a change in place
of it may change too. Nothing is run; names decide, so a recipe that moves a record must also compare what the
statements around it touch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from graphdoctor.fixes.source.names import called, dotted, dotted_name, names_in
from graphdoctor.fixes.source.tree import SourceFile, walk

_LOG = re.compile(r"debug|info|warn(ing)?|error|log|exception|critical")
_LOGGER = re.compile(r"log", re.IGNORECASE)
_OUTPUT = frozenset({"builtins.print", "warnings.warn", "sys.stdout.write", "sys.stderr.write", "pprint.pprint"})
_KEEPS = frozenset({"append", "appendleft", "extend", "add", "update", "setdefault"})
"""Methods of containers that keep a value."""

_SHOWS = frozenset(
    {"set_postfix", "set_postfix_str", "set_description", "set_description_str", "refresh", "add_scalar"}
    | {"add_scalars", "add_histogram", "log_metric", "log_metrics", "log_dict"}
)
"""Methods of progress bars and of writers of metrics."""

_READS = frozenset({"item", "tolist"})
_CASTS = frozenset({"builtins.float", "builtins.int"})
_CLOCK = re.compile(r"time\.(time|perf_counter|monotonic|process_time)(_ns)?|datetime\.datetime\.(now|utcnow|today)")
_CONVERSION = re.compile(r"%(\(|[^a-zA-Z%]*\*)?[#0\- +]*\d*(?:\.\d+)?[hlL]?([diouxXeEfFgGcrsa%])")
_KINDS = {**dict.fromkeys("dioxXuc", "int"), **dict.fromkeys("eEfFgG", "float"), "s": "str", "r": "repr", "a": "repr"}
_MUTATES = _KEEPS | {"clear", "pop", "popitem", "popleft", "remove", "discard", "insert", "sort", "reverse"}


def is_output(source: SourceFile, call: cst.BaseExpression) -> bool:
    """Whether a call prints, logs or warns."""
    if not isinstance(call, cst.Call):
        return False
    if dotted_name(source, call.func) in _OUTPUT:
        return True
    match call.func:
        case cst.Attribute(value=logger, attr=cst.Name(value=name)):
            return _LOG.fullmatch(name) is not None and _LOGGER.search(source.code(logger)) is not None
    return False


def conversions(call: cst.Call) -> list[str]:
    """What a logger's message makes of each argument after it: ``float`` for ``%.3f``, ``int``, ``str`` or ``repr``.

    Empty if the message isn't a plain string or takes arguments in another way.
    """
    message = call.args[0].value if call.args else None
    text = message.evaluated_value if isinstance(message, cst.SimpleString | cst.ConcatenatedString) else None
    if not isinstance(text, str) or any(argument.star or argument.keyword for argument in call.args[:1]):
        return []
    found = [match.groups() for match in _CONVERSION.finditer(text)]
    if any(special for special, _ in found):
        return []
    return [_KINDS[letter] for _, letter in found if letter != "%"]


def reads_tensor(source: SourceFile, node: cst.CSTNode) -> bool:
    """Whether it contains a read of a tensor's value: ``x.item()``, ``x.tolist()``, ``float(x.mean())``."""
    return any(isinstance(found, cst.Call) and is_read(source, found) for found in walk(node))


def is_read(source: SourceFile, call: cst.Call) -> bool:
    """Whether a call reads a tensor's value."""
    if isinstance(call.func, cst.Attribute) and call.func.attr.value in _READS:
        return not call.args
    is_literal = len(call.args) == 1 and isinstance(call.args[0].value, cst.BaseString | cst.BaseNumber)
    return len(call.args) == 1 and not is_literal and dotted_name(source, call.func) in _CASTS


def reads_clock(source: SourceFile, node: cst.CSTNode) -> bool:
    """Whether it contains a call of a clock."""
    calls = (found for found in walk(node) if isinstance(found, cst.Call))
    return any(_CLOCK.fullmatch(dotted_name(source, call.func)) for call in calls)


def is_report(source: SourceFile, statement: cst.CSTNode) -> bool:
    """Whether a statement does nothing but print, log or warn, perhaps under an ``if``."""
    match statement:
        case cst.If(body=body, orelse=orelse):
            rest = orelse.body.body if isinstance(orelse, cst.Else) else [orelse] if orelse is not None else []
            return all(is_report(source, inner) for inner in [*body.body, *rest])
        case cst.SimpleStatementLine(body=smalls):
            return all(is_report(source, small) for small in smalls)
        case cst.Expr(value=cst.Call() as call):
            return is_output(source, call) and not any(isinstance(node, cst.NamedExpr) for node in walk(call))
    return False


def skipped_while_compiling(test: cst.BaseExpression, lines: Sequence[cst.BaseStatement]) -> cst.If:
    """Lines under ``if not torch.compiler.is_compiling() and test:``, which doesn't look at the test in a graph."""
    guard = cst.parse_expression("not torch.compiler.is_compiling()")
    tested = test.deep_clone()
    is_loose = isinstance(tested, cst.IfExp | cst.Lambda | cst.NamedExpr) or (
        isinstance(tested, cst.BooleanOperation) and isinstance(tested.operator, cst.Or)
    )
    if is_loose and not tested.lpar:
        tested = tested.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    body = cst.IndentedBlock([line.deep_clone() for line in lines])
    return cst.If(cst.BooleanOperation(guard, cst.And(), tested), body)


def is_record(source: SourceFile, statement: cst.CSTNode) -> bool:
    """Whether a statement reports, or keeps a number that it reads from a tensor, perhaps under an ``if``."""
    match statement:
        case cst.If(body=body, orelse=orelse):
            rest = orelse.body.body if isinstance(orelse, cst.Else) else [orelse] if orelse is not None else []
            return all(is_record(source, inner) for inner in [*body.body, *rest])
        case cst.SimpleStatementLine(body=[small]):
            return is_record(source, small)
        case cst.Expr(value=cst.Call() as call):
            return is_output(source, call) or _is_kept(source, call)
        case cst.Assign(value=value) | cst.AugAssign(value=value):
            return reads_tensor(source, value)
        case cst.Pass():
            return True
    return False


def _is_kept(source: SourceFile, call: cst.Call) -> bool:
    if not isinstance(call.func, cst.Attribute):
        return False
    name = call.func.attr.value
    return name in _SHOWS or (name in _KEEPS and (reads_tensor(source, call) or _is_bar(source, call.func.value)))


def _is_bar(source: SourceFile, node: cst.CSTNode) -> bool:
    return re.search(r"bar|tqdm|progress", source.code(node), re.IGNORECASE) is not None


@dataclass(frozen=True)
class Touched:
    """The objects that a statement reads and changes, as dotted names: ``self.history``, ``losses``.

    Args:
        read: What it reads or changes.
        changed: What it changes: sets, appends to, and so on.
    """

    read: frozenset[str]
    changed: frozenset[str]

    def conflicts(self, later: Touched) -> bool:
        """Whether the two statements can't change places."""
        return bool(self.changed & later.read or self.read & later.changed)

    def joined(self, other: Touched) -> Touched:
        """What both touch."""
        return Touched(self.read | other.read, self.changed | other.changed)


def touched(node: cst.CSTNode, owner: str | None) -> Touched:
    """What a statement touches beyond local names that it binds."""
    read = frozenset(_objects(node, owner))
    changed = set[str]()
    for found in walk(node):
        match found:
            case cst.AugAssign(target=cst.Name(value=name)):
                changed.add(name)
            case cst.AssignTarget(target=target) | cst.AugAssign(target=target) | cst.AnnAssign(target=target):
                changed.update(_changed(target, owner))
            case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(value=name))):
                if name in _MUTATES | _SHOWS or (name.endswith("_") and not name.endswith("__")):
                    changed.update(_root(value, owner))
            case cst.Del(target=target):
                changed.update(_changed(target, owner))
    return Touched(read | changed, frozenset(changed))


def _changed(target: cst.BaseExpression, owner: str | None) -> Iterator[str]:
    """The objects that an assignment to a target changes, without local names that it only binds."""
    match target:
        case cst.Name():
            return
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            for element in elements:
                yield from _changed(element.value, owner)
        case cst.Attribute() | cst.Subscript() | cst.Call():
            yield from _root(target, owner)
        case _:
            yield from _objects(target, owner)


def _root(node: cst.BaseExpression, owner: str | None) -> Iterator[str]:
    while isinstance(node, cst.Attribute | cst.Subscript | cst.Call):
        name = dotted(node)
        if name is not None and owner is not None and name.count(".") == 1 and name.startswith(f"{owner}."):
            yield name
            return
        node = node.func if isinstance(node, cst.Call) else node.value
    if isinstance(node, cst.Name):
        yield node.value


def _objects(node: cst.CSTNode, owner: str | None) -> Iterator[str]:
    for found in walk(node):
        if isinstance(found, cst.Attribute) and isinstance(found.value, cst.Name) and found.value.value == owner:
            yield f"{owner}.{found.attr.value}"
    yield from (name.value for name in names_in(node) if name.value != owner)


_FRESH = frozenset(
    {"abs", "all", "amax", "amin", "any", "argmax", "argmin", "cat", "clamp", "clone", "cos", "cumsum", "dim", "div"}
    | {"eq", "exp", "ge", "gelu", "gt", "isfinite", "isinf", "isnan", "item", "le", "log", "log_softmax", "lt"}
    | {"masked_fill", "matmul", "max", "mean", "median", "min", "mm", "mul", "ne", "neg", "norm", "numel", "ones_like"}
    | {"pow", "prod", "rsqrt", "sigmoid", "sign", "sin", "size", "softmax", "sqrt", "stack", "std", "sub", "sum"}
    | {"tanh", "tolist", "topk", "tril", "triu", "var", "where", "zeros_like"}
)
"""Functions of torch and methods of tensors whose results share no memory with what they are given."""

_FRESH_BUILTINS = frozenset(f"builtins.{name}" for name in ("bool", "float", "int", "len", "range", "repr", "str"))


def sharing(source: SourceFile, statements: Sequence[cst.CSTNode], owner: str | None) -> dict[str, frozenset[str]]:
    """The names that may share memory, by name; ``self.cache`` is a name like any other."""
    groups: dict[str, set[str]] = {}
    for statement in statements:
        for target, value in _bindings(statement):
            shared = {
                *_objects(target, owner),
                *(name for part in _old(source, value, owner) for name in _objects(part, owner)),
            }
            merged = set().union(shared, *(groups.get(name, ()) for name in shared))
            groups.update(dict.fromkeys(merged, merged))
    return {name: frozenset(group) for name, group in groups.items()}


def _bindings(statement: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.BaseExpression]]:
    for node in walk(statement):
        match node:
            case cst.Assign(targets=targets, value=value):
                yield from ((target.target, value) for target in targets)
            case cst.AnnAssign(target=target, value=cst.BaseExpression() as value):
                yield target, value
            case cst.NamedExpr(target=target, value=value) | cst.For(target=target, iter=value):
                yield target, value
            case cst.WithItem(item=value, asname=cst.AsName(name=target)):
                yield target, value
            case cst.Call(func=cst.Attribute(value=holder, attr=cst.Name(value=name))) if name not in _FRESH:
                # What is appended to a list is in the list.
                yield from ((holder, argument.value) for argument in node.args)


def _old(source: SourceFile, value: cst.BaseExpression, owner: str | None) -> Iterator[cst.BaseExpression]:
    """The parts of a value that it may be, contain or share memory with."""
    match value:
        case cst.BinaryOperation() | cst.UnaryOperation() | cst.Comparison() | cst.BaseNumber() | cst.BaseString():
            return
        case cst.Call() if _is_fresh(source, value, owner):
            return
        case _:
            yield value


def _is_fresh(source: SourceFile, call: cst.Call, owner: str | None) -> bool:
    name = dotted_name(source, call.func)
    if name:
        return name in _FRESH_BUILTINS or (name.startswith("torch.") and called(call) in _FRESH)
    match call.func:
        # `self.norm(x)` is a layer.
        case cst.Attribute(value=value):
            return called(call) in _FRESH and not (isinstance(value, cst.Name) and value.value == owner)
    return False
