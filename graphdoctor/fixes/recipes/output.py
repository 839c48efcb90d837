"""Output, clocks and facts about the process: skip them while torch compiles, or read them
elsewhere.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

import libcst as cst

from graphdoctor.fixes.recipe import Edit, Place, Recipe, edit_without, recipe
from graphdoctor.fixes.source.branches import is_elif
from graphdoctor.fixes.source.effects import CLOCKS, is_output, is_report, reports_apart
from graphdoctor.fixes.source.nodes import (
    after_lines,
    alone,
    assigned,
    assigns_a_name,
    below_new,
    called,
    calls_in,
    enclosed,
    expression,
    has_comment,
    is_in_place,
    lines_of,
    name_set,
    refuse_lost_comments,
    skipped_while_compiling,
    targets_of,
)
from graphdoctor.fixes.source.tree import (
    Change,
    DeclinedError,
    SourceFile,
    decline_if,
    names_in,
    need,
    only,
    walk,
)

_QUERY = re.compile(r"(is|has|get|set|add|remove)")
"""Methods of a logger that return something or configure it: skipping them changes what the program
does."""

_CHANGES = re.compile(
    r"next|pop\w*|append\w*|extend|insert|add_?|update|setdefault|send|read\w*|write|get_nowait|step"
)
"""Calls in an argument that change something: skipping them changes what the program does."""

_NAMES = "the condition assigns a name"
_ELIF = "the condition belongs to an `elif`"


@recipe("GD101", "GD105")
def guard_output(place: Place) -> Edit:
    """``print(x)`` becomes ``if not torch.compiler.is_compiling(): print(x)``.

    Safe for output, because no result depends on it. Unsafe for other calls, which may do work that
    the program needs. Either way, the compiled program prints or does less.
    """
    source, statement, is_log = place.source, place.statement, place.finding.code == "GD101"
    if isinstance(statement, cst.If) and isinstance(statement.body, cst.SimpleStatementSuite):
        # `if verbose: print(x)` on one line.
        more = "the line contains more than the call"
        decline_if(statement.orelse is not None, more)
        call = _bare_call(place, only(statement.body.body, more))
        test = enclosed(statement.test, (cst.Comparison, cst.UnaryOperation))
        guard = cst.parse_expression("not torch.compiler.is_compiling()")
        change: Change = statement.test, cst.BooleanOperation(test.deep_clone(), cst.And(), guard)
    else:
        call, change = _guarded_line(place)
    name = source.code(call.func)
    decline_if(is_log and _QUERY.match(name.rpartition(".")[2]), f"`{name}` may do more than log")
    inner = [called(node) for argument in call.args for node in calls_in(argument.value)]
    is_safe = is_log and not any(map(_CHANGES.fullmatch, inner))
    return place.edit(
        f"Skip `{name}(…)` while compiling", change, is_safe=is_safe, drops_output=True
    )


def _guarded_line(place: Place) -> tuple[cst.Call, Change]:
    small, line = place.small_statement, need(place.statement, cst.SimpleStatementLine, "")
    call = _bare_call(place, small)
    smalls = list(line.body)
    functions = [
        place.source.code(other.value.func)
        if isinstance(other, cst.Expr) and isinstance(other.value, cst.Call)
        else None
        for other in smalls
    ]
    # Adjacent calls to the same function: torch names each line once.
    at = smalls.index(small)
    is_same = [function == functions[at] for function in functions]
    count_before = len(list(takewhile(bool, reversed(is_same[:at]))))
    count = count_before + len(list(takewhile(bool, is_same[at:])))
    first = at - count_before
    before, guarded, after = smalls[:first], smalls[first : first + count], smalls[first + count :]
    inner = cst.SimpleStatementLine(_ended(guarded), trailing_whitespace=line.trailing_whitespace)
    lines: list[cst.BaseStatement] = [skipped_while_compiling([inner])]
    if before:
        lines.insert(0, cst.SimpleStatementLine(_ended(before)))
    lines[0] = after_lines(lines[0], line.leading_lines)
    return call, (line, [*lines, *([cst.SimpleStatementLine(after)] if after else [])])


def _ended(smalls: Sequence[cst.BaseSmallStatement]) -> list[cst.BaseSmallStatement]:
    return [*smalls[:-1], *alone(smalls[-1]).body]


def _bare_call(place: Place, small: cst.CSTNode) -> cst.Call:
    call = need(
        small.value if isinstance(small, cst.Expr) else None, cst.Call, "its result is used"
    )
    # The break may be in an argument, such as a hook that is registered: then the call itself is
    # needed.
    is_inside = place.expression is not None and place.expression is not call
    decline_if(is_inside, "the break is inside the call's arguments")
    decline_if(assigns_a_name(call), "an argument of the call assigns a name")
    return call


@recipe("GD102")
def guard_report(place: Place) -> Edit:
    """``if t.isnan().any(): warnings.warn(…)`` becomes ``if not torch.compiler.is_compiling() and
    t.isnan().any(): …``.

    Only if nothing but output depends on the condition. Unsafe: the compiled program no longer
    reports it.
    """
    source, statement = place.source, place.tested
    if not isinstance(statement, cst.If) or not isinstance(statement.body, cst.IndentedBlock):
        raise DeclinedError("no block of lines depends on the condition")
    is_only = statement.orelse is None and is_report(source, statement)
    decline_if(not is_only, "more than a report depends on the condition")
    decline_if(is_elif(source, statement), _ELIF)
    decline_if(assigns_a_name(statement.test), _NAMES)
    test = skipped_while_compiling([], statement.test).test
    refuse_lost_comments([statement], [statement.with_changes(test=test)])
    return place.edit(
        "Skip the report and its condition while compiling",
        (statement.test, test),
        drops_output=True,
    )


def report_apart(recipes: Sequence[Recipe]) -> Recipe:
    """``if t.any(): print(…); return 0 * x`` becomes what other recipes write for ``if t.any():
    return 0 * x``.

    The report goes before it, under ``if not torch.compiler.is_compiling() and t.any():``, so the
    compiled program no longer reports it. The rest is as safe as the other recipe.
    """

    def edit(place: Place) -> Edit:
        source = place.source
        single = "it isn't an `if` with a single branch"
        choice = need(place.tested, cst.If, single)
        decline_if(choice.orelse is not None, single)
        decline_if(is_elif(source, choice), _ELIF)
        own_lines = "the branch has no lines of its own"
        body = need(choice.body, cst.IndentedBlock, own_lines)
        decline_if(has_comment(body.header), own_lines)
        reports, lines = reports_apart(source, choice)
        decline_if(not reports or not lines, "the branch doesn't begin with a report")
        decline_if(assigns_a_name(choice.test), _NAMES)
        report = after_lines(skipped_while_compiling(reports, choice.test), choice.leading_lines)
        rest = choice.with_changes(leading_lines=(), body=body.with_changes(body=lines))
        changed = source.changed((choice, [report, rest]))
        at = _equal_tests(source, choice).index(choice)
        line = changed.start(_equal_tests(changed, choice)[at])[0]
        found = edit_without("the report", recipes, place.moved(changed, line))
        return replace(
            found, title=f"{found.title}, and skip the report while compiling", drops_output=True
        )

    return Recipe("report-apart", frozenset({"GD102"}), edit)


def _equal_tests(source: SourceFile, choice: cst.If) -> list[cst.If]:
    return [
        node
        for node in walk(source.tree)
        if isinstance(node, cst.If) and node.test.deep_equals(choice.test)
    ]


_CASTS = frozenset({"builtins.float", "builtins.bool"})


def condition_without_read(recipes: Sequence[Recipe]) -> Recipe:
    """``if x.max().item() > 1:`` becomes what other recipes write for ``if x.max() > 1:``.

    Also for a name that is only set to such a number. Without the ``if``, nothing needs the number.
    Unsafe: a number is a double, and a tensor may have fewer digits.
    """

    def edit(place: Place) -> Edit:
        source, choice = place.source, _choice(place)
        decline_if(source.function_of(choice) is None, "the line isn't in a function")
        found = _reads(source, choice.test)
        moved = place.moved(source.changed(*found), source.start(choice)[0])
        without = edit_without("reading the number", recipes, moved)
        title = f"{without.title}, without reading `{source.shortened(found[0][0])}`"
        return replace(without, title=title, is_safe=False)

    return Recipe("condition-without-read", frozenset({"GD103", "GD119"}), edit)


def _choice(place: Place) -> cst.If:
    child: cst.CSTNode | None = place.expression
    for parent in place.source.parents(child) if child is not None else ():
        if isinstance(parent, cst.If) and parent.test is child:
            return parent
        if isinstance(parent, cst.BaseStatement | cst.Lambda | cst.IfExp):
            break
        child = parent
    is_whole = isinstance(place.statement, cst.If) and place.expression in (
        None,
        place.statement.test,
    )
    return need(place.statement if is_whole else None, cst.If, "the number isn't part of an `if`")


def _reads(source: SourceFile, test: cst.BaseExpression) -> list[Change]:
    found: list[Change] = []
    waiting: list[cst.CSTNode] = [test]
    while waiting:
        node = waiting.pop(0)
        tensor = _tensor_of(source, node)
        if tensor is None and isinstance(node, cst.Name):
            bound = source.set_values(node)
            tensor = _tensor_of(source, bound[0]) if len(bound) == 1 else None
        if tensor is None:
            waiting += node.children
            continue
        effects = (
            part
            for part in walk(tensor)
            if isinstance(part, cst.NamedExpr | cst.Await) or is_in_place(part)
        )
        decline_if(any(effects), "reading the number has a side effect")
        found.append((node, tensor.deep_clone() if node is test else enclosed(tensor.deep_clone())))
    decline_if(not found, "the condition reads no tensor")
    return found


def _tensor_of(source: SourceFile, node: cst.CSTNode) -> cst.BaseExpression | None:
    tensor = source.read_of(node, _CASTS)
    return None if tensor is None else _tensor_of(source, tensor) or tensor


_CLOCKS = CLOCKS | {
    "time.thread_time",
    "time.localtime",
    "time.gmtime",
    "time.strftime",
    "datetime.date.today",
}
"""Values that differ between calls."""

_FACTS = frozenset(
    {
        "os.getpid",
        "os.cpu_count",
        "os.getcwd",
        "os.getlogin",
        "os.uname",
        "socket.gethostname",
        "os.path.exists",
    }
    | {
        "os.path.isfile",
        "os.path.isdir",
        "os.path.getsize",
        "torch.get_num_threads",
        "torch.initial_seed",
    }
)
"""Values that a process doesn't expect to change while it runs."""


