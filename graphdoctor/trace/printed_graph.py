"""Parses a graph that torch printed, as ``torch/fx/graph.py`` (``CodeGen``), 2.13 and 2.15, does.

Each node is a Python statement, usually on a line of its own; a comment above it has the source
line that it comes from. Bodies of higher-order operators, printed as classes inside, are left out;
lines that aren't understood are counted.
"""

from __future__ import annotations

import ast
import builtins
import math
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphdoctor.facts.base import whole_sum
from graphdoctor.facts.picture import StageNode
from graphdoctor.facts.recording import DdpBucket, DdpSplit
from graphdoctor.trace.intake import SeenSplit

_CLASS = re.compile(r"^ *class \S+\(torch\.nn\.Module\):$")
_WRAP = re.compile(r'^ *wrap\("\w+"\)$')
_CALL = re.compile(
    r' {8}(?P<name>\w+)(?:: "(?P<value>[^"\\]*)")? = (?P<text>(?P<target>torch(?:\.\w+)+)'
    r"\((?P<arguments>(?:(?:\w+ = )?\[?-?[\w.]+\]?(?:, |(?=\))))*)\))(?:;  (?:\w+ = )+None)?"
)
"""A call of one of torch's functions, as most statements are: Python takes several times as long to
parse it."""
_NO_CALL = " " * 8 + "pass"
_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*+(?! =)")
_PLACE = re.compile(r"\bFile: (?P<file>\S.*?):(?P<line>\d{1,9}) in [^,]+?, code: ")
_NO_PLACE = "No stacktrace found for following nodes"
_OBJECT = re.compile(r"<(?=[A-Za-z_])[^<>\n]*>")
"""Python's own text for an object, such as ``<Color.RED: 1>``; torch prints operators with a space
after them."""
_MOST_ERRORS = 20
"""Lines that Python can't read, after which a text isn't taken for a graph."""
_TENSOR = re.compile(
    r"^(?:\w+\()?(?P<dtype>[a-z]\w*)\[(?P<shape>[^\[\]]*)\](?:\[[^\[\]]*\])?(?P<device>[a-z][\w:]*)?"
)
_SYMBOL = re.compile(r"^Sym\((?P<value>.*)\)$")
_BOXED_ARGUMENT = re.compile(r"_boxed_arg_\d+(?:_\d+)?$")
_OPERATOR_FUNCTION = re.compile(r"^_operator_(?=[a-z])")

_OPERATORS = {
    "Mult": "mul",
    "MatMult": "matmul",
    "Div": "truediv",
    "BitAnd": "and_",
    "BitOr": "or_",
    "BitXor": "xor",
    "UAdd": "pos",
    "USub": "neg",
    "NotEq": "ne",
    "LtE": "le",
    "GtE": "ge",
}
"""Names in ``operator`` of those of Python's operators that ``ast`` doesn't call the same."""
_NO_NODES = (ast.Not, ast.Is, ast.IsNot, ast.In, ast.NotIn)


@dataclass(frozen=True)
class PrintedGraph:
    """A parsed graph."""

    nodes: tuple[StageNode, ...]
    unread_lines: int = 0


def parse_graph(text: str, names_file: Callable[[str], bool] = lambda _file: True) -> PrintedGraph:
    """Parse a printed graph."""
    lines = text.split("\n")
    classes = [at for at, line in enumerate(lines) if _CLASS.match(line)]
    if not classes:
        return PrintedGraph((), _written(lines))
    begin, end = classes[0], [*classes, len(lines), len(lines)][1]
    before = [line for line in lines[:begin] if not _WRAP.match(line)]
    # Its name isn't always one in Python. What follows the graph is the body of a higher-order
    # operator, whose names are its own.
    lines = ["class Graph:", *lines[begin + 1 : end]]
    calls = {at: call for at, line in enumerate(lines) if (call := _CALL.fullmatch(line))}
    others = ["" if at in calls else line for at, line in enumerate(lines)]
    others.append(_NO_CALL)
    body, unread = _parsed(others)
    match body:
        case [ast.ClassDef(body=[ast.FunctionDef() as function, *_])]:
            reader = _Reader(others, calls, names_file)
            reader.read(function)
            return PrintedGraph(reader.nodes(), _written(before) + unread + reader.unread_lines)
    return PrintedGraph((), _written(before) + _written(lines[1:]))


def short_target(target: str) -> str:
    """A target as ``str(operator)`` prints it, such as ``aten.mm.default``."""
    return target.removeprefix("torch.ops.")


