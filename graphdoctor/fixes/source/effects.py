"""Which statements only record or report what was computed, and what they touch; names decide."""

from __future__ import annotations

import re
from collections.abc import Iterator

from libcst import (
    Arg,
    Attribute,
    BaseNumber,
    BaseStatement,
    BaseString,
    Call,
    CSTNode,
    Else,
    Expr,
    If,
    Name,
    NamedExpr,
    SimpleStatementLine,
)

from graphdoctor.fixes.source.nodes import calls_in, name_set, set_names
from graphdoctor.fixes.source.torch_names import words
from graphdoctor.fixes.source.tree import SourceFile, decline_if, find, holds

_LOG = re.compile(r"(debug|info|warn(ing)?|error|log|exception|critical)(_once)?")
_LOGGER = re.compile(r"log", re.IGNORECASE)
_OUTPUT = words("""
    builtins.print warnings.warn sys.stdout.write sys.stderr.write pprint.pprint wandb.log
    mlflow.log_metric mlflow.log_metrics
""")
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