@recipe("GD105")
def without_progress_bar(place: Place) -> Edit:
    """``for x in tqdm(rows):`` becomes ``for x in rows:``; safe if the bar is off
    (``disable=True``).
    """
    source = place.source
    call = place.pointed_call(
        lambda node: source.dotted_name(node).startswith("tqdm."), "a progress bar"
    )
    decline_if(
        not isinstance(source.parent(call), cst.For | cst.CompFor),
        "the progress bar isn't what a loop runs over",
    )
    given = [argument for argument in call.args if argument.keyword is None]
    is_plain = given and not any(argument.star for argument in given) and not has_comment(call)
    decline_if(not is_plain, "the progress bar isn't given what it runs over")
    is_range = called(call) == "trange"
    rows = (
        cst.Call(cst.Name("range"), [one.deep_clone() for one in given])
        if is_range
        else given[0].value.deep_clone()
    )
    is_off = any(
        one.keyword and one.keyword.value == "disable" and source.code(one.value) == "True"
        for one in call.args
    )
    title = f"Run the loop over `{source.shortened(rows)}`, without a progress bar"
    return place.edit(title, (call, rows), is_safe=is_off, drops_output=not is_off)


_PLAIN = _CLOCKS | {f"builtins.{name}" for name in ("round", "float", "int", "str", "abs")}
_USED = "the value is used for more than output"


