"""Reads what surrounds a line of Python source: qualified name, statements around it, names that have a value.

Standard library only. A file that can't be read or parsed yields None; its content raises nothing here. A name isn't
listed if it isn't certain that it has a value just before the statement.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from ...facts.recording import Enclosing, EnclosingKind, SourceContext

_MAX_STATEMENT_LINES = 12
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_KINDS: dict[type[ast.AST], EnclosingKind] = {
    ast.For: "for",
    ast.AsyncFor: "for",
    ast.While: "while",
    ast.Try: "try",
    ast.TryStar: "try",
    ast.With: "with",
    ast.AsyncWith: "with",
    ast.If: "if",
    ast.ListComp: "comprehension",
    ast.SetComp: "comprehension",
    ast.DictComp: "comprehension",
    ast.GeneratorExp: "comprehension",
}
_CODE_NAMES: dict[str, tuple[type[ast.AST], ...]] = {
    "<lambda>": (ast.Lambda,),
    "<listcomp>": (ast.ListComp,),
    "<setcomp>": (ast.SetComp,),
    "<dictcomp>": (ast.DictComp,),
    "<genexpr>": (ast.GeneratorExp,),
}
"""Code objects without a name of their own; Python 3.12 made the comprehensions part of their function."""


class SourceReader:
    """Parses each file once, and reads each place once: a program that goes on recompiling asks for the same ones."""

    def __init__(self) -> None:
        self._trees: dict[str, ast.Module | None] = {}
        self._contexts: dict[tuple[str, int, str | None], SourceContext | None] = {}

    def context(self, file: str, line: int, code_name: str | None = None) -> SourceContext | None:
        """What surrounds a line.

        ``file``: path, or a name that ``linecache`` knows, such as a notebook cell.
        ``code_name``: name of the code object that the line ran in. A line can hold several: the name says whether a
        lambda or a comprehension is meant.

        Returns:
            What surrounds it, or None when the source can't be read.
        """
        place = (file, line, code_name)
        if place not in self._contexts:
            self._contexts[place] = self._read_context(*place)
        return self._contexts[place]

    def _read_context(self, file: str, line: int, code_name: str | None) -> SourceContext | None:
        tree = self._tree(file)
        if tree is None or line < 1:
            return None
        path = _path_to(tree, line, _CODE_NAMES.get(code_name or "", ()))
        function_at = max((i for i, node in enumerate(path) if isinstance(node, _FUNCTIONS)), default=None)
        names = [_name(node) for node in path if isinstance(node, (ast.ClassDef, *_FUNCTIONS))]
        inner = path[function_at + 1 :] if function_at is not None else path[1:]
        statement = next((node for node in reversed(inner) if isinstance(node, ast.stmt)), None)
        lines = linecache.getlines(file)
        if statement is None:
            text = lines[line - 1].strip() if line <= len(lines) else ""
        else:
            last = min(statement.end_lineno or line, statement.lineno + _MAX_STATEMENT_LINES - 1)
            text = textwrap.dedent("".join(lines[statement.lineno - 1 : last])).rstrip()
        enclosing = tuple(
            Enclosing(kind=kind, line=node.lineno, text=lines[node.lineno - 1].strip())  # type: ignore[attr-defined]
            for node in reversed(inner)
            if (kind := _KINDS.get(type(node)))
        )
        function = path[function_at] if function_at is not None else None
        return SourceContext(
            file=file,
            line=line,
            qualname=".".join(names) or "<module>",
            function_line=getattr(function, "lineno", None),
            statement=text,
            statement_line=statement.lineno if statement else None,
            statement_end_line=statement.end_lineno if statement else None,
            readable=tuple(readable_names(path, statement)) if statement else (),
            torch=torch_name(path, statement) if statement else None,
            enclosing=enclosing,
        )

    def boolean_operation(self, file: str, line: int, column: int) -> tuple[int, int | None] | None:
        """The outermost ``and``/``or`` around a place.

        CPython gives the jump of each operand the position of the one before it (3.11, ``dis.Positions`` of
        ``if a is not None and b:``), so for a branch on several operands only the whole is certain.

        ``column``: 0-based, in UTF-8 bytes.

        Returns:
            Start and end on its first line, 0-based in bytes; the end is None when it continues on another line.
        """
        tree = self._tree(file)
        if tree is None:
            return None
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.BoolOp)
                and node.lineno == line
                and node.col_offset <= column
                and (node.end_lineno != line or column < (node.end_col_offset or 0))
            ):
                return node.col_offset, node.end_col_offset if node.end_lineno == line else None
        return None

    def _tree(self, file: str) -> ast.Module | None:
        if file not in self._trees:
            try:
                self._trees[file] = ast.parse("".join(linecache.getlines(file)) or "!")
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._trees[file] = None
        return self._trees[file]


def _path_to(tree: ast.Module, line: int, meant: tuple[type[ast.AST], ...]) -> list[ast.AST]:
    """The nodes from the module down to the innermost one on a line, outermost first.

    If several branches are on the line: the first with a node of the kind that is meant, otherwise the first.
    """
    path: list[ast.AST] = [tree]
    while True:
        children = [child for child in _children(path[-1]) if _covers(child, line)]
        if not children:
            return path
        path.append(next((child for child in children if meant and _holds(child, line, meant)), children[0]))


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The child nodes that have a line; a function's arguments or a ``match``'s case have none."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.arguments, ast.withitem, ast.match_case, ast.comprehension)):
            yield from _children(child)
        else:
            yield child


def _covers(node: ast.AST, line: int) -> bool:
    first = _first_line(node)
    return first is not None and first <= line <= (getattr(node, "end_lineno", None) or first)


def _holds(node: ast.AST, line: int, kinds: tuple[type[ast.AST], ...]) -> bool:
    return any(isinstance(inner, kinds) and _covers(inner, line) for inner in ast.walk(node))


def _first_line(node: ast.AST) -> int | None:
    """Where a node starts; a decorated definition starts at its first decorator, as its code object does."""
    decorators = getattr(node, "decorator_list", None)
    if decorators:
        return int(decorators[0].lineno)
    return getattr(node, "lineno", None)


def _name(node: ast.AST) -> str:
    return getattr(node, "name", "<lambda>")


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BUILTINS = frozenset(dir(builtins))

_Bound = set[str] | None
"""Names that are bound; None where the code is never reached."""


def readable_names(path: Sequence[ast.AST], statement: ast.stmt) -> tuple[str, ...]:
    """The names in a statement, built-in ones aside, that certainly have a value just before it, in order."""
    scope = _Scope(path, statement)
    found = (node.id for node in ast.walk(statement) if isinstance(node, ast.Name))
    return tuple(dict.fromkeys(name for name in found if name not in _BUILTINS and scope.has(name)))


def torch_name(path: Sequence[ast.AST], statement: ast.stmt) -> str | None:
    """What the torch package is called just before a statement: ``torch``, an alias, or None where it can't be read."""
    scope = _Scope(path, statement)
    names = dict.fromkeys(
        alias.asname or "torch"
        for node in path
        if isinstance(node, (ast.Module, *_FUNCTIONS))
        for inner in _own(node)
        if isinstance(inner, ast.Import)
        for alias in inner.names
        if alias.name == "torch" or (alias.asname is None and alias.name.startswith("torch."))
    )
    return next((name for name in names if scope.has(name) and not scope.is_rebound(name)), None)


