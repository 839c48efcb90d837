"""Lines that ask whether torch.compile is at work while Dynamo traces them, as
``graphdoctor_tracing_branch``.

A function that only passes the answer on is a helper: the line that calls it asks, by the helper's
name. A condition's values are those that follow from the answers alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from traceback import FrameSummary
from typing import NamedTuple

from ...facts.base import Fields
from ...wording import clipped
from ..torch_private.torch_api import Undo, write_artifact
from ..torch_private.torch_questions import TracedFrame, watch_questions
from .listener import TraceListener, stack_entries

_MOST_BRANCHES = 200
_MAX_TEXT = 100

_YES_OR_NO = frozenset(("is", "has", "can", "in", "should", "use", "uses", "bool", "any", "all"))
"""First words of the names of functions that return a bool."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class _Answer(NamedTuple):
    """The truth of an expression; None if it depends on more than the questions in it."""

    eager: bool | None
    compiled: bool | None
    is_answered_alike: bool
    """True if no question in it has another answer in compiled code."""


class BranchRecorder:
    """Records each such line once, and again when more of its condition is answered."""

    def __init__(self, listener: TraceListener) -> None:
        self._listener = listener
        self._answers: dict[ast.AST, _Answer] = {}
        self._written: dict[tuple[str, int, str], Fields] = {}

    def install(self) -> Undo:
        """Begin to listen."""
        return watch_questions(self._on_question)

    def _on_question(self, asks: str, compiled: object, frames: Sequence[TracedFrame]) -> None:
        answer = _Answer(False, bool(compiled), is_answered_alike=not compiled)
        callers = [frame for frame in frames if not frame.is_torch]
        for frame in callers:
            file = frame.code.co_filename
            path = self._listener.sources.expression_path(file, frame.positions)
            self._answers[path[-1]] = answer
            condition = _condition(path)
            passed = self._passed_on(path, condition)
            if passed is None or frame is callers[-1]:
                self._write(frame, condition, asks)
                return
            answer = passed
            # A decorator's function has no name that the program uses.
            if "<locals>" not in frame.code.co_qualname:
                asks = f"{frame.module}.{frame.code.co_qualname}"

    def _write(self, frame: TracedFrame, condition: ast.AST, asks: str) -> None:
        code, positions = frame.code, frame.positions
        line = (positions and positions.lineno) or code.co_firstlineno
        columns = (None, None) if positions is None else positions[2:4]
        place = FrameSummary(
            code.co_filename,
            line,
            code.co_name,
            lookup_line=False,
            colno=columns[0],
            end_colno=columns[1],
        )
        text = f"{asks}()" if isinstance(condition, ast.Module) else ast.unparse(condition)
        text = clipped(text, _MAX_TEXT)
        key = code.co_filename, line, text
        answer = self._answer_of(condition)
        branch = {"location": stack_entries([place])[0], "asks": asks, "text": text}
        branch |= answer._asdict()
        earlier = self._written.get(key)
        if earlier == branch or (earlier is None and len(self._written) >= _MOST_BRANCHES):
            return
        self._written[key] = branch
        write_artifact("graphdoctor_tracing_branch", branch)
        self._listener.want_source(code.co_filename, line, code.co_name)

    def _answer_of(self, condition: ast.AST) -> _Answer:
        asked = {node: it for node in ast.walk(condition) if (it := self._answers.get(node))}
        return _Answer(
            _truth(condition, {node: it.eager for node, it in asked.items()}),
            _truth(condition, {node: it.compiled for node, it in asked.items()}),
            all(it.is_answered_alike for it in asked.values()),
        )

    def _passed_on(self, path: Sequence[ast.AST], condition: ast.AST) -> _Answer | None:
        """Return what a function returns that only passes on the answer; None if it does more."""
        outer = path[: path.index(condition)]
        answer = self._answer_of(condition)
        function = next((node for node in reversed(outer) if isinstance(node, _FUNCTIONS)), None)
        returned = [] if function is None else list(_returned(function))
        match outer[-1:]:
            case [ast.Lambda()] if self._is_bool(condition):
                return answer
            case [ast.Return()] if self._is_bool(condition) and returned == [condition]:
                return answer
            case [ast.Assign(targets=[ast.Name(id=name)])] if self._is_bool(condition):
                return _of_name(name, function, returned, answer)
            case [ast.If(body=[ast.Return(value=ast.Constant(value=bool(yes)))]) as branch]:
                no = _constant_returned(branch.orelse or _statements_after(branch, outer[-2]))
                if no is not None and len(returned) == 2:
                    truths = {True: yes, False: no, None: None}
                    eager, compiled = truths[answer.eager], truths[answer.compiled]
                    return answer._replace(eager=eager, compiled=compiled)
        return None

    def _is_bool(self, node: ast.AST) -> bool:
        """Tell whether an expression is a bool, as far as its form and names say so."""
        if node in self._answers:
            return True
        match node:
            case ast.BoolOp(values=values):
                return all(map(self._is_bool, values))
            case ast.UnaryOp(op=op):
                return isinstance(op, ast.Not)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                return name.lstrip("_").partition("_")[0] in _YES_OR_NO or name == "isinstance"
        is_name = isinstance(node, ast.Compare | ast.Name | ast.Attribute)
        return is_name or _is_constant_bool(node) or _picks_bool(node)