@recipe("GD105", "GD109", "GD100")
def hoist_read(place: Place) -> Edit:
    """Skips clocks that only feed output, or are only kept, while compiling, and reads facts once,
    at import.

    ``random.random()`` becomes ``random.uniform(0.0, 1.0)``, which torch traces and which draws the
    same number. All others are unsafe: the program prints less, or no longer notices a change.
    """
    source = place.source
    call = place.pointed_call(bool, "a call")
    name, words = source.dotted_name(call), f"`{source.code(call.func)}()`"
    if name == "random.random" and not call.args:
        module = call.func.value if isinstance(call.func, cst.Attribute) else cst.Name("random")
        title = f"Use `random.uniform`, which torch traces, in place of {words}"
        return place.edit(
            title, (call, expression("{module}.uniform(0.0, 1.0)", module=module)), is_safe=True
        )
    if name in _FACTS:
        return place.edit(
            f"Call {words} once, when the module is imported", _at_import(source, call)
        )
    decline_if(name not in _CLOCKS, f"{words} can't be moved")
    lines = _output_lines(source, call)
    is_kept = any(map(_is_kept, lines))
    is_used = is_kept or any(_is_output(source, line) for line in lines)
    what = "the lines that keep it" if is_kept else "the output that uses it"
    return place.edit(
        f"Skip {words} and {what} while compiling", *_guarded(source, lines), drops_output=is_used
    )


