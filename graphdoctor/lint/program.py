"""One file's syntax tree as scopes, classes and the names bound in them.

Comes in: a parsed module. Goes out: a ``Program`` that resolves dotted names and where they were bound. Knows nothing
about torch's behavior.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

BindingKind = Literal["parameter", "value", "element", "item", "import", "function", "class", "opaque"]


@dataclass(frozen=True)
class Binding:
    """One place where a name gets a value.

    Args:
        kind: ``value``: an expression's value; ``element``: one element of it; ``item``: what a loop over it yields;
            ``opaque``: something that isn't followed.
        node: The expression or the definition; for a parameter, its ``ast.arg``.
        dotted: For an import, the dotted name.
        end: Line and column of the statement's end, after which the name has the value.
    """

    kind: BindingKind
    node: ast.AST | None = None
    dotted: str | None = None
    end: tuple[int, int] = (0, 0)


@dataclass(eq=False)
class Scope:
    """A module or a function with the names bound in it.

    Args:
        node: The module or function.
        qualname: As in ``graphdoctor explain``: the enclosing classes and functions and its own name, joined by dots.
        parent: The scope whose names it sees; None for the module.
        owner: The class that a method belongs to.
    """

    node: ast.Module | Function
    qualname: str
    parent: Scope | None = None
    owner: ClassInfo | None = None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)

    def bind(self, name: str, binding: Binding) -> None:
        """Add a binding."""
        self.bindings.setdefault(name, []).append(binding)

    def lookup(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that binds a name, and its bindings there; None if no scope does."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings:
                return scope, scope.bindings[name]
            scope = scope.parent
        return None

    @property
    def self_name(self) -> str | None:
        """A method's name for its object, usually ``self``."""
        if self.owner is None or isinstance(self.node, (ast.Module, ast.Lambda)):
            return None
        if any(isinstance(one, ast.Name) and one.id in ("staticmethod", "classmethod") for one in self.decorators):
            return None
        arguments = [*self.node.args.posonlyargs, *self.node.args.args]
        return arguments[0].arg if arguments else None

    @property
    def decorators(self) -> list[ast.expr]:
        """A function's decorators, outermost first."""
        return [] if isinstance(self.node, (ast.Module, ast.Lambda)) else self.node.decorator_list


@dataclass(eq=False)
class ClassInfo:
    """A class in the file.

    Args:
        node: Its definition.
        scope: The scope that it's defined in.
        methods: Its functions by name; one that is defined twice is left out.
        attributes: Everything assigned to an attribute, in any method and in the class body.
    """

    node: ast.ClassDef
    scope: Scope
    methods: dict[str, Scope] = field(default_factory=dict)
    attributes: dict[str, list[tuple[Scope, Binding]]] = field(default_factory=dict)


