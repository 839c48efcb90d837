"""Parses a graph that torch printed, as ``torch/fx/graph.py`` (``CodeGen``), 2.13 and 2.15, does.

Each node is a Python statement, usually on a line of its own; a comment above it has the source
line that it comes from. Bodies of higher-order operators, printed as classes inside, are left out;
unknown lines are counted.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from graphdoctor.facts.picture import StageNode

_CLASS = re.compile(r"^(?P<indent> *)class \S+\(torch\.nn\.Module\):$")
_SIGNATURE = re.compile(r"^ *def \w+\(")
_SIGNATURE_END = re.compile(r"^ *\).*:$")
_WRAP = re.compile(r'^ *wrap\("\w+"\)$')
_PLACE = re.compile(r"\bFile: (?P<file>\S.*?):(?P<line>\d+) in [^,]+?, code: ")
_NO_PLACE = "No stacktrace found for following nodes"
_STATEMENT = re.compile(
    r' *(?:#|class |return\b|"""|\w+(?: ?: ?"[^"]*")? = |[\w.]+\[|\w+ \S{1,2}= )'
)
"""The beginning of another node's line, where a statement of several lines ends at the latest."""
_OBJECT = re.compile(r"<(?=[A-Za-z_])[^<>\n]*>")
"""Python's own text for an object, such as ``<Color.RED: 1>``; torch prints operators with a space
after them."""
_TENSOR = re.compile(
    r"^(?:\w+\()?(?P<dtype>[a-z]\w*)\[(?P<shape>[^\[\]]*)\](?:\[[^\[\]]*\])?(?P<device>[a-z][\w:]*)?"
)
_SYMBOL = re.compile(r"^Sym\((?P<value>.*)\)$")
_BOXED_ARGUMENT = re.compile(r"_boxed_arg_\d+(?:_\d+)?$")
_OPERATOR_FUNCTION = re.compile(r"^_operator_(?=[a-z])")

_NUMBER = r"-?(?:0|[1-9]\d*)(?:\.\d*)?(?:e[+-]?\d+)?"
_ATOM = rf"(?:[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*|{_NUMBER})"
_ATOMS = rf"(?:{_ATOM}(?:, {_ATOM})*+)?"
_ARGUMENT = rf"(?:\[{_ATOMS}\]|device\(type='\w+'(?:, index=\d+)?\)|{_ATOM})"
_CALL = re.compile(
    r"(?P<name>[A-Za-z_]\w*)(?:: \"(?P<value>[^\"\\]*)\")? = "
    rf"(?P<call>(?P<target>torch(?:\.[A-Za-z_]\w*)+)\((?P<arguments>(?:{_ARGUMENT}(?:,"
    rf" {_ARGUMENT}(?! ?=))*+)?"
    rf"(?:(?:, |(?<=\())[A-Za-z_]\w* ?= ?{_ARGUMENT})*+)\))(?:;  (?:[A-Za-z_]\w* = )++None)?",
    re.ASCII,
)
"""A call of one of torch's functions, as most statements are: reading these as Python takes several
times as long."""
_INPUT = re.compile(r"(?<![\w.'])(?:[A-Za-z_]\w*)(?!\w| ?=|\()", re.ASCII)
"""A name in the arguments of such a call, without those of keyword arguments and functions."""

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
_KEYWORDS = frozenset(keyword.kwlist) - {"None", "True", "False"}
_MEANT = frozenset({"torch", "device"})
"""Names that mean what torch means by them, unless a node has them."""


@dataclass(frozen=True)
class PrintedGraph:
    """A parsed graph."""

    nodes: tuple[StageNode, ...]
    unread_lines: int = 0


def parse_graph(text: str, names_file: Callable[[str], bool] = lambda _file: True) -> PrintedGraph:
    """Parse a printed graph."""
    reader = _Reader(names_file)
    with warnings.catch_warnings():
        # Python warns about unknown escapes in strings.
        warnings.simplefilter("ignore")
        reader.read(text.split("\n"))
    return PrintedGraph(reader.nodes(), reader.unread_lines)


