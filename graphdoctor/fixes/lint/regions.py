"""Which functions of a file torch compiles: those passed to torch.compile, and the functions they
certainly call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from graphdoctor.facts.base import grouped
from graphdoctor.fixes.source.flow import certain_nodes
from graphdoctor.fixes.source.program import ClassInfo, Program, Scope, is_fullgraph, is_off
from graphdoctor.fixes.source.values import Method, Value, Values

_DISABLE = ("torch.compiler.disable", "torch._dynamo.disable")


@dataclass(frozen=True)
class Region:
    """A function that torch traces."""

    scope: Scope
    owner: ClassInfo | None = None
    is_fullgraph: bool = False


Callees = Mapping[ast.AST, tuple[Scope, ...]]
"""The functions of a file that a call certainly runs."""


def regions(
    program: Program, values: Values, recorded: Iterable[str] = ()
) -> tuple[list[Region], Callees]:
    """Find every function of a file that torch compiles, and what it calls."""
    finder = _Finder(program, values)
    by_scope: dict[Scope, Region] = {}
    callees: dict[ast.AST, tuple[Scope, ...]] = {}
    waiting = [*finder.compiled(), *finder.named(set(recorded))]
    while waiting:
        region = waiting.pop()
        earlier = by_scope.get(region.scope)
        if earlier is not None and (earlier.is_fullgraph or not region.is_fullgraph):
            continue
        by_scope[region.scope] = region
        for call, callee in finder.called(region):
            callees[call] = (*callees.get(call, ()), callee.scope)
            waiting.append(callee)
    traced = list(by_scope.values())
    return sorted(traced, key=lambda region: getattr(region.scope.node, "lineno", 0)), callees


class _Finder:
    def __init__(self, program: Program, values: Values) -> None:
        self._program = program
        self._values = values
        self._compilers = values.compilers
        self._disabled = {
            getattr(item, "attr", getattr(item, "id", None))
            for node in ast.walk(program.module.node)
            if isinstance(node, ast.Call) and program.dotted(node.func, program.module) in _DISABLE
            for item in node.args
        }
        """Names that are passed to torch.compiler.disable anywhere in the file."""

    def compiled(self) -> Iterator[Region]:
        """Find the functions passed to torch.compile."""
        for node, scope in list(self._program.scopes.items()):
            if isinstance(node, ast.Module):
                continue
            outer = scope.parent or scope
            calls = [
                call
                for item in scope.decorators
                if (call := self._compilers.compiler(item, outer)) is not None
            ]
            is_own = scope.owner is None or self._program.is_certain(scope.owner)
            if calls and is_own and self._compilers.is_plain(scope):
                yield Region(scope, scope.owner, any(is_fullgraph(call) for call in calls))
        for call, scope in self._program.calls:
            for method, info, options in self._handed(call, scope):
                if self._compilers.is_plain(method):
                    yield Region(method, info, is_fullgraph(options))

    def named(self, qualnames: set[str]) -> Iterator[Region]:
        """Find the functions with these names, unless two share one."""
        by_name = grouped((scope.qualname, scope) for scope in self._program.scopes.values())
        for qualname in sorted(qualnames):
            if qualname != "<module>" and len(functions := by_name.get(qualname, [])) == 1:
                yield Region(functions[0], functions[0].owner)

    def called(self, region: Region) -> Iterator[tuple[ast.Call, Region]]:
        for node, _ in certain_nodes(region.scope, self._program):
            if isinstance(node, ast.Call):
                for scope, owner in self._callees(node, region):
                    is_disabled = getattr(scope.node, "name", None) in self._disabled
                    if self._compilers.is_plain(scope) and not is_disabled:
                        yield node, Region(scope, owner, region.is_fullgraph)

    def _callees(self, node: ast.Call, region: Region) -> Iterable[Method]:
        scope, func = region.scope, node.func
        match func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=name):
                if scope.owner is None or not self._program.is_certain(scope.owner):
                    return []
                bases = list(self._program.ancestors(scope.owner))[1:]
                methods = [base.methods[name] for base in bases if name in base.methods]
                return [(method, region.owner) for method in methods[:1]]
        owner = self._values.owner(func.value if isinstance(func, ast.Attribute) else func, scope)
        runs = self._runs(
            func, scope, region.owner if owner is not None and owner is scope.owner else None
        )
        # One of several functions isn't certain.
        are_objects = owner is None and all(info is not None for _, info in runs)
        return runs if len(runs) == 1 or are_objects else []

    def _runs(
        self, node: ast.expr, scope: Scope, receiver: ClassInfo | None = None
    ) -> list[Method]:
        if isinstance(node, ast.Lambda):
            return [(self._program.scopes[node], None)]
        if (
            isinstance(node, ast.Attribute)
            and (value := self._values.of(node.value, scope)).kind == "class"
        ):
            return [method for info in value.classes for method in self._of_class(info, node.attr)]
        return list(filter(self._is_run, self._values.called(node, scope, receiver)))

    def _of_class(self, info: ClassInfo, name: str) -> Iterator[Method]:
        """Yield what runs in ``Net.step(x)``, and ``Function.apply(x)``, which runs the function's
        ``forward``.
        """
        forward = self._values.method(info, "forward") if name == "apply" else None
        if forward is not None and self._program.derives(info, "torch.autograd.Function"):
            yield forward, None
        method = self._values.method(info, name)
        if method is not None:
            yield method, info

    def _is_run(self, method: Method) -> bool:
        scope, info = method
        is_call = info is not None and self._program.method(info, "__call__") is scope
        return not (is_call and info is not None and self._program.is_module_class(info))

    def _handed(
        self, node: ast.Call, scope: Scope
    ) -> Iterator[tuple[Scope, ClassInfo | None, ast.Call]]:
        """Find what a call to torch.compile, or to a module's ``compile``, compiles."""
        compiled = self._compilers.compiled(node, scope)
        methods: Iterable[Method] = ()
        call = node
        if compiled is not None:
            handed, call = compiled
            is_self = self._values.owner(handed, scope) is not None
            methods = (not is_self and self._runs(handed, scope)) or self._passed(handed, scope)
        elif (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "compile"
            and not is_off(node)
        ):
            owner = self._values.owner(node.func.value, scope)
            if owner is None:
                value = self._values.of(node.func.value, scope)
                methods = self._values.run_by(value) if value.kind == "instance" else ()
            elif self._program.method(owner, "compile") is None:
                methods = self._values.run_by(
                    Value("instance", classes=(owner, *self._program.descendants(owner)))
                )
        yield from (
            (method, info, call) for method, info in methods if self._is_run((method, info))
        )

    def _passed(self, node: ast.expr, scope: Scope) -> Iterator[Method]:
        if not isinstance(node, ast.Name) or (resolved := scope.lookup(node.id)) is None:
            return
        holder, bindings = resolved
        others = [
            item for item in bindings if not self._compilers.is_wrapping(item.node, node, holder)
        ]
        if len(others) == 1 and others[0].kind == "parameter":
            for value in self._values.passed(node.id, holder):
                yield from self._values.run_by(value)