class Program:
    """A file's scopes and classes.

    Args:
        tree: The parsed module.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope(tree, "<module>")
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}
        self.classes: dict[ast.ClassDef, ClassInfo] = {}
        _Binder(self).run(tree)

    def dotted(self, node: ast.expr, scope: Scope) -> str | None:
        """The full name that an expression refers to: ``torch.nn.Linear`` for ``nn.Linear``, ``builtins.print``.

        None if it isn't an imported or built-in name, or if the name has another value somewhere in the file.
        """
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        found = scope.lookup(node.id)
        if found is None:
            root = f"builtins.{node.id}" if hasattr(builtins, node.id) else None
        else:
            names = {binding.dotted if binding.kind == "import" else None for binding in found[1]}
            root = names.pop() if len(names) == 1 else None
        return None if root is None else ".".join((root, *reversed(parts)))

    def definition(self, name: str, scope: Scope) -> Scope | ClassInfo | None:
        """The function or class that a name certainly refers to."""
        found = scope.lookup(name)
        if found is None or len(found[1]) != 1:
            return None
        node = found[1][0].node
        if isinstance(node, ast.ClassDef):
            return self.classes.get(node)
        return self.scopes.get(node) if found[1][0].kind == "function" and node is not None else None

    def ancestors(self, info: ClassInfo) -> Iterator[ClassInfo]:
        """A class and its bases in the file, in Python's order for single inheritance."""
        seen: list[ClassInfo] = []
        waiting = [info]
        while waiting:
            one = waiting.pop(0)
            if one in seen:
                continue
            seen.append(one)
            yield one
            bases = [
                self.definition(base.id, one.scope) if isinstance(base, ast.Name) else None for base in one.node.bases
            ]
            waiting += [base for base in bases if isinstance(base, ClassInfo)]

    def method(self, info: ClassInfo, name: str) -> Scope | None:
        """The method that a class's objects have, inherited or not."""
        return next((one.methods[name] for one in self.ancestors(info) if name in one.methods), None)

    def is_module_class(self, info: ClassInfo) -> bool:
        """Whether a class certainly derives from a class of ``torch.nn``."""
        return any(
            (self.dotted(base, one.scope) or "").startswith("torch.nn.")
            for one in self.ancestors(info)
            for base in one.node.bases
        )


