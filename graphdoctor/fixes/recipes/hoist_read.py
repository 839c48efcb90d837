"""A clock, a random number or a fact about the process: read it elsewhere, or in a way that torch traces."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from graphdoctor.fixes.recipe import Edit, recipe
from graphdoctor.fixes.source.effects import is_report
from graphdoctor.fixes.source.names import (
    dotted_name,
    has_comment,
    is_local,
    is_target,
    method_name,
    reads,
    values,
)
from graphdoctor.fixes.source.place import Place, pointed
from graphdoctor.fixes.source.tree import Change, DeclinedError, SourceFile, decline_if, walk

_CLOCKS = frozenset(
    {f"time.{name}{unit}" for name in ("time", "perf_counter", "monotonic", "process_time") for unit in ("", "_ns")}
    | {f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")}
    | {"time.thread_time", "time.localtime", "time.gmtime", "time.strftime", "datetime.date.today"}
)
"""Values that differ between calls."""

_FACTS = frozenset(
    {"os.getpid", "os.cpu_count", "os.getcwd", "os.getlogin", "os.uname", "socket.gethostname", "os.path.exists"}
    | {"os.path.isfile", "os.path.isdir", "os.path.getsize", "torch.get_num_threads", "torch.initial_seed"}
)
"""Values that a process doesn't expect to change while it runs."""

_OUTPUT = frozenset({"debug", "info", "warning", "error", "log", "exception", "critical", "warn"})
"""Methods of a logger that only log."""


@recipe("GD105", "GD109", "GD100")
def hoist_read(place: Place) -> Edit:
    """Skips clocks that only feed output, or are only kept, while compiling, and reads facts once, at import.

    ``random.random()`` becomes ``random.uniform(0.0, 1.0)``, which torch traces and which draws the same number. All
    others are unsafe: the program prints less, or no longer notices a change.
    """
    source = place.source
    call = pointed(place, lambda node: isinstance(node, cst.Call), "a call")
    assert isinstance(call, cst.Call)
    name, words = dotted_name(source, call.func), f"`{source.code(call.func)}()`"
    if name == "random.random" and not call.args:
        uniform = cst.parse_expression(_beside(source, call, "uniform") + "(0.0, 1.0)")
        return Edit(
            title=f"Use `random.uniform`, which torch traces, in place of {words}",
            content=source.replaced((call, uniform), imports=_imports(call)),
            is_safe=True,
        )
    if name in _FACTS:
        return Edit(
            title=f"Call {words} once, when the module is imported",
            content=_at_import(source, call),
            is_safe=False,
        )
    if name in _CLOCKS:
        lines = _output_lines(source, call)
        is_used = any(_is_output(source, line) or _is_kept(line) for line in lines)
        what = "the lines that keep it" if any(map(_is_kept, lines)) else "the output that uses it"
        return Edit(
            title=f"Skip {words} and {what} while compiling",
            content=_guarded(source, lines),
            is_safe=False,
            drops_output=is_used,
        )
    raise DeclinedError(f"{words} can't be moved")


def _beside(source: SourceFile, call: cst.Call, name: str) -> str:
    """Another function of the same module, spelled as in the file."""
    return f"{source.code(call.func.value)}.{name}" if isinstance(call.func, cst.Attribute) else f"random.{name}"


def _imports(call: cst.Call) -> tuple[str, ...]:
    return () if isinstance(call.func, cst.Attribute) else ("random",)


