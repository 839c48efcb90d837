"""Which statements only record or report what was computed, and what they touch; names decide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from libcst import (
    AnnAssign,
    Arg,
    AsName,
    Assign,
    AssignTarget,
    Attribute,
    AugAssign,
    BaseExpression,
    BaseNumber,
    BaseStatement,
    BaseString,
    BinaryOperation,
    Call,
    Comparison,
    CSTNode,
    Del,
    Else,
    Expr,
    For,
    If,
    List,
    Name,
    NamedExpr,
    SimpleStatementLine,
    Subscript,
    Tuple,
    UnaryOperation,
    WithItem,
)

from graphdoctor.fixes.source.nodes import called, calls_in, name_set, set_names
from graphdoctor.fixes.source.torch_names import FRESH, words
from graphdoctor.fixes.source.tree import (
    SourceFile,
    decline_if,
    dotted,
    find,
    holds,
    names_in,
    walk,
)

_LOG = re.compile(r"(debug|info|warn(ing)?|error|log|exception|critical)(_once)?")
_LOGGER = re.compile(r"log", re.IGNORECASE)
_OUTPUT = words("""
    builtins.print warnings.warn sys.stdout.write sys.stderr.write pprint.pprint wandb.log
    mlflow.log_metric mlflow.log_metrics
""")
_KEEPS = words("append appendleft extend add update setdefault")
"""Methods of containers that keep a value."""

SHOWS = words("""
    set_postfix set_postfix_str set_description set_description_str refresh add_scalar add_scalars
    add_histogram log_metric log_metrics log_dict
""")
"""Methods of progress bars and of writers of metrics."""

_CASTS = words("float int", "builtins.")
CLOCKS = (
    words("time perf_counter monotonic process_time", "time.")
    | words("time_ns perf_counter_ns monotonic_ns process_time_ns", "time.")
    | words("now utcnow today", "datetime.datetime.")
)

_MUTATES = _KEEPS | words("clear pop popitem popleft remove discard insert sort reverse")


def is_output(source: SourceFile, call: CSTNode) -> bool:
    """Check whether a call prints, logs or warns."""
    match call:
        case Call() if source.dotted_name(call) in _OUTPUT:
            return True
        case Call(func=Attribute(value=logger, attr=Name(value=name))) if _LOG.fullmatch(name):
            return _LOGGER.search(source.code(logger)) is not None
    return False


def refuse_lost_warning(source: SourceFile, *nodes: CSTNode) -> None:
    """Decline to leave out a warning while compiling: nobody would see it again."""
    calls = (call for node in nodes for call in find(node, Call))
    is_warning = any(source.dotted_name(call) == "warnings.warn" for call in calls)
    decline_if(is_warning, "a warning would be lost while compiling")


def reads_tensor(source: SourceFile, node: CSTNode) -> bool:
    """Check for a read of a tensor's value: ``x.item()``, ``x.tolist()``, ``float(x.mean())``."""
    return any(is_read(source, call) for call in calls_in(node))


def is_read(source: SourceFile, call: CSTNode) -> bool:
    """Check whether a node is a call that reads a tensor's value."""
    match call:
        case Call(func=Attribute(attr=Name(value="item" | "tolist")), args=args):
            return not args
        case Call(args=[Arg(value=value)]) if not isinstance(value, BaseString | BaseNumber):
            return source.dotted_name(call) in _CASTS
    return False


def smalls_under(node: CSTNode) -> Iterator[CSTNode]:
    """Iterate over the small statements of a line, or of all branches of an ``if``; any other
    statement is one of them.
    """
    match node:
        case If(body=body) | Else(body=body):
            orelse = getattr(node, "orelse", None)
            for inner in (*body.body, *([orelse] if orelse is not None else [])):
                yield from smalls_under(inner)
        case SimpleStatementLine(body=smalls):
            yield from smalls
        case _:
            yield node


def is_report(source: SourceFile, statement: CSTNode) -> bool:
    """Check whether a statement only prints, logs or warns, perhaps under an ``if``."""
    return all(
        isinstance(small, Expr)
        and is_output(source, small.value)
        and not holds(small.value, NamedExpr)
        for small in smalls_under(statement)
    )


