"""Which statements only record or report what was computed, what they touch, and which names may
share memory.

Names decide, so a recipe that moves a record must also compare what the statements around it touch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from graphdoctor.fixes.source.nodes import assigns_a_name, called, calls_in, name_set, set_names
from graphdoctor.fixes.source.torch_names import FRESH
from graphdoctor.fixes.source.tree import SourceFile, dotted, names_in, walk

_LOG = re.compile(r"debug|info|warn(ing)?|error|log|exception|critical")
_LOGGER = re.compile(r"log", re.IGNORECASE)
_OUTPUT = frozenset(
    {"builtins.print", "warnings.warn", "sys.stdout.write", "sys.stderr.write", "pprint.pprint"}
)
_KEEPS = frozenset({"append", "appendleft", "extend", "add", "update", "setdefault"})
"""Methods of containers that keep a value."""

_SHOWS = frozenset(
    {
        "set_postfix",
        "set_postfix_str",
        "set_description",
        "set_description_str",
        "refresh",
        "add_scalar",
    }
    | {"add_scalars", "add_histogram", "log_metric", "log_metrics", "log_dict"}
)
"""Methods of progress bars and of writers of metrics."""

_READS = frozenset({"item", "tolist"})
_CASTS = frozenset({"builtins.float", "builtins.int"})
CLOCKS = frozenset(
    f"time.{name}{unit}"
    for name in ("time", "perf_counter", "monotonic", "process_time")
    for unit in ("", "_ns")
) | {f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")}
_CONVERSION = re.compile(r"%(\(|[^a-zA-Z%]*\*)?[#0\- +]*\d*(?:\.\d+)?[hlL]?([diouxXeEfFgGcrsa%])")
_KINDS = {
    **dict.fromkeys("dioxXuc", "int"),
    **dict.fromkeys("eEfFgG", "float"),
    "s": "str",
    "r": "repr",
    "a": "repr",
}
_MUTATES = _KEEPS | {
    "clear",
    "pop",
    "popitem",
    "popleft",
    "remove",
    "discard",
    "insert",
    "sort",
    "reverse",
}


def is_output(source: SourceFile, call: cst.CSTNode) -> bool:
    """Whether a call prints, logs or warns."""
    match call:
        case cst.Call() if source.dotted_name(call) in _OUTPUT:
            return True
        case cst.Call(func=cst.Attribute(value=logger, attr=cst.Name(value=name))):
            return (
                _LOG.fullmatch(name) is not None and _LOGGER.search(source.code(logger)) is not None
            )
    return False


def conversions(call: cst.Call) -> list[str]:
    """What a logger's message makes of each argument after it: ``float`` for ``%.3f``, ``int``,
    ``str`` or ``repr``.

    Empty if the message isn't a plain string or takes arguments in another way.
    """
    message = call.args[0].value if call.args else None
    text = (
        message.evaluated_value
        if isinstance(message, cst.SimpleString | cst.ConcatenatedString)
        else None
    )
    if not isinstance(text, str) or any(
        argument.star or argument.keyword for argument in call.args[:1]
    ):
        return []
    found = [match.groups() for match in _CONVERSION.finditer(text)]
    if any(special for special, _ in found):
        return []
    return [_KINDS[letter] for _, letter in found if letter != "%"]


def reads_tensor(source: SourceFile, node: cst.CSTNode) -> bool:
    """Whether it contains a read of a tensor's value: ``x.item()``, ``x.tolist()``,
    ``float(x.mean())``.
    """
    return any(is_read(source, call) for call in calls_in(node))


def is_read(source: SourceFile, call: cst.CSTNode) -> bool:
    """Whether it is a call that reads a tensor's value."""
    match call:
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=name)), args=args) if name in _READS:
            return not args
        case cst.Call(args=[cst.Arg(value=value)]) if not isinstance(
            value, cst.BaseString | cst.BaseNumber
        ):
            return source.dotted_name(call) in _CASTS
    return False


def reads_clock(source: SourceFile, node: cst.CSTNode) -> bool:
    """Whether it contains a call of a clock."""
    return any(source.dotted_name(call) in CLOCKS for call in calls_in(node))


