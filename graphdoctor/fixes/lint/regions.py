"""Which functions of a file torch compiles: those passed to torch.compile, and the functions they certainly call.

A function counts only if nothing but torch.compile and decorators known to be harmless comes between its definition
and the call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from graphdoctor.fixes.source.flow import certain_nodes
from graphdoctor.fixes.source.program import ClassInfo, Program, Scope, is_fullgraph, is_off
from graphdoctor.fixes.source.values import Value, Values

_Method = tuple[Scope, ClassInfo | None]
"""A function, and the class of the object that it's called on."""
_DISABLE = ("torch.compiler.disable", "torch._dynamo.disable")


@dataclass(frozen=True)
class Region:
    """A function that torch traces."""

    scope: Scope
    owner: ClassInfo | None = None
    is_fullgraph: bool = False


@dataclass(frozen=True)
class Regions:
    """The functions of a file that torch traces."""

    traced: list[Region]
    callees: Mapping[ast.AST, tuple[Scope, ...]]


def regions(program: Program, values: Values, recorded: Iterable[str] = ()) -> Regions:
    """Every function of a file that torch compiles."""
    finder = _Finder(program, values)
    found: dict[Scope, Region] = {}
    callees: dict[ast.AST, tuple[Scope, ...]] = {}
    waiting = [*finder.compiled(), *finder.named(set(recorded))]
    while waiting:
        region = waiting.pop()
        known = found.get(region.scope)
        if known is not None and (known.is_fullgraph or not region.is_fullgraph):
            continue
        found[region.scope] = region
        for call, callee in finder.called(region):
            callees[call] = (*callees.get(call, ()), callee.scope)
            waiting.append(callee)
    return Regions(sorted(found.values(), key=lambda region: getattr(region.scope.node, "lineno", 0)), callees)


class _Finder:
    def __init__(self, program: Program, values: Values) -> None:
        self._program = program
        self._values = values
        self._compilers = values.compilers
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
            calls = [call for one in scope.decorators if (call := self._compilers.compiler(one, outer)) is not None]
            is_own = scope.owner is None or self._program.is_certain(scope.owner)
            if calls and is_own and self._compilers.is_plain(scope):
                yield Region(scope, scope.owner, any(is_fullgraph(call) for call in calls))
        for call, scope in self._program.calls:
            for method, info, options in self._handed(call, scope):
                if self._compilers.is_plain(method):
                    yield Region(method, info, is_fullgraph(options))

    def named(self, qualnames: set[str]) -> Iterator[Region]:
        """The functions with these names, unless two share one."""
        by_name: dict[str, list[Scope]] = {}
        for scope in self._program.scopes.values():
            by_name.setdefault(scope.qualname, []).append(scope)
        for qualname in sorted(qualnames):
            if qualname != "<module>" and len(found := by_name.get(qualname, [])) == 1:
                yield Region(found[0], found[0].owner)

    def called(self, region: Region) -> Iterator[tuple[ast.Call, Region]]:
        """The functions of the file that a region certainly calls, with the calls."""
        for node, _ in certain_nodes(region.scope, self._program):
            if isinstance(node, ast.Call):
                for scope, owner in self._callees(node, region):
                    if self._is_traced(scope):
                        yield node, Region(scope, owner, region.is_fullgraph)

    def _callees(self, node: ast.Call, region: Region) -> Iterator[_Method]:
        scope, func = region.scope, node.func
        if isinstance(func, ast.Attribute) and _is_super(func.value):
            if scope.owner is not None and self._program.is_certain(scope.owner):
                bases = list(self._program.ancestors(scope.owner))[1:]
                method = next((base.methods[func.attr] for base in bases if func.attr in base.methods), None)
                if method is not None:
                    yield method, region.owner
            return
        owner = self._values.owner(func.value, scope) if isinstance(func, ast.Attribute) else None
        if owner is not None and isinstance(func, ast.Attribute):
            receiver = region.owner if region.owner and owner is scope.owner else owner
            methods = self._values.methods_of_family(receiver, func.attr)
            if methods:
                if len(methods) == 1:
                    yield methods[0][0], receiver
                return
        itself = self._values.owner(func, scope)
        if itself is not None:
            yield from self._forward(region.owner if region.owner and itself is scope.owner else itself)
            return
        runs = list(self._runs(func, scope))
        if len(runs) == 1 or all(info is not None for _, info in runs):
            yield from runs  # one of several functions isn't certain

    def _runs(self, node: ast.expr, scope: Scope) -> Iterator[_Method]:
        if isinstance(node, ast.Lambda):
            yield self._program.scopes[node], None
            return
        if isinstance(node, ast.Attribute) and (methods := list(self._methods(node, scope))):
            yield from methods
            return
        yield from self._objects(self._values.of(node, scope))

    def _objects(self, value: Value | None) -> Iterator[_Method]:
        if value is None:
            return
        if value.kind == "function":
            yield from ((one, None) for one in value.functions)
        elif value.kind == "instance":
            for info in value.classes:
                yield from self._forward(info)

    def _forward(self, info: ClassInfo) -> Iterator[_Method]:
        is_module = self._program.is_module_class(info)
        if self._program.method(info, "__call__") is not None:
            call = None if is_module else self._values.method(info, "__call__")
        else:
            call = self._values.method(info, "forward") if is_module else None
        if call is not None:
            yield call, info

    def _methods(self, node: ast.Attribute, scope: Scope) -> Iterator[_Method]:
        owner = self._values.owner(node.value, scope)
        value = self._values.of(node.value, scope)
        if node.attr == "apply" and value is not None and value.kind == "class":
            for info in value.classes:
                forward = self._values.method(info, "forward")
                if forward is not None and self._program.derives(info, "torch.autograd.Function"):
                    yield forward, None
        if owner is not None:
            yield from self._values.methods_of_family(owner, node.attr)
        elif value is not None and value.kind in ("instance", "class"):
            for info in value.classes:
                method = self._values.method(info, node.attr)
                if method is not None:
                    yield method, info

    def _handed(self, node: ast.Call, scope: Scope) -> Iterator[tuple[Scope, ClassInfo | None, ast.Call]]:
        """What a call to torch.compile, or to a module's ``compile``, compiles, with the call that has the options."""
        compiled = self._compilers.compiled(node, scope)
        if compiled is not None:
            handed, call = compiled
            found = list(self._runs(handed, scope)) or list(self._passed(handed, scope))
            yield from ((method, info, call) for method, info in found)
        elif isinstance(node.func, ast.Attribute) and node.func.attr == "compile" and not is_off(node):
            owner = self._values.owner(node.func.value, scope)
            if owner is None:
                value = self._values.of(node.func.value, scope)
                found = list(self._objects(value)) if value is not None and value.kind == "instance" else []
            elif self._program.method(owner, "compile") is None:
                family = (owner, *self._program.descendants(owner))
                found = [one for info in family for one in self._forward(info)]
            else:
                found = []
            yield from ((method, info, node) for method, info in found)

    def _passed(self, node: ast.expr, scope: Scope) -> Iterator[_Method]:
        found = scope.lookup(node.id) if isinstance(node, ast.Name) else None
        if found is None or not isinstance(node, ast.Name):
            return
        holder, bindings = found
        others = [one for one in bindings if not self._compilers.is_wrapping(one.node, node, holder)]
        if len(others) == 1 and others[0].kind == "parameter":
            for value in self._values.passed(node.id, holder):
                yield from self._objects(value)

    def _is_traced(self, scope: Scope) -> bool:
        return self._compilers.is_plain(scope) and getattr(scope.node, "name", None) not in self._disabled


def _is_super(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def _last(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