def _written(lines: Sequence[str]) -> int:
    return sum(bool(line.strip()) for line in lines)


def _parsed(lines: list[str]) -> tuple[list[ast.stmt], int]:
    """Return the statements, and how many lines were emptied because Python can't read them."""
    unread = 0
    with warnings.catch_warnings():
        # Python warns about unknown escapes in strings.
        warnings.simplefilter("ignore")
        while unread < _MOST_ERRORS:
            try:
                return ast.parse("\n".join(lines)).body, unread
            except SyntaxError as error:
                at = min(error.lineno or 1, len(lines)) - 1
                without_objects = _OBJECT.sub("...", lines[at])
                unread += without_objects == lines[at]
                lines[at] = "" if without_objects == lines[at] else without_objects
            except (ValueError, RecursionError, MemoryError):
                break
    return [], unread


def _on_one_line(body: Sequence[ast.stmt]) -> Iterator[list[ast.stmt]]:
    """Yield the statements of each line, or of lines that one of them joins."""
    group: list[ast.stmt] = []
    for statement in body:
        if group and statement.lineno > _end(group):
            yield group
            group = []
        group.append(statement)
    yield group


def _end(group: Sequence[ast.stmt]) -> int:
    last = group[-1]
    return last.end_lineno or last.lineno


class _Reader:
    def __init__(
        self,
        lines: Sequence[str],
        calls: Mapping[int, re.Match[str]],
        names_file: Callable[[str], bool],
    ) -> None:
        self.unread_lines = 0
        self._lines = lines
        self._calls = calls
        self._names_file = names_file
        self._place: tuple[str | None, int | None] = None, None
        # Placeholders by their names in the signature.
        self._arguments: dict[str, str | None] = {}
        self._announced: dict[str, str | None] = {}
        self._renamed: dict[str, str] = {}
        self._known: set[str] = set()
        self._boxed: dict[str, list[str]] = {}
        self._nodes: list[StageNode] = []

    def nodes(self) -> tuple[StageNode, ...]:
        placeholders = (
            StageNode(
                name=self._renamed.get(name, name), opcode="placeholder", target=name, value=value
            )
            for name, value in self._arguments.items()
        )
        return (*placeholders, *self._nodes)

    def read(self, function: ast.FunctionDef) -> None:
        arguments = [item for item in ast.walk(function.args) if isinstance(item, ast.arg)]
        self._take_arguments(
            {item.arg: _annotated(item.annotation) for item in arguments if item.arg != "self"}
        )
        at = function.lineno
        for group in _on_one_line(function.body):
            self._read_between(at, group[0].lineno - 1)
            at = _end(group)
            if not self._take(group):
                self.unread_lines += _written(self._lines[group[0].lineno - 1 : at])
        self._read_between(at, len(self._lines))

    def _read_between(self, start: int, end: int) -> None:
        """Read lines outside all that Python parsed: calls and comments."""
        for at in range(start, end):
            line = self._lines[at]
            if call := self._calls.get(at):
                self._add(
                    call["name"],
                    "call_function",
                    short_target(call["target"]),
                    self._inputs(_NAME.findall(call["arguments"])),
                    value=_value(call["value"]),
                    text=short_target(call["text"]),
                )
            elif line.lstrip().startswith("#"):
                place = _PLACE.search(line)
                is_named = place is not None and self._names_file(place["file"])
                named = (place["file"], int(place["line"])) if place and is_named else None
                self._place = named or (None, None)
                self.unread_lines += place is None and _NO_PLACE not in line

    def _take_arguments(self, arguments: dict[str, str | None]) -> None:
        self._arguments = arguments
        self._known = set(arguments)

    def _take(self, body: list[ast.stmt]) -> bool:
        match [statement for statement in body if not _is_deletion(statement)]:
            case [] | [ast.Pass()] | [ast.Expr(value=ast.Constant(value=str()))]:
                return True  # also a node's metadata, which FX_GRAPH_SHOW_META prints as a string
            case [ast.Return(value=value), *rest]:
                # Its name isn't printed.
                name = "output"
                number = 0
                while name in self._known:
                    number += 1
                    name = f"output_{number}"
                self._add(name, "output", "", self._inputs(_names(value)))
                return not rest
            case [ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=None)]:
                self._announced[name] = _annotated(annotation)
                return True
            case [ast.AugAssign(target=target, op=op, value=value), statement]:
                return self._take_in_place(
                    f"i{_operator(op).removesuffix('_')}", (target, value), statement
                )
            case [
                ast.Assign(targets=[ast.Subscript(value=held, slice=key)], value=value),
                statement,
            ]:
                return self._take_in_place("setitem", (held, key, value), statement)
            case [
                ast.Assign(
                    targets=[ast.Tuple(elts=names)],
                    value=ast.Call(func=ast.Attribute(attr="tree_flatten_spec")),
                ),
                *_,
            ]:
                arguments = [item.id for item in names if isinstance(item, ast.Name)]
                self._take_arguments({name: self._announced.get(name) for name in arguments})
                return True
            case [statement] if named := _named(statement):
                return self._take_named(*named)
        return False

    def _take_in_place(self, name: str, parts: tuple[ast.expr, ...], statement: ast.stmt) -> bool:
        named = _named(statement)
        if named is None:
            return False
        node, annotation, _ = named
        inputs = self._inputs(_names(*parts))
        self._add(node, "call_function", f"operator.{name}", inputs, value=_annotated(annotation))
        return True

    def _take_named(self, name: str, annotation: ast.expr | None, value: ast.expr) -> bool:
        if isinstance(value, ast.Name):
            # A placeholder whose node isn't named like the argument.
            is_argument = (
                value.id in self._arguments
                and value.id not in self._renamed
                and name not in self._known
            )
            if is_argument:
                self._renamed[value.id] = name
                self._known.discard(value.id)
                self._known.add(name)
            return is_argument
        if _BOXED_ARGUMENT.search(name) and isinstance(value, ast.List | ast.Tuple):
            # From 2.15 on: a list that the operator on the next line empties.
            self._boxed[name] = self._inputs(_names(value))
            return True
        operation = self._operation(value)
        if operation is None:
            return False
        text = self._text_of(value) if operation[0].startswith("call_") else None
        self._add(
            name, *operation, self._inputs(_names(value)), value=_annotated(annotation), text=text
        )
        return True

    def _operation(self, value: ast.expr) -> tuple[str, str] | None:
        match dotted_path(value), value:
            case ["self", _, *_] as path, _:
                return "get_attr", ".".join(path[1:])
            case [name, _], _ if name in self._known:
                return "call_function", "builtins.getattr"
            case [_, *_], _:
                return None
            case _, ast.Call(func=function):
                return self._called(function)
            case _, ast.Subscript():
                return "call_function", "operator.getitem"
            case _, ast.UnaryOp(
                op=ast.USub(), operand=ast.BinOp(op=ast.Pow(), left=ast.Constant())
            ):
                # Python parses -1 ** x as -(1 ** x); a negation's own operand is never a power.
                return "call_function", "operator.pow"
            case _, ast.UnaryOp(operand=ast.BinOp()):
                return None
            case _, ast.UnaryOp(op=op) | ast.BinOp(op=op) | ast.Compare(ops=[op]) if not isinstance(
                op, _NO_NODES
            ):
                return "call_function", f"operator.{_operator(op)}"
        return None

    def _called(self, function: ast.expr) -> tuple[str, str] | None:
        path = dotted_path(function)
        if path is None:
            return ("call_method", function.attr) if isinstance(function, ast.Attribute) else None
        name = ".".join(path)
        rest = ".".join(path[1:])
        if path[0] == "self" or path[0] in self._known:
            return ("call_module" if path[0] == "self" else "call_method", rest) if rest else None
        if path[0] == "torch":
            return "call_function", short_target(name)
        # The name of a function that isn't torch's is printed without dots.
        if rest:
            return None
        is_builtin = hasattr(builtins, name)
        name = f"builtins.{name}" if is_builtin else _OPERATOR_FUNCTION.sub("operator.", name)
        return "call_function", name

    def _add(self, name: str, opcode: str, target: str, inputs: list[str], **more: Any) -> None:  # noqa: ANN401
        file, line = (None, None) if opcode == "output" else self._place
        self._nodes.append(
            StageNode(
                name=name,
                opcode=opcode,
                target=target,
                inputs=tuple(inputs),
                file=file,
                line=line,
                **more,
            )
        )
        self._known.add(name)

    def _inputs(self, names: Iterable[str]) -> list[str]:
        inputs: dict[str, None] = {}
        for name in names:
            if name in self._known:
                inputs[name] = None
            elif name in self._boxed:
                inputs.update(dict.fromkeys(self._boxed[name]))
        return list(inputs)

    def _text_of(self, value: ast.expr) -> str:
        # Almost all are on a single line; ``ast.get_source_segment`` splits the whole text for
        # each.
        line = self._lines[value.lineno - 1]
        if value.end_lineno != value.lineno or not line.isascii():
            return short_target(ast.unparse(value))
        return short_target(line[value.col_offset : value.end_col_offset])


