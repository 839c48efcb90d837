"""Which functions of a file torch compiles: those passed to torch.compile, and the functions they certainly call.

A function counts only if nothing but torch.compile and decorators known to be harmless comes between its definition
and the call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from graphdoctor.lint.flow import certain_nodes
from graphdoctor.lint.program import Binding, ClassInfo, Program, Scope
from graphdoctor.lint.values import UNWRAPPED, Values

_COMPILE = ("torch.compile", "torch._dynamo.optimize", "torch._dynamo.optimize_assert")
_DISABLE = ("torch.compiler.disable", "torch._dynamo.disable")
_HARMLESS = (
    "torch.no_grad", "torch.enable_grad", "torch.autograd.no_grad", "builtins.staticmethod", "builtins.classmethod",
    "typing.override", "typing_extensions.override", "abc.abstractmethod",
)  # fmt: skip
_PARTIAL = "functools.partial"


@dataclass(frozen=True)
class Region:
    """A function that torch traces.

    Args:
        scope: The function.
        owner: The class of the object that it's called on; None for a plain function.
        is_fullgraph: Compiled with ``fullgraph=True``, so a break in it is an error.
    """

    scope: Scope
    owner: ClassInfo | None = None
    is_fullgraph: bool = False


def regions(program: Program, values: Values, recorded: Iterable[str] = ()) -> list[Region]:
    """Every function of a file that torch compiles.

    Args:
        program: The file.
        values: Says what its expressions are.
        recorded: Qualified names of the file's functions that torch traced in a recording.

    Returns:
        Each function once, in file order.
    """
    finder = _Finder(program, values)
    found: dict[Scope, Region] = {}
    waiting = [*finder.compiled(), *finder.named(set(recorded))]
    while waiting:
        region = waiting.pop()
        known = found.get(region.scope)
        if known is not None and (known.is_fullgraph or not region.is_fullgraph):
            continue
        found[region.scope] = region
        waiting += finder.called(region)
    return sorted(found.values(), key=lambda region: getattr(region.scope.node, "lineno", 0))


class _Finder:
    """Finds roots and calls in one file."""

    def __init__(self, program: Program, values: Values) -> None:
        self._program = program
        self._values = values
        self._disabled = {
            _last(one)
            for node in ast.walk(program.module.node)
            if isinstance(node, ast.Call) and program.dotted(node.func, program.module) in _DISABLE
            for one in node.args
        }
        """Names that are passed to torch.compiler.disable anywhere in the file."""

    def compiled(self) -> Iterator[Region]:
        """The functions passed to torch.compile."""
        for node, scope in list(self._program.scopes.items()):
            if isinstance(node, ast.Module):
                continue
            outer = scope.parent or scope
            calls = [call for one in scope.decorators if (call := self._compiler(one, outer)) is not None]
            if calls and self._is_plain(scope):
                yield Region(scope, scope.owner, any(_is_fullgraph(call) for call in calls))
        for scope in list(self._program.scopes.values()):
            for node in _own_nodes(scope.node):
                if isinstance(node, ast.Call):
                    yield from self._handed(node, scope)

    def named(self, qualnames: set[str]) -> Iterator[Region]:
        """The functions with these names, unless two share one."""
        by_name: dict[str, list[Scope]] = {}
        for scope in self._program.scopes.values():
            by_name.setdefault(scope.qualname, []).append(scope)
        for qualname in sorted(qualnames):
            if qualname != "<module>" and len(found := by_name.get(qualname, [])) == 1:
                yield Region(found[0], found[0].owner)

    def called(self, region: Region) -> Iterator[Region]:
        """The functions of the file that a region certainly calls."""
        for node, _ in certain_nodes(region.scope, self._program):
            if isinstance(node, ast.Call):
                for scope, owner in self._callees(node, region):
                    if self._is_traced(scope):
                        yield Region(scope, owner, region.is_fullgraph)

    def _callees(self, node: ast.Call, region: Region) -> Iterator[tuple[Scope, ClassInfo | None]]:
        scope, func = region.scope, node.func
        if isinstance(func, ast.Name):
            definition = self._program.definition(func.id, scope)
            if isinstance(definition, Scope):
                yield definition, None
                return
            if isinstance(definition, ClassInfo):
                return
        if isinstance(func, ast.Attribute):
            owner = self._values.owner(func.value, scope)
            if owner is not None:
                receiver = region.owner if region.owner and owner is scope.owner else owner
                method = self._program.method(receiver, func.attr)
                if method is not None:
                    yield method, receiver
                    return
            if _is_super(func.value) and scope.owner is not None:
                bases = list(self._program.ancestors(scope.owner))[1:]
                method = next((base.methods[func.attr] for base in bases if func.attr in base.methods), None)
                if method is not None:
                    yield method, region.owner
                return
        yield from self._instance(func, scope)

    def _instance(self, node: ast.expr, scope: Scope) -> Iterator[tuple[Scope, ClassInfo | None]]:
        """What runs when an object of one of the file's module classes is called."""
        value = self._values.of(node, scope)
        for info in value.classes if value is not None and value.kind == "instance" else ():
            if self._program.method(info, "__call__") is None and self._program.is_module_class(info):
                forward = self._program.method(info, "forward")
                if forward is not None:
                    yield forward, info

    def _handed(self, node: ast.Call, scope: Scope) -> Iterator[Region]:
        """What a call to torch.compile, or to a module's ``compile``, compiles."""
        if self._is_compile(node.func, scope) and not _is_off(node):
            handed = node.args[:1] or [keyword.value for keyword in node.keywords if keyword.arg == "model"]
            for one in handed:
                yield from self._targets(one, scope, node)
        elif isinstance(node.func, ast.Call) and node.args:
            inner = self._compiler(node.func, scope)
            if inner is not None and not inner.args:
                yield from self._targets(node.args[0], scope, inner)
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "compile" and not _is_off(node):
            for method, info in self._instance(node.func.value, scope):
                if self._is_plain(method):
                    yield Region(method, info, _is_fullgraph(node))

    def _targets(self, node: ast.expr, scope: Scope, call: ast.Call) -> Iterator[Region]:
        found: list[tuple[Scope, ClassInfo | None]] = []
        if isinstance(node, ast.Lambda):
            found = [(self._program.scopes[node], None)]
        elif isinstance(node, ast.Name):
            definition = self._program.definition(node.id, scope)
            if isinstance(definition, Scope):
                found = [(definition, None)]
            elif definition is None:
                found = list(self._bound_instances(node.id, scope))
        elif isinstance(node, ast.Attribute):
            found = list(self._method(node, scope)) or list(self._instance(node, scope))
        else:
            found = list(self._instance(node, scope))
        for method, info in found:
            if self._is_plain(method):
                yield Region(method, info, _is_fullgraph(call))

    def _bound_instances(self, name: str, scope: Scope) -> Iterator[tuple[Scope, ClassInfo | None]]:
        """What a name is bound to, even if the call that compiles it rebinds it: ``model = torch.compile(model)``."""
        found = scope.lookup(name)
        if found is None:
            return
        holder, bindings = found
        others = [binding for binding in bindings if not self._is_wrapping(binding, name, holder)]
        for binding in others:
            if binding.kind != "value" or not isinstance(binding.node, ast.expr):
                return
        for binding in others:
            assert isinstance(binding.node, ast.expr)
            yield from self._instance(binding.node, holder)

    def _is_wrapping(self, binding: Binding, name: str, scope: Scope) -> bool:
        """Whether the name's new value is its old one, compiled or moved."""
        node = binding.node
        while isinstance(node, ast.Call):
            if self._is_compile(node.func, scope) and node.args:
                node = node.args[0]
            elif isinstance(node.func, ast.Attribute) and node.func.attr in UNWRAPPED:
                node = node.func.value
            else:
                return False
        return binding.kind == "value" and isinstance(node, ast.Name) and node.id == name

    def _method(self, node: ast.Attribute, scope: Scope) -> Iterator[tuple[Scope, ClassInfo | None]]:
        owner = self._values.owner(node.value, scope)
        value = self._values.of(node.value, scope)
        classes = (owner,) if owner else value.classes if value is not None and value.kind == "instance" else ()
        for info in classes:
            method = self._program.method(info, node.attr)
            if method is not None:
                yield method, info

    def _is_compile(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is torch.compile, or another name for it in the file."""
        if self._program.dotted(node, scope) in _COMPILE:
            return True
        return isinstance(node, ast.Name) and self._named_compiler(node.id, scope) is not None

    def _named_compiler(self, name: str, scope: Scope) -> ast.expr | None:
        found = scope.lookup(name)
        if found is None or len(found[1]) != 1 or found[1][0].kind != "value":
            return None
        node = found[1][0].node
        assert isinstance(node, ast.expr)
        is_alias = self._program.dotted(node, found[0]) in _COMPILE
        return node if is_alias or self._partial(node, found[0]) is not None else None

    def _partial(self, node: ast.expr, scope: Scope) -> ast.Call | None:
        """The call ``functools.partial(torch.compile, …)``, unless it disables compilation."""
        if isinstance(node, ast.Call) and self._program.dotted(node.func, scope) == _PARTIAL and node.args:
            is_compile = self._program.dotted(node.args[0], scope) in _COMPILE
            return node if is_compile and not _is_off(node) else None
        return None

    def _compiler(self, node: ast.expr, scope: Scope) -> ast.Call | None:
        """The call with the arguments of an expression that compiles what it's applied to; None for others."""
        if isinstance(node, ast.Call):
            partial = self._partial(node, scope)
            if partial is not None:
                return ast.Call(partial.func, [], partial.keywords)
            return node if self._is_compile(node.func, scope) and not _is_off(node) else None
        if isinstance(node, ast.Name) and (named := self._named_compiler(node.id, scope)) is not None:
            return ast.Call(named, [], named.keywords if isinstance(named, ast.Call) else [])
        return ast.Call(node, [], []) if self._is_compile(node, scope) else None

    def _is_plain(self, scope: Scope) -> bool:
        """Whether it has only torch.compile and harmless decorators, and calling it runs its body."""
        if isinstance(scope.node, ast.AsyncFunctionDef) or _is_generator(scope.node):
            return False
        outer = scope.parent or scope
        return all(self._compiler(one, outer) is not None or self._is_harmless(one, outer) for one in scope.decorators)

    def _is_traced(self, scope: Scope) -> bool:
        return self._is_plain(scope) and getattr(scope.node, "name", None) not in self._disabled

    def _is_harmless(self, node: ast.expr, scope: Scope) -> bool:
        named = node.func if isinstance(node, ast.Call) else node
        return self._program.dotted(named, scope) in _HARMLESS


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a function or module, without those of nested functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        yield child
        yield from _own_nodes(child)


def _is_off(call: ast.Call) -> bool:
    """Whether ``disable=`` is passed as anything but False; False if arguments are unpacked before it."""
    for keyword in call.keywords:
        if keyword.arg is None:
            return False
        if keyword.arg == "disable":
            return not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    return False


def _is_fullgraph(call: ast.Call) -> bool:
    return any(
        keyword.arg in ("fullgraph", "nopython")
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is True
        for keyword in call.keywords
    )


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _is_generator(node: ast.AST) -> bool:
    return any(isinstance(child, (ast.Yield, ast.YieldFrom)) for child in _own_nodes(node))


def _last(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