def _at_import(source: SourceFile, call: cst.Call) -> bytes:
    """The file with the value in a constant above the function or class that reads it."""
    if any(argument.star or not isinstance(argument.value, cst.SimpleString) for argument in call.args):
        raise DeclinedError("its arguments are only known inside the function")
    decline_if(has_comment(call), "a comment inside it would be lost")
    assert isinstance(call.func, cst.Attribute | cst.Name)
    last = call.func.attr.value if isinstance(call.func, cst.Attribute) else call.func.value
    name = f"_{last.removeprefix('get').lstrip('_').upper()}"
    statement = list(source.parents(call))[-2]
    if not isinstance(statement, cst.FunctionDef | cst.ClassDef):
        raise DeclinedError("it isn't in a function of the module")
    decline_if(_is_imported_inside(call, statement), "its module is only imported inside the function")
    if any(isinstance(node, cst.Name) and node.value == name for node in walk(source.tree)):
        raise DeclinedError(f"the name `{name}` is already used")
    leading = list(statement.leading_lines)
    spaces = next((number for number, line in enumerate(leading) if line.comment is not None), len(leading))
    blank = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
    constant = cst.SimpleStatementLine(
        [cst.Assign([cst.AssignTarget(cst.Name(name))], call.deep_clone())], leading_lines=leading[: min(spaces, 1)]
    )
    below = statement.deep_replace(call, cst.Name(name))
    assert isinstance(below, cst.BaseStatement)
    below = below.with_changes(leading_lines=[*blank[spaces:], *leading])
    return source.replaced((statement, cst.FlattenSentinel([constant, below])))


def _is_imported_inside(call: cst.Call, statement: cst.CSTNode) -> bool:
    """Whether the module of the called function is imported inside the statement."""
    root: cst.CSTNode = call.func
    while isinstance(root, cst.Attribute):
        root = root.value
    imports = (node for node in walk(statement) if isinstance(node, cst.Import | cst.ImportFrom))
    return isinstance(root, cst.Name) and any(
        isinstance(found, cst.Name) and found.value == root.value for node in imports for found in walk(node)
    )


_Line = cst.SimpleStatementLine | cst.If


def _output_lines(source: SourceFile, call: cst.Call) -> list[_Line]:
    """The line that reads the value, and all lines that are there only for it."""
    lines: list[_Line] = []
    waiting: list[cst.CSTNode] = [call]
    seen: set[str] = set()
    while waiting:
        line = _line_of(source, waiting.pop())
        if line in lines:
            continue
        lines.append(line)
        if isinstance(line, cst.If) or _is_output(source, line):
            continue
        target = _target_of(source, line)
        if target is None:
            continue
        decline_if(not is_local(source, target), "the value is used for more than output")
        if target.value not in seen:
            seen.add(target.value)
            others = [node for node in _bindings(source, target, line) if node is not target]
            waiting += [*others, *reads(source, target)]
    here = source.function_of(call)
    decline_if(any(source.function_of(line) is not here for line in lines), "another function uses the value")
    for line in lines:
        if isinstance(line, cst.If) and any(_reads_more(source, line.test, seen)):
            raise DeclinedError("a condition on the value also depends on something else")
    inside = {node for line in lines if isinstance(line, cst.If) for node in walk(line.body)}
    return sorted((line for line in lines if line not in inside), key=lambda line: source.position(line).start.line)


def _target_of(source: SourceFile, line: cst.SimpleStatementLine) -> cst.Name | None:
    """The local name that a line sets to a value; None if it keeps the value in an object."""
    small = line.body[0]
    match small:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as target)]) if _is_arithmetic(source, small):
            return target
        case cst.AugAssign(target=cst.Name() as target) if _is_arithmetic(source, small):
            return target
        case cst.Assign() | cst.AugAssign() | cst.Expr() if _is_kept(line) and _is_arithmetic(source, small):
            if _is_duration(source, small.value):
                return None
    raise DeclinedError("the value is used for more than output")


def _is_kept(line: cst.CSTNode) -> bool:
    """``self.times["a"] = seconds``, ``times.append(seconds)``: whether a line keeps a value in an object."""
    match line:
        case cst.SimpleStatementLine(body=[cst.Assign(targets=[cst.AssignTarget(target=target)])]):
            return isinstance(target, cst.Attribute | cst.Subscript)
        case cst.SimpleStatementLine(body=[cst.AugAssign(target=target)]):
            return isinstance(target, cst.Attribute | cst.Subscript)
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call(func=cst.Attribute(attr=cst.Name("append"))))]):
            return True
    return False