def reports_apart(
    source: SourceFile, choice: If
) -> tuple[list[BaseStatement], list[BaseStatement]]:
    """Split the lines of a branch into those that only report and can come first, and the
    others.
    """
    lines = [line for line in choice.body.body if isinstance(line, BaseStatement)]
    reports = [line for line in lines if is_report(source, line)]
    rest = [line for line in lines if line not in reports]
    late = [line for line in reports if rest and lines.index(line) > lines.index(rest[0])]
    return ([], lines) if set_names(*rest) & name_set(*late) else (reports, rest)


def changed_by(node: CSTNode, owner: str | None) -> set[str]:
    """Return the objects that a statement changes, as dotted names, beyond local names that it
    binds.
    """
    changed = set[str]()
    for part in walk(node):
        match part:
            case AugAssign(target=Name(value=name)):
                changed.add(name)
            case (
                AssignTarget(target=target)
                | AugAssign(target=target)
                | AnnAssign(target=target)
                | Del(target=target)
            ):
                changed.update(_changed(target, owner))
            case Call(func=Attribute(value=value, attr=Name(value=name))):
                if name in _MUTATES | SHOWS or (name.endswith("_") and not name.endswith("__")):
                    changed.update(_root(value, owner))
    return changed


def _changed(target: BaseExpression, owner: str | None) -> Iterator[str]:
    match target:
        case Name():
            return
        case Tuple(elements=elements) | List(elements=elements):
            for element in elements:
                yield from _changed(element.value, owner)
        case Attribute() | Subscript() | Call():
            yield from _root(target, owner)
        case _:
            yield from _objects(target, owner)


def _root(node: BaseExpression, owner: str | None) -> Iterator[str]:
    while isinstance(node, Attribute | Subscript | Call):
        path = (dotted(node) or "").split(".")
        if len(path) == 2 and path[0] == owner:
            yield ".".join(path)
            return
        node = node.func if isinstance(node, Call) else node.value
    if isinstance(node, Name):
        yield node.value


def _objects(node: CSTNode, owner: str | None) -> Iterator[str]:
    for part in walk(node):
        match part:
            case Attribute(value=Name(value=name), attr=attr) if name == owner:
                yield f"{owner}.{attr.value}"
    yield from (name.value for name in names_in(node) if name.value != owner)


_PASSING = words("enumerate list max min reversed sorted tuple zip", "builtins.")
"""Functions whose results are or hold what they are given."""

_FRESH_BUILTINS = words("bool float int len range repr str", "builtins.")


def sharing(
    source: SourceFile, statements: Sequence[CSTNode], owner: str | None
) -> dict[str, frozenset[str]]:
    """Return the names that may share memory, by name; ``self.cache`` is a name like any other."""
    groups: dict[str, set[str]] = {}
    for statement in statements:
        for target, value in _bindings(statement):
            parts = [target, *_old(source, value, owner)]
            shared = {name for part in parts for name in _objects(part, owner)}
            merged = set().union(shared, *(groups.get(name, ()) for name in shared))
            groups.update(dict.fromkeys(merged, merged))
    return {name: frozenset(group) for name, group in groups.items()}


def _bindings(statement: CSTNode) -> Iterator[tuple[CSTNode, BaseExpression]]:
    for node in walk(statement):
        match node:
            case Assign(targets=targets, value=value):
                yield from ((target.target, value) for target in targets)
            case (
                AnnAssign(target=target, value=BaseExpression() as value)
                | NamedExpr(target=target, value=value)
                | For(target=target, iter=value)
                | WithItem(item=value, asname=AsName(name=target))
            ):
                yield target, value
            case Call(func=Attribute(value=holder, attr=Name(value=name))) if name not in FRESH:
                # What is appended to a list is in the list.
                yield from ((holder, argument.value) for argument in node.args)


def _old(source: SourceFile, value: BaseExpression, owner: str | None) -> Iterator[BaseExpression]:
    """Iterate over the parts of a value that it may be, contain or share memory with."""
    match value:
        case BinaryOperation() | UnaryOperation() | Comparison() | BaseNumber() | BaseString():
            return
        case Call() if _is_fresh(source, value, owner):
            return
        case Call(args=args) if source.dotted_name(value) in _PASSING:
            for argument in args:
                yield from _old(source, argument.value, owner)
        case _:
            yield value


def _is_fresh(source: SourceFile, call: Call, owner: str | None) -> bool:
    if name := source.dotted_name(call.func):
        return name in _FRESH_BUILTINS or (name.startswith("torch.") and called(call) in FRESH)
    # `self.norm(x)` is a layer.
    is_method = isinstance(call.func, Attribute) and dotted(call.func.value) != owner
    return is_method and called(call) in FRESH