class _Binder:
    """Fills a program in one pass."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def run(self, tree: ast.Module) -> None:
        self._block(tree.body, self._program.module, (), None)

    def _block(self, nodes: list[ast.stmt], scope: Scope, names: tuple[str, ...], owner: ClassInfo | None) -> None:
        for node in nodes:
            self._visit(node, scope, names, owner)

    def _visit(self, node: ast.AST, scope: Scope, names: tuple[str, ...], owner: ClassInfo | None) -> None:
        if isinstance(node, _FUNCTIONS):
            self._function(node, scope, names, owner)
            return
        if isinstance(node, ast.ClassDef):
            self._class(node, scope, names, owner)
            return
        self._bind(node, scope, owner)
        for child in ast.iter_child_nodes(node):
            self._visit(child, scope, names, owner)

    def _function(self, node: Function, scope: Scope, names: tuple[str, ...], owner: ClassInfo | None) -> None:
        name = getattr(node, "name", "<lambda>")
        inner = Scope(node, ".".join((*names, name)), scope, owner)
        self._program.scopes[node] = inner
        if not isinstance(node, ast.Lambda):
            binding = Binding("function", node, end=_end(node))
            if owner is None:
                scope.bind(name, binding)
            elif name in owner.methods or name in owner.attributes:
                owner.methods.pop(name, None)
                owner.attributes.setdefault(name, []).append((scope, Binding("opaque")))
            else:
                owner.methods[name] = inner
            for outer in (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults):
                if outer is not None:
                    self._visit(outer, scope, names, owner)
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            inner.bind(argument.arg, Binding("parameter", argument))
        for rest in (arguments.vararg, arguments.kwarg):
            if rest is not None:
                inner.bind(rest.arg, Binding("opaque"))
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        for child in body:
            self._visit(child, inner, (*names, name), None)
        if owner is not None:
            self._note_attributes(inner, owner)

    def _class(self, node: ast.ClassDef, scope: Scope, names: tuple[str, ...], owner: ClassInfo | None) -> None:
        info = ClassInfo(node, scope)
        self._program.classes[node] = info
        if owner is None:
            scope.bind(node.name, Binding("class", node, end=_end(node)))
        for outer in (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)):
            self._visit(outer, scope, names, owner)
        self._block(node.body, scope, (*names, node.name), info)

    def _note_attributes(self, method: Scope, owner: ClassInfo) -> None:
        """Record what a method assigns to attributes of its object."""
        name = method.self_name
        if name is None:
            return
        for node in ast.walk(method.node):
            for target, binding in _targets(node):
                if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id == name:
                    owner.attributes.setdefault(target.attr, []).append((method, binding))

    def _bind(self, node: ast.AST, scope: Scope, owner: ClassInfo | None) -> None:
        for target, binding in _targets(node):
            if isinstance(target, ast.Name) and owner is None:
                scope.bind(target.id, binding)
            elif isinstance(target, ast.Name) and owner is not None:
                owner.attributes.setdefault(target.id, []).append((scope, binding))
        match node:
            case ast.Import(names=names):
                for alias in names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    scope.bind(alias.asname or whole, Binding("import", dotted=whole))
            case ast.ImportFrom(names=names, module=module, level=level):
                for alias in names:
                    dotted = None if level or module is None else f"{module}.{alias.name}"
                    scope.bind(alias.asname or alias.name, Binding("import", dotted=dotted))
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                for name in names:
                    scope.bind(name, Binding("opaque"))
                    self._program.module.bind(name, Binding("opaque"))
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                scope.bind(name, Binding("opaque"))
            case ast.MatchMapping(rest=str(name)):
                scope.bind(name, Binding("opaque"))
            case _:
                pass


def _targets(node: ast.AST) -> Iterator[tuple[ast.expr, Binding]]:
    """The targets that a statement or expression binds, attributes included, each with its binding."""
    end = _end(node)
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _unpacked(target, value, end)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, Binding("value", value, end=end)
        case ast.AugAssign(target=ast.Name() | ast.Attribute() as target, op=op, value=value):
            loaded = ast.copy_location(_loaded(target), target)
            yield target, Binding("value", ast.copy_location(ast.BinOp(loaded, op, value), node), end=end)
        case ast.NamedExpr(target=target, value=value):
            yield target, Binding("value", value, end=end)
        case ast.For(target=target, iter=iterated) | ast.AsyncFor(target=target, iter=iterated):
            yield from _looped(target, iterated)
        case ast.comprehension(target=target):
            # It has a scope of its own in Python; here its name is unknown in the whole function.
            yield from ((name, Binding("opaque")) for name in ast.walk(target) if isinstance(name, ast.Name))
        case ast.withitem(optional_vars=ast.expr() as target):
            yield from ((name, Binding("opaque")) for name in ast.walk(target) if isinstance(name, ast.Name))
        case ast.Delete(targets=targets):
            yield from ((name, Binding("opaque")) for target in targets for name in ast.walk(target)
                        if isinstance(name, (ast.Name, ast.Attribute)))  # fmt: skip
        case _:
            pass


def _loaded(target: ast.Name | ast.Attribute) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    return ast.Attribute(target.value, target.attr, ast.Load())


def _unpacked(target: ast.expr, value: ast.expr, end: tuple[int, int]) -> Iterator[tuple[ast.expr, Binding]]:
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, Binding("value", value, end=end)
        return
    is_plain = not any(isinstance(one, ast.Starred) for one in target.elts)
    if is_plain and isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
        for one, part in zip(target.elts, value.elts, strict=True):
            yield from _unpacked(one, part, end)
        return
    for one in target.elts:
        if is_plain and isinstance(one, (ast.Name, ast.Attribute)):
            yield one, Binding("element", value, end=end)
        else:
            for inner in ast.walk(one):
                if isinstance(inner, (ast.Name, ast.Attribute)):
                    yield inner, Binding("opaque")


def _looped(target: ast.expr, iterated: ast.expr) -> Iterator[tuple[ast.expr, Binding]]:
    match target, iterated:
        case ast.Name(), _:
            yield target, Binding("item", iterated, end=_end(iterated))
        case ast.Tuple(elts=[count, ast.Name() as item]), ast.Call(func=ast.Name(id="enumerate"), args=[source, *_]):
            yield count, Binding("opaque")
            yield item, Binding("item", source, end=_end(iterated))
        case _:
            yield from ((name, Binding("opaque")) for name in ast.walk(target)
                        if isinstance(name, (ast.Name, ast.Attribute)))  # fmt: skip


def _end(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", None) or 0, getattr(node, "end_col_offset", None) or 0