def _condition(path: Sequence[ast.AST]) -> ast.AST:
    """Return the whole condition that the last node is in."""
    at = len(path) - 1
    inner = (ast.BoolOp, ast.UnaryOp, ast.Compare, ast.NamedExpr)
    while at and (isinstance(path[at - 1], inner) or _picks_bool(path[at - 1])):
        at -= 1
    return path[at]


def _truth(node: ast.AST, known: Mapping[ast.AST, bool | None]) -> bool | None:
    """Return the truth of an expression; None if that doesn't follow from the ``known`` ones."""
    if node in known:
        return known[node]
    match node:
        case ast.Constant(value=value):
            return bool(value)
        case ast.NamedExpr(value=value):
            return _truth(value, known)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            truth = _truth(operand, known)
            return None if truth is None else not truth
        case ast.BoolOp(op=op, values=values):
            truths = [_truth(value, known) for value in values]
            decisive = isinstance(op, ast.Or)
            if decisive in truths:
                return decisive
            return None if None in truths else not decisive
        case ast.IfExp(test=test, body=body, orelse=orelse):
            truth = _truth(test, known)
            return None if truth is None else _truth(body if truth else orelse, known)
    return None


def _is_constant_bool(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool | None)


def _picks_bool(node: ast.AST) -> bool:
    """Tell whether an expression is such as ``True if test else False``."""
    return isinstance(node, ast.IfExp) and all(map(_is_constant_bool, (node.body, node.orelse)))


def _returned(node: ast.AST) -> Iterator[ast.AST | None]:
    """Yield what a function returns, apart from where it handles an exception."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return):
            yield child.value
        elif not isinstance(child, (ast.ExceptHandler, *_FUNCTIONS)):
            yield from _returned(child)


def _of_name(
    name: str, function: ast.AST | None, returned: Sequence[ast.AST | None], answer: _Answer
) -> _Answer | None:
    """Return what a function returns that assigns the answer to a name; None if it uses the name
    for more, or returns something else.
    """
    nodes = [] if function is None else list(ast.walk(function))
    named = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
    read = [node for node in named if isinstance(node.ctx, ast.Load)]
    if not read or set(read) != set(returned):
        return None
    added = [
        node.target
        for node in nodes
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.BitOr)
    ]
    others = [node for node in named if node not in read and node not in added]
    if len(others) > 1:
        return answer._replace(eager=None, compiled=None)
    if len(others) + len(read) < len(named):
        # `name |= more` keeps what is true.
        return answer._replace(eager=answer.eager or None, compiled=answer.compiled or None)
    return answer


def _constant_returned(statements: Sequence[ast.stmt]) -> bool | None:
    """Return the bool that statements begin with returning; None for anything else."""
    match statements:
        case [ast.Return(value=ast.Constant(value=bool(value))), *_]:
            return value
    return None


def _statements_after(statement: ast.stmt, outer: ast.AST) -> Sequence[ast.stmt]:
    for block in ("body", "orelse", "finalbody"):
        statements: list[ast.stmt] = getattr(outer, block, [])
        if statement in statements:
            return statements[statements.index(statement) + 1 :]
    return []