class _Scope:
    """The scopes around a statement."""

    def __init__(self, path: Sequence[ast.AST], statement: ast.stmt) -> None:
        self._around = [node for node in path if isinstance(node, (ast.Module, *_FUNCTIONS))]
        inner = self._around[-1]
        self._locals: set[str] = set()
        self._before: set[str] = set()
        if isinstance(inner, ast.Module):
            self._locals = _bindings(inner)
            self._before = _before(inner.body, statement, set()) or set()
        else:
            parameters = _parameters(inner.args)
            self._locals = _bindings(inner) | parameters
            body = [] if isinstance(inner, ast.Lambda) else inner.body
            self._before = _before(body, statement, parameters) or set()

    def has(self, name: str) -> bool:
        """Whether a name can be read just before the statement."""
        if name in self._locals:
            return name in self._before
        return any(name in _visible(scope) for scope in self._around[:-1])

    def is_rebound(self, name: str) -> bool:
        """Whether something other than an import binds the name in the scope that it is read from."""
        for scope in reversed(self._around):
            if name in _visible(scope):
                return name in _bindings(scope, imports=False)
        return False


def _visible(scope: ast.AST) -> set[str]:
    own = _parameters(scope.args) if isinstance(scope, _FUNCTIONS) else set()
    return own | _bindings(scope)


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, (ast.ClassDef, *_FUNCTIONS, *_COMPREHENSIONS)):
            yield from _own(child)