def _names(*parts: ast.expr | None) -> list[str]:
    walked = (node for part in parts if part is not None for node in ast.walk(part))
    nodes = [node for node in walked if isinstance(node, ast.Name)]
    return [node.id for node in sorted(nodes, key=lambda node: (node.lineno, node.col_offset))]


def _operator(kind: ast.operator | ast.unaryop | ast.cmpop) -> str:
    name = type(kind).__name__
    return _OPERATORS.get(name, name.lower())


def _is_deletion(statement: ast.stmt) -> bool:
    match statement:
        case ast.Assign(targets=targets, value=ast.Constant(value=None)):
            return all(isinstance(target, ast.Name) for target in targets)
    return False


def _named(statement: ast.stmt) -> tuple[str, ast.expr | None, ast.expr] | None:
    match statement:
        case ast.AnnAssign(
            target=ast.Name(id=name), annotation=annotation, value=ast.expr() as value
        ):
            return name, annotation, value
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name, None, value
    return None


def dotted_path(expression: ast.expr) -> list[str] | None:
    """The names in ``self.a.b``, also as ``getattr(self.a, "0")``; None for another expression."""
    names = []
    while not isinstance(expression, ast.Name):
        match expression:
            case ast.Attribute(value=owner, attr=name):
                pass
            case ast.Call(
                func=ast.Name(id="getattr"),
                args=[owner, ast.Constant(value=str(name))],
                keywords=[],
            ):
                pass
            case _:
                return None
        names.append(name)
        expression = owner
    return [expression.id, *reversed(names)]


