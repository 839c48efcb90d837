"""Keeps what is printed, logged or warned in the graph: an operator reports the values when the
graph runs, so text and order stay.

A ``print`` becomes ``torch._higher_order_ops.print`` (seen in 2.11 and 2.13). For other reports the
file gets an operator with an effect, which torch neither drops nor reorders (2.13: ``is_impure`` in
``torch/_library/utils.py``): one for each logging function, which takes a text and tensors, or else
one of its own with the lines themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from libcst import (
    Attribute,
    Await,
    BaseExpression,
    BaseNumber,
    BaseStatement,
    BaseString,
    Call,
    ClassDef,
    ConcatenatedString,
    CSTNode,
    Expr,
    Float,
    For,
    FormattedString,
    FormattedStringExpression,
    FormattedStringText,
    FunctionDef,
    If,
    IndentedBlock,
    Integer,
    Name,
    NamedExpr,
    Param,
    SimpleStatementLine,
    SimpleString,
    Subscript,
    Yield,
    matchers,
    parse_expression,
    parse_module,
    parse_statement,
)
from libcst.metadata import BuiltinScope, GlobalScope

from graphdoctor.fixes.recipe import Edit, Place, recipe
from graphdoctor.fixes.source.effects import CLOCKS, SHOWS, is_output, smalls_under
from graphdoctor.fixes.source.expressions import condition_of
from graphdoctor.fixes.source.nodes import (
    above,
    after_lines,
    bare,
    below_new,
    called,
    calls_in,
    expression,
    is_elif,
    lines_of,
    refuse_comment,
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
    last_name,
    names_in,
    need,
    only,
    walk,
    with_replaced,
)

_READS = words("float", "builtins.")
_PYTHON = words("int tolist str repr format join")
"""Functions that give what an operator can't be given as a tensor."""

_TEXTS = ("builtins.print", "warnings.warn", "sys.stdout.write", "sys.stderr.write")
"""Functions that take a text, not a format and its values."""