def smalls_under(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The small statements of a line, or of all branches of an ``if``; any other statement is one
    of them.
    """
    match node:
        case cst.If(body=body, orelse=orelse):
            for inner in (*body.body, *([orelse] if orelse is not None else [])):
                yield from smalls_under(inner)
        case cst.Else(body=body):
            for inner in body.body:
                yield from smalls_under(inner)
        case cst.SimpleStatementLine(body=smalls):
            yield from smalls
        case _:
            yield node


def is_report(source: SourceFile, statement: cst.CSTNode) -> bool:
    """Whether a statement does nothing but print, log or warn, perhaps under an ``if``."""
    return all(
        isinstance(small, cst.Expr)
        and is_output(source, small.value)
        and not assigns_a_name(small.value)
        for small in smalls_under(statement)
    )


def reports_apart(
    source: SourceFile, choice: cst.If
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """The lines of a branch that only report and can come before the others, and the others."""
    lines = [line for line in choice.body.body if isinstance(line, cst.BaseStatement)]
    reports = [line for line in lines if is_report(source, line)]
    rest = [line for line in lines if line not in reports]
    late = [line for line in reports if rest and lines.index(line) > lines.index(rest[0])]
    return ([], lines) if set_names(*rest) & name_set(*late) else (reports, rest)


def is_record(source: SourceFile, statement: cst.CSTNode) -> bool:
    """Whether a statement reports, or keeps a number that it reads from a tensor, perhaps under an
    ``if``.
    """
    return all(_is_record(source, small) for small in smalls_under(statement))


def _is_record(source: SourceFile, small: cst.CSTNode) -> bool:
    match small:
        case cst.Expr(value=cst.Call() as call):
            return is_output(source, call) or _is_kept(source, call)
        case cst.Assign(value=value) | cst.AugAssign(value=value):
            return reads_tensor(source, value)
    return isinstance(small, cst.Pass)


def _is_kept(source: SourceFile, call: cst.Call) -> bool:
    match call.func:
        case cst.Attribute(value=holder, attr=cst.Name(value=name)):
            is_bar = re.search(r"bar|tqdm|progress", source.code(holder), re.IGNORECASE) is not None
            return name in _SHOWS or (name in _KEEPS and (is_bar or reads_tensor(source, call)))
    return False


@dataclass(frozen=True)
class Touched:
    """The objects that a statement reads or changes, as dotted names, and those of them that it
    changes.
    """

    read: frozenset[str]
    changed: frozenset[str]

    def conflicts(self, later: Touched) -> bool:
        """Whether the two statements can't change places."""
        return bool(self.changed & later.read or self.read & later.changed)

    def shared(self, groups: Mapping[str, frozenset[str]]) -> Touched:
        """The same, under every name that the changed objects may have; ``groups`` as of
        ``sharing``.
        """
        changed = self.changed.union(*(groups.get(name, ()) for name in self.changed))
        return Touched(self.read | changed, changed)

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
            case (
                cst.AssignTarget(target=target)
                | cst.AugAssign(target=target)
                | cst.AnnAssign(target=target)
            ):
                changed.update(_changed(target, owner))
            case cst.Call(func=cst.Attribute(value=value, attr=cst.Name(value=name))):
                if name in _MUTATES | _SHOWS or (name.endswith("_") and not name.endswith("__")):
                    changed.update(_root(value, owner))
            case cst.Del(target=target):
                changed.update(_changed(target, owner))
    return Touched(read | changed, frozenset(changed))


def reaching(
    source: SourceFile, function: cst.FunctionDef, owner: str | None, found: Touched
) -> Touched:
    """What is touched, with the attributes of the object that its methods touch."""
    around = source.class_of(function)
    if around is None or owner is None:
        return found
    methods = {
        node.name.value: node for node in around.body.body if isinstance(node, cst.FunctionDef)
    }
    seen: set[str] = set()
    waiting = [name.removeprefix(f"{owner}.") for name in found.read]
    while waiting:
        name = waiting.pop()
        if name in seen or name not in methods:
            continue
        seen.add(name)
        inside = touched(methods[name].body, owner)
        own = frozenset(path for path in inside.read if path.startswith(f"{owner}."))
        waiting += [path.removeprefix(f"{owner}.") for path in own]
        found = found.joined(Touched(own, inside.changed & own))
    return found


def _changed(target: cst.BaseExpression, owner: str | None) -> Iterator[str]:
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
        if (
            name is not None
            and owner is not None
            and name.count(".") == 1
            and name.startswith(f"{owner}.")
        ):
            yield name
            return
        node = node.func if isinstance(node, cst.Call) else node.value
    if isinstance(node, cst.Name):
        yield node.value


def _objects(node: cst.CSTNode, owner: str | None) -> Iterator[str]:
    for found in walk(node):
        if (
            isinstance(found, cst.Attribute)
            and isinstance(found.value, cst.Name)
            and found.value.value == owner
        ):
            yield f"{owner}.{found.attr.value}"
    yield from (name.value for name in names_in(node) if name.value != owner)


_PASSING = frozenset(
    f"builtins.{name}" for name in ("enumerate", "list", "reversed", "sorted", "tuple", "zip")
)
"""Functions whose results hold what they are given."""
_FRESH_BUILTINS = frozenset(
    f"builtins.{name}" for name in ("bool", "float", "int", "len", "range", "repr", "str")
)


def sharing(
    source: SourceFile, statements: Sequence[cst.CSTNode], owner: str | None
) -> dict[str, frozenset[str]]:
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
            case cst.Call(func=cst.Attribute(value=holder, attr=cst.Name(value=name))) if (
                name not in FRESH
            ):
                # What is appended to a list is in the list.
                yield from ((holder, argument.value) for argument in node.args)


def _old(
    source: SourceFile, value: cst.BaseExpression, owner: str | None
) -> Iterator[cst.BaseExpression]:
    """The parts of a value that it may be, contain or share memory with."""
    match value:
        case (
            cst.BinaryOperation()
            | cst.UnaryOperation()
            | cst.Comparison()
            | cst.BaseNumber()
            | cst.BaseString()
        ):
            return
        case cst.Call() if _is_fresh(source, value, owner):
            return
        case cst.Call(args=args) if source.dotted_name(value) in _PASSING:
            for argument in args:
                yield from _old(source, argument.value, owner)
        case _:
            yield value


def _is_fresh(source: SourceFile, call: cst.Call, owner: str | None) -> bool:
    name = source.dotted_name(call.func)
    if name:
        return name in _FRESH_BUILTINS or (name.startswith("torch.") and called(call) in FRESH)
    match call.func:
        # `self.norm(x)` is a layer.
        case cst.Attribute(value=value):
            return called(call) in FRESH and not (
                isinstance(value, cst.Name) and value.value == owner
            )
    return False