def _bindings(scope: ast.AST, *, imports: bool = True) -> set[str]:
    """Names that a scope binds anywhere, but those that it declares as another scope's."""
    found: set[str] = set()
    others: set[str] = set()
    for node in _own(scope):
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            others |= set(node.names)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= _targets(node) if imports else set()
        else:
            found |= _targets(node)
    if isinstance(scope, _FUNCTIONS) and not imports:
        found |= _parameters(scope.args)
    return found - others


def _targets(node: ast.AST) -> set[str]:
    """The names that one node itself binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return {name}
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {(alias.asname or alias.name).partition(".")[0] for alias in aliases}
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return {name}
        case ast.MatchMapping(rest=str(name)):
            return {name}
    return set()


def _all_targets(nodes: Iterable[ast.AST | None]) -> set[str]:
    return {name for node in nodes if node is not None for inner in ast.walk(node) for name in _targets(inner)}


def _parameters(arguments: ast.arguments) -> set[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return {parameter.arg for parameter in every if parameter is not None}


def _before(body: Sequence[ast.stmt], wanted: ast.stmt, bound: set[str]) -> set[str] | None:
    """The names bound where a statement starts; None if it isn't in this body."""
    for one in body:
        if one is wanted:
            return bound
        for inner, at in _inside(one, bound):
            found = _before(inner, wanted, at)
            if found is not None:
                return found
        after = _after(one, bound)
        bound = set() if after is None else after
    return None


def _inside(one: ast.stmt, bound: set[str]) -> Iterator[tuple[Sequence[ast.stmt], set[str]]]:
    """The bodies of a compound statement, each with the names bound where it starts."""
    removed = {name for node in ast.walk(one) if isinstance(node, ast.Delete) for name in _all_targets(node.targets)}
    match one:
        case ast.If():
            yield one.body, bound
            yield one.orelse, bound
        case ast.For() | ast.AsyncFor():
            yield one.body, (bound - removed) | _all_targets([one.target])
            yield one.orelse, bound - removed
        case ast.While():
            yield one.body, bound - removed
            yield one.orelse, bound - removed
        case ast.With() | ast.AsyncWith():
            yield one.body, bound | _all_targets(item.optional_vars for item in one.items)
        case ast.Try() | ast.TryStar():
            yield one.body, bound
            for handler in one.handlers:
                yield handler.body, (bound - removed) | ({handler.name} if handler.name else set())
            yield one.orelse, _run(one.body, bound) or set()
            yield one.finalbody, bound - removed
        case ast.Match():
            for case in one.cases:
                yield case.body, bound | _all_targets([case.pattern])


def _run(body: Sequence[ast.stmt], bound: _Bound) -> _Bound:
    """The names bound after a body."""
    for one in body:
        if bound is None:
            return None
        bound = _after(one, bound)
    return bound


def _after(one: ast.stmt, bound: set[str]) -> _Bound:
    """The names bound after a statement."""
    match one:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return None
        case ast.Delete():
            return bound - _all_targets(one.targets)
        case ast.If():
            return _either(_run(one.body, bound), _run(one.orelse, bound))
        case ast.For() | ast.AsyncFor() | ast.While() | ast.Match():
            # The body may not run at all, and may remove names.
            removed = [node for node in ast.walk(one) if isinstance(node, ast.Delete)]
            return bound - _all_targets(target for node in removed for target in node.targets)
        case ast.With() | ast.AsyncWith():
            inside = bound | _all_targets(item.optional_vars for item in one.items)
            # A manager such as `suppress` may end the body early.
            is_plain = all("suppress" not in ast.unparse(item.context_expr) for item in one.items)
            return _run(one.body, inside) if is_plain else inside
        case ast.Try() | ast.TryStar():
            whole = _run(one.orelse, _run(one.body, bound))
            for handler in one.handlers:
                whole = _either(whole, _run(handler.body, bound))
            return whole if whole is None else _run(one.finalbody, whole)
        case ast.AnnAssign(value=None):
            return bound
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            targets = one.targets if isinstance(one, ast.Assign) else [one.target]
            return bound | _all_targets(targets)
    return bound | _targets(one)


def _either(one: _Bound, other: _Bound) -> _Bound:
    if one is None or other is None:
        return other if one is None else one
    return one & other