def short_target(target: str) -> str:
    """A target as ``str(operator)`` prints it, such as ``aten.mm.default``."""
    return target.removeprefix("torch.ops.")


def _parsed(text: str) -> list[ast.stmt] | None:
    try:
        return compile(text, "<graph>", "exec", ast.PyCF_ONLY_AST, dont_inherit=True).body  # type: ignore[no-any-return,attr-defined]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


class _Reader:
    def __init__(self, names_file: Callable[[str], bool]) -> None:
        self.unread_lines = 0
        self._names_file = names_file
        self._place: tuple[str | None, int | None] = None, None
        # Placeholders by their names in the signature.
        self._arguments: dict[str, str | None] = {}
        self._announced: dict[str, str | None] = {}
        self._renamed: dict[str, str] = {}
        self._known: set[str] = set()
        self._boxed: dict[str, list[str]] = {}
        self._nodes: list[StageNode] = []
        self._text = ""

    def nodes(self) -> tuple[StageNode, ...]:
        placeholders = (
            StageNode(
                name=self._renamed.get(name, name), opcode="placeholder", target=name, value=value
            )
            for name, value in self._arguments.items()
        )
        return (*placeholders, *self._nodes)

    def read(self, lines: Sequence[str]) -> None:
        at = self._read_head(lines)
        while at < len(lines) and not _CLASS.match(line := lines[at]):
            text = line.strip()
            if text.startswith("#"):
                place = _PLACE.search(line)
                is_named = place is not None and self._names_file(place["file"])
                self._place = (
                    (place["file"], int(place["line"][:9])) if place and is_named else (None, None)
                )
                self.unread_lines += place is None and _NO_PLACE not in line
            elif text == '"""':
                # FX_GRAPH_SHOW_META prints a node's metadata.
                ends = (n for n in range(at + 1, len(lines)) if lines[n].strip() == '"""')
                at = next(ends, len(lines))
            elif text:
                at = self._read_statement(lines, at)
                continue
            at += 1
        # What follows is the body of a higher-order operator, whose names are its own.

    def _read_head(self, lines: Sequence[str]) -> int:
        is_class = False
        for at, line in enumerate(lines):
            if is_class and _SIGNATURE.match(line):
                return self._read_signature(lines, at)
            is_head = not is_class and _CLASS.match(line) is not None
            is_class |= is_head
            self.unread_lines += bool(line.strip()) and not is_head and not _WRAP.match(line)
        return len(lines)

    def _read_signature(self, lines: Sequence[str], at: int) -> int:
        end = at + 1
        if not lines[at].rstrip().endswith(":"):
            while end < len(lines) and not _SIGNATURE_END.match(lines[end]):
                end += 1
            end = min(end + 1, len(lines))
        match _parsed("\n".join(lines[at:end]).strip() + "\n  pass"):
            case [ast.FunctionDef(args=parts), *_]:
                named = (
                    *parts.posonlyargs,
                    *parts.args,
                    parts.vararg,
                    *parts.kwonlyargs,
                    parts.kwarg,
                )
                self._take_arguments(
                    {
                        item.arg: _value(item.annotation)
                        for item in named
                        if item and item.arg != "self"
                    }
                )
            case _:
                self.unread_lines += end - at
        return end

    def _take_arguments(self, arguments: dict[str, str | None]) -> None:
        self._arguments = arguments
        self._known = set(arguments)

    def _read_statement(self, lines: Sequence[str], at: int) -> int:
        end = at + 1
        text = lines[at].strip()
        if self._read_call(text):
            return end
        body = _parsed(text)
        if body is None:
            indent = _indent(lines[at])
            while end < len(lines) and (
                not _STATEMENT.match(lines[end]) or _indent(lines[end]) > indent
            ):
                end += 1
            text = "\n".join(lines[at:end]).strip()
            body = _parsed(text)
        if body is None:
            text = _OBJECT.sub("...", text)
            body = _parsed(text)
        self._text = text
        if body is None or not self._take(body):
            self.unread_lines += sum(bool(line.strip()) for line in lines[at:end])
        return end

    def _read_call(self, text: str) -> bool:
        match = _CALL.fullmatch(text) if text.isascii() else None
        if match is None or not self._known.isdisjoint(_MEANT):
            return False
        names = dict.fromkeys(_INPUT.findall(match["arguments"]))
        if not _KEYWORDS.isdisjoint((*names, match["name"], *match["target"].split("."))):
            return False
        value = None if match["value"] is None else _value_of(match["value"])
        target = short_target(match["target"])
        text = short_target(match["call"])
        self._add(
            match["name"], "call_function", target, self._known_among(names), value=value, text=text
        )
        return True

    def _take(self, body: list[ast.stmt]) -> bool:
        match [statement for statement in body if not _is_deletion(statement)]:
            case [] | [ast.Pass()]:
                return True
            case [ast.Return(value=value), *rest]:
                # Its name isn't printed.
                name = "output"
                number = 0
                while name in self._known:
                    number += 1
                    name = f"output_{number}"
                self._add(name, "output", "", self._inputs(value))
                return not rest
            case [ast.AnnAssign(value=None), *_] as announced:
                for item in announced:
                    match item:
                        case ast.AnnAssign(target=ast.Name(id=name), value=None):
                            self._announced[name] = _value(item.annotation)
                        case _:
                            return False
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
            case [ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call(func=function)), *_]:
                if dotted_path(function) != ["fx_pytree", "tree_flatten_spec"]:
                    return False
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
        inputs = self._inputs(*parts)
        self._add(node, "call_function", f"operator.{name}", inputs, value=_value(annotation))
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
            self._boxed[name] = self._inputs(value)
            return True
        operation = self._operation(value)
        if operation is None:
            return False
        text = _text_of(value, self._text) if operation[0].startswith("call_") else None
        self._add(name, *operation, self._inputs(value), value=_value(annotation), text=text)
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

    def _add(
        self,
        name: str,
        opcode: str,
        target: str,
        inputs: Sequence[str],
        *,
        value: str | None = None,
        text: str | None = None,
    ) -> None:
        file, line = (None, None) if opcode == "output" else self._place
        self._nodes.append(
            StageNode(
                name=name,
                opcode=opcode,
                target=target,
                inputs=tuple(inputs),
                value=value,
                file=file,
                line=line,
                text=text,
            )
        )
        self._known.add(name)

    def _inputs(self, *parts: ast.expr | None) -> list[str]:
        walked = (node for part in parts if part is not None for node in ast.walk(part))
        nodes = [node for node in walked if isinstance(node, ast.Name)]
        nodes.sort(key=lambda node: (node.lineno, node.col_offset))
        return self._known_among(node.id for node in nodes)

    def _known_among(self, names: Iterable[str]) -> list[str]:
        inputs: dict[str, None] = {}
        for name in names:
            if name in self._known:
                inputs[name] = None
            elif name in self._boxed:
                inputs.update(dict.fromkeys(self._boxed[name]))
        return list(inputs)


def _text_of(value: ast.expr, text: str) -> str:
    if value.end_lineno != value.lineno or not text.isascii():
        return short_target(ast.unparse(value))
    # All statements but a few are a single line; ``ast.get_source_segment`` takes several times as
    # long.
    line = text if "\n" not in text else text.split("\n")[value.lineno - 1]
    return short_target(line[value.col_offset : value.end_col_offset])


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


def _value(annotation: ast.expr | None) -> str | None:
    if not (isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)):
        return None
    return _value_of(annotation.value)


def _value_of(text: str) -> str:
    if match := _SYMBOL.match(text):
        return match["value"]
    if match := _TENSOR.match(text):
        device = match["device"] or "cpu"
        return f"{match['dtype']}[{match['shape']}]" + ("" if device == "cpu" else f" {device}")
    return text


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