def _at_import(source: SourceFile, call: cst.Call) -> Change:
    is_known = all(
        isinstance(argument.value, cst.SimpleString) and not argument.star for argument in call.args
    )
    decline_if(not is_known, "its arguments are only known inside the function")
    decline_if(has_comment(call), "a comment inside it would be lost")
    name = f"_{called(call).removeprefix('get').lstrip('_').upper()}"
    statement = list(source.parents(call))[-2]
    decline_if(
        not isinstance(statement, cst.FunctionDef | cst.ClassDef),
        "it isn't in a function of the module",
    )
    imports = [node for node in walk(statement) if isinstance(node, cst.Import | cst.ImportFrom)]
    decline_if(
        name_set(call.func) & name_set(*imports), "its module is only imported inside the function"
    )
    decline_if(source.free_name(name) != name, f"the name `{name}` is already used")
    return below_new(source, call, cst.Name(name), assigned(name, call.deep_clone()))


_Line = cst.SimpleStatementLine | cst.If


def _output_lines(source: SourceFile, call: cst.Call) -> list[_Line]:
    lines: list[_Line] = []
    waiting: list[cst.CSTNode] = [call]
    seen: set[str] = set()
    scope = source.function_of(call)
    while waiting:
        line = _line_of(source, waiting.pop())
        if line in lines:
            continue
        lines.append(line)
        if isinstance(line, cst.If) or _is_output(source, line):
            continue
        target = _target_of(source, line)
        decline_if(target is not None and not source.is_local(target), _USED)
        if target is not None and target.value not in seen:
            seen.add(target.value)
            same = (
                [node for node in names_in(scope) if node.value == target.value]
                if scope is not None
                else []
            )
            waiting += [node for node in same if node is not target and source.is_target(node)]
            waiting += source.reads(target)
    decline_if(
        any(source.function_of(line) is not scope for line in lines),
        "another function uses the value",
    )
    tested = [node for line in lines if isinstance(line, cst.If) for node in walk(line.test)]
    if any(_is_more(source, node, seen) for node in tested):
        raise DeclinedError("a condition on the value also depends on something else")
    inside = {node for line in lines if isinstance(line, cst.If) for node in walk(line.body)}
    return sorted((line for line in lines if line not in inside), key=source.start)