def _is_duration(source: SourceFile, value: cst.BaseExpression) -> bool:
    """Whether a value is a difference of times, or made of names that are.

    A time by itself is more than a measurement: something may compare it later.
    """
    found = [node for node in walk(value) if isinstance(node, cst.Name) and is_local(source, node)]
    sources = [value, *(bound for name in found for bound in values(source, name) if bound is not None)]
    return any(
        isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract)
        for bound in sources
        for node in walk(bound)
    )


def _reads_more(source: SourceFile, test: cst.CSTNode, names: set[str]) -> Iterator[bool]:
    """For each part of a condition whether it isn't a time or a number."""
    for node in walk(test):
        if isinstance(node, cst.Call | cst.Attribute | cst.Subscript):
            yield not (isinstance(node, cst.Call) and dotted_name(source, node.func) in _CLOCKS)
        elif isinstance(node, cst.Name):
            yield node.value not in names


def _bindings(source: SourceFile, target: cst.Name, line: cst.CSTNode) -> list[cst.CSTNode]:
    scope = source.function_of(line)
    return [
        node
        for node in (walk(scope) if scope is not None else ())
        if isinstance(node, cst.Name) and node.value == target.value and is_target(source, node)
    ]


def _line_of(source: SourceFile, node: cst.CSTNode) -> _Line:
    """The line of a node, if the line is a single statement in a block; for a condition on a report, both."""
    line = next((found for found in source.parents(node) if isinstance(found, cst.BaseStatement)), None)
    if isinstance(line, cst.If) and is_report(source, line):
        parent = next(source.parents(line))
        if not (isinstance(parent, cst.If) and parent.orelse is line):
            return line
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        raise DeclinedError("a line that does more uses the value")
    return line


def _is_output(source: SourceFile, line: _Line) -> bool:
    match line:
        case cst.If():
            return True
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.Call() as call)]):
            name = dotted_name(source, call.func)
            is_logger = isinstance(call.func, cst.Attribute) and call.func.attr.value in _OUTPUT
            root = call.func.value if isinstance(call.func, cst.Attribute) else call.func
            words = source.code(root).lower()
            is_output = name in ("builtins.print", "warnings.warn") or (is_logger and "log" in words)
            return is_output and not _has_effect(call)
    return False


def _has_effect(call: cst.Call) -> bool:
    effects = cst.NamedExpr | cst.Await | cst.Yield
    return any(isinstance(node, effects) for node in walk(call))


def _is_arithmetic(source: SourceFile, small: cst.Assign | cst.AugAssign | cst.Expr) -> bool:
    """Whether the assigned or appended value calls only clocks and number functions."""
    own = small.value if isinstance(small, cst.Expr) else None
    calls = [node for node in walk(small.value) if isinstance(node, cst.Call) and node is not own]
    plain = {"builtins.round", "builtins.float", "builtins.int", "builtins.str", "builtins.abs"}
    return not any(isinstance(node, cst.NamedExpr | cst.Await) for node in walk(small.value)) and all(
        dotted_name(source, call.func) in _CLOCKS | plain or method_name(source, call) == "total_seconds"
        for call in calls
    )


def _guarded(source: SourceFile, lines: list[_Line]) -> bytes:
    """The file with lines under ``if not torch.compiler.is_compiling():``; adjacent lines share one ``if``."""
    changes: list[Change] = []
    done: set[cst.CSTNode] = set()
    for line in lines:
        if line in done:
            continue
        block = next(source.parents(line))
        body = list(block.body) if isinstance(block, cst.IndentedBlock | cst.Module) else [line]
        at = next(number for number, found in enumerate(body) if found is line)
        group = [line]
        while at + len(group) < len(body) and body[at + len(group)] in lines:
            following = body[at + len(group)]
            assert isinstance(following, _Line)
            group.append(following)
        done.update(group)
        kept = [group[0].with_changes(leading_lines=()), *(found.deep_clone() for found in group[1:])]
        guard = cst.If(
            test=cst.parse_expression("not torch.compiler.is_compiling()"),
            body=cst.IndentedBlock(kept),
            leading_lines=line.leading_lines,
        )
        changes.append((line, guard))
        changes += [(found, cst.FlattenSentinel([])) for found in group[1:]]
    return source.replaced(*changes, imports=("torch",))
