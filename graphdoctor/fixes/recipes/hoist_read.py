"""A clock, a random number or a fact about the process read inside: read it elsewhere, or in a way torch traces."""

from __future__ import annotations

from typing import ClassVar

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.bindings import (
    dotted_name,
    has_comment,
    is_local,
    is_target,
    method_name,
    reads,
)
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.place import Place, pointed
from graphdoctor.fixes.syntax.source import Change, SourceFile, walk

_CLOCKS = frozenset(
    {f"time.{name}{unit}" for name in ("time", "perf_counter", "monotonic", "process_time") for unit in ("", "_ns")}
    | {f"datetime.datetime.{name}" for name in ("now", "utcnow", "today")}
    | {"time.thread_time", "time.localtime", "time.gmtime", "time.strftime", "datetime.date.today"}
)
"""Readings that differ from call to call."""

_FACTS = frozenset(
    {"os.getpid", "os.cpu_count", "os.getcwd", "os.getlogin", "os.uname", "socket.gethostname", "os.path.exists"}
    | {"os.path.isfile", "os.path.isdir", "os.path.getsize", "torch.get_num_threads", "torch.initial_seed"}
)
"""Readings that a process does not expect to change while it runs."""

_OUTPUT = frozenset({"debug", "info", "warning", "error", "log", "exception", "critical", "warn"})
"""Methods of a logger that only speak."""


class HoistRead(Recipe):
    """Reads that only feed output are skipped while compiling, facts are read once when the module is imported.

    ``random.random()`` becomes ``random.uniform(0.0, 1.0)``, which torch traces and which draws the same number. All
    but that are unsafe: the program prints less, or notices a change no longer.
    """

    name: ClassVar = "hoist-read"
    codes: ClassVar = frozenset({"GD105", "GD109", "GD100"})

    def edit(self, place: Place) -> Edit:
        """The read elsewhere, or as one that torch traces.

        Raises:
            DeclinedError: What is read matters for what is computed.
        """
        source = place.source
        call = pointed(place, lambda node: isinstance(node, cst.Call), "a call")
        assert isinstance(call, cst.Call)
        name, words = dotted_name(source, call.func), f"`{source.code(call.func)}()`"
        if name == "random.random" and not call.args:
            uniform = cst.parse_expression(_beside(source, call, "uniform") + "(0.0, 1.0)")
            return Edit(
                title=f"Draw the number of {words} with `random.uniform`, which torch traces",
                content=source.replaced((call, uniform), imports=_imports(call)),
                is_safe=True,
            )
        if name in _FACTS:
            return Edit(
                title=f"Read {words} once, when the module is imported",
                content=_at_import(source, call),
                is_safe=False,
            )
        if name in _CLOCKS:
            lines = _speaking_lines(source, call)
            is_spoken = any(_is_output(source, line) for line in lines)
            return Edit(
                title=f"Skip {words} and what is said about it while compiling",
                content=_guarded(source, lines),
                is_safe=False,
                drops_output=is_spoken,
            )
        raise DeclinedError(f"no other place is known for {words}")


def _beside(source: SourceFile, call: cst.Call, name: str) -> str:
    """Another function of the same module, as the file names the module."""
    return f"{source.code(call.func.value)}.{name}" if isinstance(call.func, cst.Attribute) else f"random.{name}"


def _imports(call: cst.Call) -> tuple[str, ...]:
    return () if isinstance(call.func, cst.Attribute) else ("random",)


def _at_import(source: SourceFile, call: cst.Call) -> bytes:
    """The file with the value in a constant above the statement that reads it."""
    if any(argument.star or not isinstance(argument.value, cst.SimpleString) for argument in call.args):
        raise DeclinedError("what it is asked about is known inside only")
    if has_comment(call):
        raise DeclinedError("a comment stands in the middle of it")
    assert isinstance(call.func, cst.Attribute | cst.Name)
    last = call.func.attr.value if isinstance(call.func, cst.Attribute) else call.func.value
    name = f"_{last.removeprefix('get').lstrip('_').upper()}"
    statement = list(source.parents(call))[-2]
    if not isinstance(statement, cst.FunctionDef | cst.ClassDef):
        raise DeclinedError("it is in no function of the module")
    if _is_imported_inside(call, statement):
        raise DeclinedError("its module is imported inside only")
    if any(isinstance(node, cst.Name) and node.value == name for node in walk(source.tree)):
        raise DeclinedError(f"the name `{name}` is taken")
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
    """The module that is asked is imported within the function."""
    root: cst.CSTNode = call.func
    while isinstance(root, cst.Attribute):
        root = root.value
    imports = (node for node in walk(statement) if isinstance(node, cst.Import | cst.ImportFrom))
    return isinstance(root, cst.Name) and any(
        isinstance(found, cst.Name) and found.value == root.value for node in imports for found in walk(node)
    )