def _target_of(source: SourceFile, line: cst.SimpleStatementLine) -> cst.Name | None:
    small = line.body[0]
    if isinstance(small, cst.Assign | cst.AugAssign | cst.Expr) and _is_arithmetic(source, small):
        match small:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Name() as target)]):
                return target
            case cst.AugAssign(target=cst.Name() as target):
                return target
            case _ if _is_kept(line) and _is_duration(source, small.value):
                return None
    raise DeclinedError(_USED)


def _is_kept(line: cst.CSTNode) -> bool:
    """``self.times["a"] = seconds``, ``times.append(seconds)``: whether a line keeps a value in an
    object.
    """
    match line:
        case cst.SimpleStatementLine(
            body=[cst.Expr(value=cst.Call(func=cst.Attribute(attr=cst.Name("append"))))]
        ):
            return True
        case cst.SimpleStatementLine(body=[small]):
            targets = targets_of(small)
            return len(targets) == 1 and isinstance(targets[0], cst.Attribute | cst.Subscript)
    return False


def _is_duration(source: SourceFile, value: cst.BaseExpression) -> bool:
    """Whether a value is a difference of times, or made of names that are.

    A time by itself is more than a measurement: something may compare it later.
    """
    found = [node for node in names_in(value) if source.is_local(node)]
    sources = [
        value,
        *(bound for name in found for bound in source.values(name) if bound is not None),
    ]
    parts = [node for bound in sources for node in walk(bound)]
    return any(
        isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract)
        for node in parts
    )


def _is_more(source: SourceFile, part: cst.CSTNode, names: set[str]) -> bool:
    if isinstance(part, cst.Call | cst.Attribute | cst.Subscript):
        return not isinstance(part, cst.Call) or source.dotted_name(part) not in _CLOCKS
    return isinstance(part, cst.Name) and part.value not in names


def _line_of(source: SourceFile, node: cst.CSTNode) -> _Line:
    line = next(
        (found for found in source.parents(node) if isinstance(found, cst.BaseStatement)), None
    )
    if isinstance(line, cst.If) and is_report(source, line) and not is_elif(source, line):
        return line
    more = "a line that does more uses the value"
    whole = need(line, cst.SimpleStatementLine, more)
    only(whole.body, more)
    return whole


def _is_output(source: SourceFile, line: _Line) -> bool:
    match line:
        case cst.If():
            return True
        case cst.SimpleStatementLine(body=[cst.Expr(value=value)]):
            effects = cst.NamedExpr | cst.Await | cst.Yield
            return is_output(source, value) and not any(
                isinstance(node, effects) for node in walk(value)
            )
    return False


def _is_arithmetic(source: SourceFile, small: cst.Assign | cst.AugAssign | cst.Expr) -> bool:
    calls = [
        call
        for call in calls_in(small.value)
        if not isinstance(small, cst.Expr) or call is not small.value
    ]
    is_bare = not any(isinstance(node, cst.NamedExpr | cst.Await) for node in walk(small.value))
    return is_bare and all(
        source.dotted_name(call) in _PLAIN or source.method_name(call) == "total_seconds"
        for call in calls
    )


def _guarded(source: SourceFile, lines: list[_Line]) -> Iterator[Change]:
    """The changes that put lines under ``if not torch.compiler.is_compiling():``; adjacent lines
    share one ``if``.
    """
    done: set[cst.CSTNode] = set()
    for line in lines:
        if line not in done:
            block = source.parent(line)
            body = lines_of(block) if isinstance(block, cst.IndentedBlock) else [line]
            _, *more = group = list(
                itertools.takewhile(lines.__contains__, body[body.index(line) :])
            )
            done.update(group)
            kept = [line.with_changes(leading_lines=()), *more]
            yield line, after_lines(skipped_while_compiling(kept), line.leading_lines)
            yield from ((found, []) for found in more)