_FILLED = re.compile(r"((?:[^%]|\n)*)(?:%([-+ 0]*\d*(?:\.\d+)?)([%sdeEfFgG])|$)")
_ESCAPES = (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r"))
_OPERATOR = """@torch.library.custom_op("{label}", mutates_args=())
def {name}({parameters}) -> None:
    {body}


{name}.register_fake(lambda *_: None)
{name}.register_effect(torch._library.effects.EffectType.ORDERED)
"""

_FACTS = ("shape", "dtype", "device", "ndim")
_MOST_VALUES = 3
"""Values that an operator is given, so that it still reads as one thing."""


@recipe("GD101", "GD103", "GD105")
def print_in_graph(place: Place) -> Edit:
    """``print(f"loss {loss.item():.4f}")`` becomes ``torch._higher_order_ops.print("loss {:.4f}",
    loss)``.

    The text is the same, and printed when the graph runs. Unsafe: it's torch's own name, without a
    promise, and a tensor that is printed whole shows no ``grad_fn``.
    """
    line = need(place.statement, SimpleStatementLine, "the line isn't a `print`", "another_line")
    small = only(line.body, "the line does more than print", "another_line")
    call = small.value if isinstance(small, Expr) else None
    is_print = isinstance(call, Call) and place.source.dotted_name(call) == "builtins.print"
    decline_if(not is_print, "the line isn't a `print`", "another_line")
    call = need(call, Call)
    text = _Text(place.source)
    for at, argument in enumerate(call.args):
        is_plain = argument.keyword is None and not argument.star
        decline_if(not is_plain, "`print` is told more than what to print")
        text.literal(" " * (at > 0))
        text.add(argument.value)
    return place.edit("Print it from inside the graph", (call, text.call()))


@dataclass
class _Text:
    """A format string and its values, as more is printed."""

    source: SourceFile
    parts: list[tuple[str, str]] = field(default_factory=list)
    """Literal text, the format of a value (``!s:.3f``), or code that is known while tracing."""
    values: list[BaseExpression] = field(default_factory=list)

    def literal(self, text: str) -> None:
        self.parts.append(("literal", text))

    def add(self, value: BaseExpression, mark: str = "") -> None:
        """Add the text of a value."""
        match value:
            case SimpleString() | ConcatenatedString() if not mark and isinstance(
                value.evaluated_value, str
            ):
                self.literal(value.evaluated_value)
            case FormattedString(parts=parts) if not mark:
                for part in parts:
                    self._add_part(part, is_raw="r" in value.prefix.lower())
            case ConcatenatedString(left=left, right=right) if not mark:
                self.add(left)
                self.add(right)
            case _ if _is_static(self.source, value):
                self.parts.append(("code", f"{self.source.code(value)}{mark.removesuffix(':')}"))
            case _:
                self._add_value(value, mark)

    def _add_part(self, part: CSTNode, *, is_raw: bool) -> None:
        match part:
            case FormattedStringText(value=text):
                text = text.replace("{{", "{").replace("}}", "}")
                decline_if("\\" in text and is_raw, "the text is raw")
                self.literal(parse_expression(f'"""{text} """').evaluated_value[:-1])  # type: ignore[attr-defined]
            case FormattedStringExpression(expression=value, format_spec=spec, equal=None):
                kind = f"!{part.conversion}" if part.conversion else ""
                texts = [text.value for text in spec or () if isinstance(text, FormattedStringText)]
                decline_if(len(texts) != len(spec or ()), "a value decides the format")
                # An f-string formats a zero-dim tensor as its number, which ``str`` doesn't.
                spec_of = "" if kind and not texts else f":{''.join(texts)}"
                self.add(value, f"{kind}{spec_of}")
            case _:
                raise DeclinedError("the text is written with `=`")

    def _add_value(self, value: BaseExpression, mark: str) -> None:
        source = self.source
        decline_if(holds(value, NamedExpr), "an argument assigns a name")
        reads = list(_reads(source, value))
        is_whole = any(node is value for node, _ in reads)
        # A number's digits, without a format, are those of a double.
        is_cast = any(called(node) == "float" for node, _ in reads)
        is_exact = is_whole and not is_cast
        decline_if(reads and mark in ("", ":") and not is_exact, "it prints all digits of a number")
        others = [call for call in calls_in(value) if called(call) in _PYTHON]
        decline_if(others, f"`{source.shortened(value)}` isn't a tensor")
        self.values.append(with_replaced(value, reads))
        is_text = not reads and not mark
        self.parts.append(("value", "!s" if is_text else mark))

    def call(self) -> BaseExpression:
        """Write the call."""
        decline_if(not any(part for _, part in self.parts), "it prints nothing")
        is_formatted = any(kind == "code" for kind, _ in self.parts)
        text = "".join(self._written(kind, part, is_formatted) for kind, part in self.parts)
        values = "".join(f", {self.source.code(value)}" for value in self.values)
        return parse_expression(
            f'torch._higher_order_ops.print({"f" * is_formatted}"{text}"{values})'
        )

    def _written(self, kind: str, part: str, is_formatted: bool) -> str:
        if kind == "literal":
            for old, new in _ESCAPES:
                part = part.replace(old, new)
            count = 4 if is_formatted else 2
            return part.replace("{", "{" * count).replace("}", "}" * count)
        decline_if(kind == "code" and ('"' in part or "\\" in part), "the text has quotes in it")
        return f"{{{{{part}}}}}" if kind == "value" and is_formatted else f"{{{part}}}"


@dataclass
class _Logged(_Text):
    """A ``%`` format and the tensors that it is given, as a logging function takes them."""

    is_always_filled: bool = False
    """Whether the format is filled in without values, too."""

    def _add_value(self, value: BaseExpression, mark: str) -> None:
        if isinstance(value, BaseNumber):
            number = value.evaluated_value  # type: ignore[attr-defined]
            self.literal(f"%{mark[1:]}" % number if mark else self.source.code(value))
            return
        is_size = re.fullmatch(r".*\.shape\[-?\d+\]|len\(.*\)", self.source.code(value)) is not None
        kind = "int" if is_size else "torch.Tensor"
        if isinstance(value, Name | Attribute):
            kind = _kind(self.source, value)
        if kind == "torch.Tensor":
            super()._add_value(value, mark)
            return
        decline_if(kind != "int", "a value isn't a tensor")
        # Given `torch.tensor(1)` alone, whose value torch knows, an operator would run while it's
        # traced, too (2.13: `all_constant` in `torch/_subclasses/fake_tensor.py`).
        self.values.append(expression("torch.full((), {value})", value=value))
        self.parts.append(("value", ":d" if mark in ("", ":") else mark))

    def add_filled(self, text: str, values: Iterator[BaseExpression]) -> None:
        """Add ``text % values``."""
        for literal, flags, kind in _FILLED.findall(text):
            self.literal(literal)
            if kind == "%":
                self.literal("%")
            elif kind:
                decline_if(kind == "s" and flags, "a text is padded")
                self.add(
                    known(next(values, None), "a value is missing"),
                    f":{flags}{kind}".removesuffix(":s"),
                )

    def written(self) -> tuple[str, str]:
        """Return the format and the list of the values, as code."""
        text = "".join(self._filled(kind, part) for kind, part in self.parts)
        for old, new in _ESCAPES:
            text = text.replace(old, new)
        return f'"{text}"', f"[{', '.join(map(self.source.code, self.values))}]"

    def _filled(self, kind: str, part: str) -> str:
        if kind == "literal":
            return part.replace("%", "%%") if self.values or self.is_always_filled else part
        decline_if(kind == "code", "a value isn't a tensor")
        is_number = re.fullmatch(r":[-+ 0]*\d*(\.\d+)?[deEfFgG]", part)
        decline_if(part != "!s" and not is_number, "a value has a format of its own")
        return f"%{part[1:]}"


@recipe("GD101", "GD102", "GD103", "GD105")
def report_in_operator(place: Place) -> Edit:
    """``log.info("loss %.3f", loss)`` becomes ``_info("loss %.3f", [loss])``, an operator that the
    file has once for ``log.info``.

    Also a warning, and an ``if`` in which there is nothing else: ``_warn_if(condition, …)``. What
    has another form, such as a metric's writer, moves into an operator of its own. Unsafe: the
    record names the operator's line, a tensor that is shown whole shows no ``grad_fn``, and it's
    torch's private name that gives an operator an effect.
    """
    before = find(place.source.tree, FunctionDef)
    source = place.source.changed(in_operator(place.source, place.statement))
    behind, skipped = len(before) - before.index(place.function), 0
    while lines := _reports_in(source, find(source.tree, FunctionDef)[-behind])[skipped:]:
        try:
            source = source.changed(in_operator(source, lines[0]))
        except DeclinedError:
            skipped += 1
    return Edit("Report it from an operator in the graph", source.content)


def _reports_in(source: SourceFile, function: FunctionDef) -> list[BaseStatement]:
    """List the lines of a function that report other than by ``print``, outermost ones only."""
    waiting, lines = list[CSTNode]([function.body]), list[BaseStatement]()
    while waiting:
        node = waiting.pop(0)
        if not isinstance(node, SimpleStatementLine | If) or not _is_report(source, node):
            # What else depends on a condition decides how that report is written.
            waiting += [] if isinstance(node, FunctionDef | If) else node.children
        elif not source.dotted_name(calls_in(node)[0]).startswith("builtins."):
            lines.append(node)
    return sorted(lines, key=source.start)


def in_operator(source: SourceFile, line: BaseStatement) -> Change:
    """Report a line that only reports from an operator.

    Raises:
        DeclinedError: It does more, or reports what an operator can't be given.
    """
    what = "the line does more than report"
    decline_if(not _is_report(source, line) or is_elif(source, line), what, "another_line")
    try:
        return _in_shared(source, line)
    except DeclinedError:
        return _in_its_own(source, line)


def _in_shared(source: SourceFile, line: BaseStatement) -> Change:
    """Call the file's operator for a logging function."""
    refuse_comment(line.with_changes(leading_lines=()))
    inner, condition = line, ""
    if isinstance(line, If):
        decline_if(line.orelse is not None, "there is an `else`")
        inner = only(lines_of(line.body), "the branch has several lines")
        condition = source.code(bare(condition_of(line.test, source)))
    small = only(need(inner, SimpleStatementLine).body, "the line has several statements")
    call = need(need(small, Expr).value, Call)
    keywords = [source.code(arg) for arg in call.args if arg.keyword]
    plain = [arg.value for arg in call.args if not arg.keyword and not arg.star]
    given = iter(plain)
    path, log, first = source.dotted_name(call), source.code(call.func), known(next(given, None))
    fill = "text % tuple(values)" if path in _TEXTS else "text, *values"
    is_text = path in _TEXTS or (is_output(source, call) and _is_logger(source, call))
    is_outer = all(
        isinstance(binding.scope, GlobalScope | BuiltinScope)
        for part in (call.func, *(arg.value for arg in call.args if arg.keyword))
        for name in names_in(part)
        for binding in source.assignments(name)
    )
    is_text &= path == "builtins.print" or isinstance(first, BaseString)
    decline_if(not is_text or not is_outer or any(arg.star for arg in call.args), "it has no text")
    logged = _Logged(source, is_always_filled=path in _TEXTS)
    if path in _TEXTS:
        logged.add(first)
        for value in given if path == "builtins.print" else ():
            logged.literal(" ")
            logged.add(value)
    elif isinstance(first, SimpleString) and len(plain) > 1:
        logged.add_filled(str(first.evaluated_value), given)
    else:
        logged.add(first)
    rest = [source.code(value) for value in given]
    decline_if(rest and path != "warnings.warn", "it has more values than its text")
    keywords[:0] = rest
    text, values = logged.written()
    # What is logged once is kept, to know it again.
    decline_if(called(call).endswith("_once") and logged.values, "its tensors would be kept")
    if isinstance(first, ConcatenatedString) and text[1:-1] == first.evaluated_value:
        text = source.code(first)
    indexed = [part.value for value in logged.values for part in find(value, Subscript)]
    has_index = any(last_name(part) != "shape" for part in indexed)
    decline_if(condition and has_index, "what the branch guards may be missing")
    body = f"{log}({', '.join([fill, *keywords])})"
    when, passed = ("when: torch.Tensor, ", f"{condition}, ") if condition else ("", "")
    body = f"if when:\n        {body}" if condition else body
    wanted = f"_{called(call).strip('_')}{'_if' * bool(condition)}"
    parameters = f"{when}text: str, values: list[torch.Tensor]"
    return _with_operator(source, line, wanted, parameters, body, f"{passed}{text}, {values}")


def _is_logger(source: SourceFile, call: Call) -> bool:
    return (
        isinstance(call.func, Attribute)
        and "log" in source.code(call.func.value).lower()
        and not source.dotted_name(call).startswith(("wandb.", "mlflow."))
    )


def _with_operator(
    source: SourceFile, line: BaseStatement, wanted: str, parameters: str, body: str, passed: str
) -> Change:
    """Call an operator in place of a line, and add it above unless the file has it."""
    same = [
        function.name.value
        for function in find(source.tree, FunctionDef)
        if function.decorators
        and source.code(function.params) == parameters
        and source.code(function.body).strip() == body
    ]
    name = same[0] if same else source.free_name(wanted)
    call = after_lines(need(parse_statement(f"{name}({passed})"), SimpleStatementLine), above(line))
    if same:
        return line, call
    return _added(source, line, call, _operator(source, name, parameters, body))


def _in_its_own(source: SourceFile, line: BaseStatement) -> Change:
    """Move a line into an operator, with the reports below it."""
    what = "the line does more than report"
    function = need(source.function_of(line), FunctionDef, "it isn't in a function")
    block = need(source.parent(line), IndentedBlock, what)
    at = block.body.index(line)
    lines: list[BaseStatement] = [line]
    for other in block.body[at + 1 :] if isinstance(line, SimpleStatementLine) else ():
        is_one = isinstance(other, SimpleStatementLine) and _is_report(source, other)
        if not is_one or len(set(_values(source, [*lines, other]).values())) > _MOST_VALUES:
            break
        lines.append(need(other, SimpleStatementLine))
    given = _values(source, lines)
    values = {name: node for node, name in reversed(given.items())}
    order = list(dict.fromkeys(given.values()))
    decline_if(len(values) > _MOST_VALUES, "it reports more than three values")
    first = next(call for call in calls_in(*lines) if _reports(source, call))
    owner = source.around(function, ClassDef)
    of = owner if owner is not None and function.name.value in ("forward", "__call__") else function
    name = source.free_name(f"_{of.name.value.strip('_').lower()}_{called(first).strip('_')}")
    parameters = [f"{value}: {_kind(source, values[value])}" for value in order]
    operator, *registered = _operator(source, name, ", ".join(parameters), "pass")
    renamed = [(node, Name(value)) for node, value in given.items()]
    body = [with_replaced(inner, renamed) for inner in lines]
    body[0] = body[0].with_changes(leading_lines=())
    operator = need(operator, FunctionDef).with_changes(body=IndentedBlock(body))
    passed = ", ".join(source.code(values[value]) for value in order)
    call = after_lines(need(parse_statement(f"{name}({passed})"), SimpleStatementLine), above(line))
    rest = [*block.body[:at], call, *block.body[at + len(lines) :]]
    return _added(source, block, block.with_changes(body=rest), [operator, *registered])


def _added(source: SourceFile, old: CSTNode, new: CSTNode, operator: Sequence[CSTNode]) -> Change:
    function = need(operator[0], FunctionDef)
    statement, news = below_new(source, old, new, function)
    above_it, below = cast("Sequence[CSTNode]", news)
    return statement, [above_it, *operator[1:], below]


def _operator(source: SourceFile, name: str, parameters: str, body: str) -> Sequence[CSTNode]:
    namespace = re.sub(r"\W", "_", source.path.stem).strip("_") or "program"
    label = f"{namespace}::{name[1:]}"
    text = _OPERATOR.format(label=label, name=name, parameters=parameters, body=body)
    return parse_module(text).body


def _is_report(source: SourceFile, line: CSTNode) -> bool:
    return isinstance(line, SimpleStatementLine | If) and all(
        isinstance(small, Expr) and _reports(source, small.value) for small in smalls_under(line)
    )


def _reports(source: SourceFile, call: CSTNode) -> bool:
    """Check for a call that only reports: to a stream, a log, or a writer of metrics."""
    if not isinstance(call, Call) or holds(call, NamedExpr, Await, Yield):
        return False
    return is_output(source, call) or called(call) in SHOWS


def _values(source: SourceFile, lines: Sequence[CSTNode]) -> dict[BaseExpression, str]:
    """Find what lines need of the function around them: the nodes, and a name for each."""
    given: dict[BaseExpression, str] = {}
    taken: dict[str, str] = {}
    funcs = [call.func for line in lines for call in calls_in(line) if _reports(source, call)]
    names = (name for line in lines for name in names_in(line))
    for name in sorted(names, key=source.start):
        bindings = source.assignments(name)
        nodes = [getattr(binding, "node", None) for binding in bindings]
        is_inside = any(node is part for node in nodes for line in lines for part in walk(line))
        if is_inside or all(isinstance(at.scope, GlobalScope | BuiltinScope) for at in bindings):
            continue
        node: BaseExpression = name
        for parent in source.parents(name):
            outer = source.parent(parent)
            is_called = isinstance(outer, Call) and outer.func is parent
            is_part = isinstance(parent, Attribute) and parent.attr.value not in _FACTS
            if is_called or not is_part:
                break
            node = need(parent, Attribute)
        is_logger = any(name in walk(func) for func in funcs)
        decline_if(is_logger, f"`{name.value}` isn't a global that an operator could use")
        is_object = name.value in ("self", "cls") and node is name
        decline_if(is_object, "it reports by a method of the object")
        short = node.attr.value if isinstance(node, Attribute) else name.value
        code = source.code(node)
        if taken.setdefault(short, code) != code:
            raise DeclinedError(f"two values have the name `{short}`")
        given[node] = short
    return given


def _kind(source: SourceFile, node: BaseExpression) -> str:
    """Find the type of an operator's parameter; a tensor if nothing is known."""
    values = list(source.bound_to(node)) if isinstance(node, Name | Attribute) else []
    for binding in source.assignments(node):
        holder = getattr(binding, "node", None)
        loop = source.around(holder, For) if isinstance(holder, Name) else None
        if isinstance(holder, Param):
            values.append(node)
        elif loop is not None and any(part is holder for part in walk(loop.target)):
            counter = matchers.Element(matchers.Name(source.code(node)))
            counted = matchers.Tuple([counter, matchers.ZeroOrMore()])
            is_counter = matchers.matches(loop.target, counted)
            name = source.dotted_name(loop.iter).removeprefix("builtins.")
            if name == ("enumerate" if is_counter else "range"):
                return "int"
    kinds = {kind for value in values if value is not None and (kind := _literal(source, value))}
    decline_if(len(kinds - {"int", "float"}) > 1, f"`{source.code(node)}` has several types")
    if "float" in kinds:
        return "float"
    return kinds.pop() if kinds else "torch.Tensor"


def _literal(source: SourceFile, value: BaseExpression) -> str | None:
    match value:
        case Float():
            return "float"
        case Integer() | Call(func=Name("len")):
            return "int"
        case SimpleString() | FormattedString():
            return "str"
        case Name(value="True" | "False"):
            return "bool"
        case Name() if (parameter := source.parameter(value)) is not None:
            annotation = parameter.annotation
            name = dotted(annotation.annotation) if annotation is not None else None
            if name in ("int", "float", "str", "bool"):
                return name
            return _literal(source, parameter.default) if parameter.default is not None else None
        case Call() if source.dotted_name(value) in CLOCKS:
            return "float"
        case Call() if source.dotted_name(value) == "builtins.int":
            return "int"
        case _ if source.read_of(value, _READS) is not None:
            return "float"
    return None


def _reads(source: SourceFile, node: CSTNode) -> Iterator[tuple[CSTNode, BaseExpression]]:
    """Find where a tensor's value is read, and the tensor."""
    tensor = inner = source.read_of(node, _READS)
    while inner is not None:
        tensor, inner = inner, source.read_of(inner, _READS)
    if tensor is not None:
        yield node, tensor.deep_clone()
        return
    for child in node.children:
        yield from _reads(source, child)


def _is_static(source: SourceFile, value: BaseExpression) -> bool:
    """Check for what tracing knows and an operator can't be given: a shape, a dtype."""
    match value:
        case Attribute(attr=Name(value="shape" | "dtype" | "device" | "__name__")):
            return True
        case Call() if called(value) == "size" and not value.args:
            return True
        case Call(args=[argument]) if source.dotted_name(value) in words("tuple list", "builtins."):
            return _is_static(source, argument.value)
    return False