def _speaking_lines(source: SourceFile, call: cst.Call) -> list[cst.SimpleStatementLine]:
    """The line that reads, and all that are there for the reading alone.

    Raises:
        DeclinedError: Something else depends on the reading.
    """
    lines: list[cst.SimpleStatementLine] = []
    waiting: list[cst.CSTNode] = [call]
    seen: set[str] = set()
    while waiting:
        line = _line_of(source, waiting.pop())
        if line in lines:
            continue
        lines.append(line)
        small = line.body[0]
        if _is_output(source, line):
            continue
        match small:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as target)]) if _is_arithmetic(source, small):
                pass
            case cst.AugAssign(target=cst.Name() as target) if _is_arithmetic(source, small):
                pass
            case _:
                raise DeclinedError("more than output depends on what is read")
        if not is_local(source, target):
            raise DeclinedError("more than output depends on what is read")
        if target.value not in seen:
            seen.add(target.value)
            others = [node for node in _bindings(source, target, line) if node is not target]
            waiting += [*others, *reads(source, target)]
    here = source.function_of(call)
    if any(source.function_of(line) is not here for line in lines):
        raise DeclinedError("another function uses what is read")
    return sorted(lines, key=lambda line: source.position(line).start.line)


def _bindings(source: SourceFile, target: cst.Name, line: cst.SimpleStatementLine) -> list[cst.CSTNode]:
    """Other places that set the variable."""
    scope = source.function_of(line)
    return [
        node
        for node in (walk(scope) if scope is not None else ())
        if isinstance(node, cst.Name) and node.value == target.value and is_target(source, node)
    ]


def _line_of(source: SourceFile, node: cst.CSTNode) -> cst.SimpleStatementLine:
    """The line of a node, which holds one statement that stands in a block.

    Raises:
        DeclinedError: It stands elsewhere.
    """
    line = next((found for found in source.parents(node) if isinstance(found, cst.BaseStatement)), None)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        raise DeclinedError("a line that holds more than that uses what is read")
    return line


def _is_output(source: SourceFile, line: cst.SimpleStatementLine) -> bool:
    """The line only prints, logs or warns."""
    match line.body[0]:
        case cst.Expr(value=cst.Call() as call):
            name = dotted_name(source, call.func)
            is_logger = isinstance(call.func, cst.Attribute) and call.func.attr.value in _OUTPUT
            root = call.func.value if isinstance(call.func, cst.Attribute) else call.func
            words = source.code(root).lower()
            is_output = name in ("builtins.print", "warnings.warn") or (is_logger and "log" in words)
            return is_output and not _has_effect(call)
    return False


def _has_effect(call: cst.Call) -> bool:
    """An argument binds a name or waits for something."""
    effects = cst.NamedExpr | cst.Await | cst.Yield
    return any(isinstance(node, effects) for node in walk(call))


def _is_arithmetic(source: SourceFile, small: cst.Assign | cst.AugAssign) -> bool:
    """What is set calls nothing but clocks and numbers."""
    calls = [node for node in walk(small.value) if isinstance(node, cst.Call)]
    plain = {"builtins.round", "builtins.float", "builtins.int", "builtins.str", "builtins.abs"}
    return not any(isinstance(node, cst.NamedExpr | cst.Await) for node in walk(small.value)) and all(
        dotted_name(source, call.func) in _CLOCKS | plain or method_name(source, call) == "total_seconds"
        for call in calls
    )


def _guarded(source: SourceFile, lines: list[cst.SimpleStatementLine]) -> bytes:
    """The file with lines under ``if not torch.compiler.is_compiling():``, neighbours under one of them."""
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
            assert isinstance(following, cst.SimpleStatementLine)
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