def _annotated(annotation: ast.expr | None) -> str | None:
    return _value(annotation.value) if isinstance(annotation, ast.Constant) else None


def _value(text: object) -> str | None:
    if not isinstance(text, str):
        return None
    if match := _SYMBOL.match(text):
        return match["value"]
    if match := _TENSOR.match(text):
        device = match["device"] or "cpu"
        return f"{match['dtype']}[{match['shape']}]" + ("" if device == "cpu" else f" {device}")
    return text


# A graph that DDP's optimizer split.

_PARAMETER = re.compile(r"_parameters_(?!.*_modules_)")
_SIZED = re.compile(r"(?:bf|[fiubc])(?P<bits>\d+)\[(?P<shape>[\d, ]*)\]")


def split_of(split: SeenSplit, parameters: Mapping[str, str] | None) -> DdpSplit:
    """Return a split graph's parts, their parameters, and what crosses between them.

    Args:
        split: The graph and its parts as torch printed them.
        parameters: Expressions of the graph's parameters by the lower-case names of its inputs;
            None if they aren't known, so that names have to tell.
    """
    outside = {name.lower() for name in _argument_bytes(parse_graph(split.code))}
    crossing: dict[str, int | None] = {}
    buckets = []
    for name, code in split.parts:
        # The body of a checkpoint or a ``torch.cond`` is in the part that calls it, and is listed
        # beside it.
        if not name.startswith("submod_"):
            continue
        part = parse_graph(code)
        sizes = {}
        for argument, size in _argument_bytes(part).items():
            if argument.lower() not in outside:
                crossing[argument] = size
            elif parameters is None and _PARAMETER.search(argument):
                sizes[argument] = size
            elif parameters is not None and argument.lower() in parameters:
                sizes[parameters[argument.lower()]] = size
        buckets.append(
            DdpBucket(
                name=name,
                parameters=tuple(sizes),
                parameter_bytes=whole_sum(sizes.values()),
                op_count=sum(node.opcode.startswith("call_") for node in part.nodes),
            )
        )
    return DdpSplit(
        compile_id=split.compile_id,
        buckets=tuple(buckets),
        crossing_count=len(crossing),
        crossing_bytes=whole_sum(crossing.values()),
    )


def _argument_bytes(graph: PrintedGraph) -> dict[str, int | None]:
    """The tensors that a graph takes, by name; None for an unknown size."""
    sizes: dict[str, int | None] = {}
    for node in graph.nodes:
        if node.opcode == "placeholder" and "[" in (value := node.value or ""):
            sized = _SIZED.match(value)
            dims = map(int, re.findall(r"\d+", sized["shape"])) if sized else ()
            sizes[node.target] = math.prod(dims) * int(sized["bits"]) // 8 if sized else None
    return sizes
