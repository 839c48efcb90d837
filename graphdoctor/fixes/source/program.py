"""One file's syntax tree as scopes, classes and the names bound in them, and what of it
torch.compile is given.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from graphdoctor.facts.base import grouped

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

BindingKind = Literal[
    "parameter", "value", "element", "item", "buffer", "import", "function", "class", "opaque"
]

_HARMLESS_CLASS_DECORATORS = frozenset((
    "dataclasses.dataclass", "enum.unique", "functools.total_ordering", "typing.final",
    "typing.runtime_checkable", "typing_extensions.final", "typing_extensions.runtime_checkable",
))  # fmt: skip
"""Decorators that replace no method which a class defines."""


@dataclass(frozen=True)
class Binding:
    """One place where a name gets a value.

    Args:
        kind: ``value``: an expression's value; ``element``: one element of it; ``item``: what a
            loop over it yields; ``buffer``: what ``register_buffer`` is given; ``opaque``:
            something that isn't followed.
        is_comprehension: Whether a comprehension binds it, which has a scope of its own in Python.
        end: Line and column of the statement's end, after which the name has the value.
    """

    kind: BindingKind
    node: ast.AST | None = None
    dotted: str | None = None
    index: int | None = None
    is_comprehension: bool = False
    end: tuple[int, int] = (0, 0)


@dataclass(eq=False)
class Scope:
    """A module or a function with the names bound in it."""

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
        if any(
            isinstance(decorator, ast.Name) and decorator.id in ("staticmethod", "classmethod")
            for decorator in self.decorators
        ):
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
        methods: Its functions by name; one that is defined twice is left out.
        attributes: Everything assigned to an attribute, in any method and in the class body.
        statics: Names that the class body binds to something other than one function.
    """

    node: ast.ClassDef
    scope: Scope
    methods: dict[str, Scope] = field(default_factory=dict)
    attributes: dict[str, list[tuple[Scope, Binding]]] = field(default_factory=dict)
    statics: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Store:
    """An assignment to an attribute."""

    target: ast.Attribute
    scope: Scope
    binding: Binding


class Program:
    """A file's scopes and classes."""

    def __init__(self, tree: ast.Module) -> None:
        self.module = Scope(tree, "<module>")
        self.scopes: dict[ast.AST, Scope] = {tree: self.module}
        self.classes: dict[ast.ClassDef, ClassInfo] = {}
        self.calls: list[tuple[ast.Call, Scope]] = []
        self.stores: dict[str, list[Store]] = {}
        self._descendants: dict[ClassInfo, list[ClassInfo]] | None = None
        _Binder(self, self.module).visit(tree.body)

    def dotted(self, node: ast.expr, scope: Scope) -> str | None:
        """The full name that an expression refers to: ``torch.nn.Linear`` for ``nn.Linear``,
        ``builtins.print``.

        None if it isn't an imported or built-in name, or if the name has another value somewhere in
        the file.
        """
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        resolved = scope.lookup(node.id)
        if resolved is None:
            root = f"builtins.{node.id}" if hasattr(builtins, node.id) else None
        else:
            names = {
                binding.dotted if binding.kind == "import" else None for binding in resolved[1]
            }
            root = names.pop() if len(names) == 1 else None
        return None if root is None else ".".join((root, *reversed(parts)))

    def definition(self, name: str, scope: Scope) -> Scope | ClassInfo | None:
        """The function or class that a name certainly refers to, unless a decorator may have
        replaced the class.
        """
        resolved = scope.lookup(name)
        if resolved is None or len(resolved[1]) != 1:
            return None
        node = resolved[1][0].node
        if isinstance(node, ast.ClassDef):
            info = self.classes[node]
            return info if self.is_certain(info) else None
        return (
            self.scopes.get(node)
            if resolved[1][0].kind == "function" and node is not None
            else None
        )

    def is_certain(self, info: ClassInfo) -> bool:
        """Check that no decorator or metaclass can have replaced a class or its methods."""
        decorators = [
            item.func if isinstance(item, ast.Call) else item for item in info.node.decorator_list
        ]
        are_plain = all(
            keyword.arg == "metaclass" and self.dotted(keyword.value, info.scope) == "abc.ABCMeta"
            for keyword in info.node.keywords
        )
        return are_plain and all(
            self.dotted(item, info.scope) in _HARMLESS_CLASS_DECORATORS for item in decorators
        )

    def descendants(self, info: ClassInfo) -> list[ClassInfo]:
        """The classes of the file that derive from a class, however indirectly."""
        if self._descendants is None:
            self._descendants = grouped(
                (ancestor, info)
                for info in self.classes.values()
                for ancestor in list(self.ancestors(info))[1:]
            )
        return self._descendants.get(info, [])

    def ancestors(self, info: ClassInfo) -> Iterator[ClassInfo]:
        """A class and its bases in the file, in Python's order for single inheritance."""
        seen: list[ClassInfo] = []
        waiting = [info]
        while waiting:
            ancestor = waiting.pop(0)
            if ancestor in seen:
                continue
            seen.append(ancestor)
            yield ancestor
            bases = [
                self.definition(base.id, ancestor.scope) if isinstance(base, ast.Name) else None
                for base in ancestor.node.bases
            ]
            waiting += [base for base in bases if isinstance(base, ClassInfo)]

    def method(self, info: ClassInfo, name: str) -> Scope | None:
        """The method that a class's objects have, inherited or not."""
        return next(
            (
                ancestor.methods[name]
                for ancestor in self.ancestors(info)
                if name in ancestor.methods
            ),
            None,
        )

    def is_module_class(self, info: ClassInfo) -> bool:
        """Check whether a class certainly derives from a class of ``torch.nn``."""
        return self.derives(info, "torch.nn.")

    def derives(self, info: ClassInfo, start: str) -> bool:
        """Check whether a class certainly derives from an imported one whose full name begins with
        a text.
        """
        return any(
            (self.dotted(base, ancestor.scope) or "").startswith(start)
            for ancestor in self.ancestors(info)
            for base in ancestor.node.bases
        )


@dataclass(frozen=True)
class _Binder:
    """Notes what the nodes in a scope bind, and in what is nested in it."""

    program: Program
    scope: Scope
    names: tuple[str, ...] = ()
    """Of the functions and classes around the nodes."""
    owner: ClassInfo | None = None
    """The class whose body they are."""

    def visit(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            if isinstance(node, _FUNCTIONS):
                self._function(node)
            elif isinstance(node, ast.ClassDef):
                self._class(node)
            else:
                self._bind(node)
                if isinstance(node, ast.Call):
                    self.program.calls.append((node, self.scope))
                self.visit(ast.iter_child_nodes(node))

    def _function(self, node: Function) -> None:
        name, owner = getattr(node, "name", "<lambda>"), self.owner
        names = (*self.names, name)
        inner = Scope(node, ".".join(names), self.scope, owner)
        self.program.scopes[node] = inner
        if not isinstance(node, ast.Lambda):
            binding = Binding("function", node, end=_end(node))
            if owner is None:
                self.scope.bind(name, binding)
            elif name in owner.methods or name in owner.statics:
                owner.methods.pop(name, None)
                owner.statics.add(name)
                owner.attributes.setdefault(name, []).append((self.scope, Binding("opaque")))
            else:
                owner.methods[name] = inner
            self.visit(
                filter(None, (*node.decorator_list, *node.args.defaults, *node.args.kw_defaults))
            )
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            inner.bind(argument.arg, Binding("parameter", argument))
        if arguments.vararg is not None:
            inner.bind(arguments.vararg.arg, Binding("opaque"))
        if arguments.kwarg is not None:
            inner.bind(arguments.kwarg.arg, Binding("opaque"))
        _Binder(self.program, inner, names).visit(
            [node.body] if isinstance(node, ast.Lambda) else node.body
        )
        if owner is not None:
            self._note_attributes(inner, owner)

    def _class(self, node: ast.ClassDef) -> None:
        info = ClassInfo(node, self.scope)
        self.program.classes[node] = info
        if self.owner is None:
            self.scope.bind(node.name, Binding("class", node, end=_end(node)))
        self.visit(
            (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords))
        )
        replace(self, names=(*self.names, node.name), owner=info).visit(node.body)

    def _note_attributes(self, method: Scope, owner: ClassInfo) -> None:
        name = method.self_name
        if name is None:
            return
        for node in ast.walk(method.node):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="register_buffer"),
                    args=[ast.Constant(value=str(attribute)), value, *_],
                ) if getattr(value, "value", value) is not None:
                    owner.attributes.setdefault(attribute, []).append(
                        (method, Binding("buffer", value))
                    )
            for target, binding in _targets(node):
                if (
                    isinstance(target, ast.Attribute)
                    and isinstance(target.value, ast.Name)
                    and target.value.id == name
                ):
                    owner.attributes.setdefault(target.attr, []).append((method, binding))

    def _bind(self, node: ast.AST) -> None:
        scope, owner = self.scope, self.owner
        for target, binding in _targets(node):
            if isinstance(target, ast.Name) and owner is None:
                scope.bind(target.id, binding)
            elif isinstance(target, ast.Name) and owner is not None:
                owner.statics.add(target.id)
                owner.attributes.setdefault(target.id, []).append((scope, binding))
            elif isinstance(target, ast.Attribute):
                self.program.stores.setdefault(target.attr, []).append(
                    Store(target, scope, binding)
                )
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
                    self.program.module.bind(name, Binding("opaque"))
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                scope.bind(name, Binding("opaque"))
            case ast.MatchMapping(rest=str(name)):
                scope.bind(name, Binding("opaque"))


def _targets(node: ast.AST) -> Iterator[tuple[ast.expr, Binding]]:
    end = _end(node)
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _unpacked(target, value, end)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, Binding("value", value, end=end)
        case ast.AugAssign(target=ast.Name() | ast.Attribute() as target, op=op, value=value):
            yield (
                target,
                Binding("value", ast.copy_location(ast.BinOp(target, op, value), node), end=end),
            )
        case ast.NamedExpr(target=target, value=value):
            yield target, Binding("value", value, end=end)
        case ast.For(target=target, iter=iterated) | ast.AsyncFor(target=target, iter=iterated):
            yield from _looped(target, iterated)
        case ast.comprehension(target=target, iter=iterated):
            yield from (
                (name, replace(binding, is_comprehension=True))
                for name, binding in _looped(target, iterated)
            )
        case ast.withitem(optional_vars=ast.expr() as target):
            yield from (
                (name, Binding("opaque")) for name in ast.walk(target) if isinstance(name, ast.Name)
            )
        case ast.Delete(targets=targets):
            for target in targets:
                yield from _opaque(target)


def _unpacked(
    target: ast.expr, value: ast.expr, end: tuple[int, int]
) -> Iterator[tuple[ast.expr, Binding]]:
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, Binding("value", value, end=end)
        return
    is_plain = not any(isinstance(element, ast.Starred) for element in target.elts)
    if (
        is_plain
        and isinstance(value, (ast.Tuple, ast.List))
        and len(value.elts) == len(target.elts)
    ):
        for element, part in zip(target.elts, value.elts, strict=True):
            yield from _unpacked(element, part, end)
        return
    for index, element in enumerate(target.elts):
        if is_plain and isinstance(element, (ast.Name, ast.Attribute)):
            yield element, Binding("element", value, index=index, end=end)
        else:
            yield from _opaque(element)


def _looped(target: ast.expr, iterated: ast.expr) -> Iterator[tuple[ast.expr, Binding]]:
    match target, iterated:
        case ast.Name(), _:
            yield target, Binding("item", iterated, end=_end(iterated))
        case ast.Tuple(elts=[count, ast.Name() as item]), ast.Call(
            func=ast.Name(id="enumerate"), args=[source, *_]
        ):
            yield count, Binding("opaque")
            yield item, Binding("item", source, end=_end(iterated))
        case _:
            yield from _opaque(target)


def _opaque(target: ast.expr) -> Iterator[tuple[ast.expr, Binding]]:
    return (
        (node, Binding("opaque"))
        for node in ast.walk(target)
        if isinstance(node, (ast.Name, ast.Attribute))
    )


def _end(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "end_lineno", None) or 0, getattr(node, "end_col_offset", None) or 0


_COMPILE = ("torch.compile", "torch._dynamo.optimize", "torch._dynamo.optimize_assert")
_PARTIAL = "functools.partial"
_HARMLESS = (
    "torch.no_grad", "torch.enable_grad", "torch.autograd.no_grad", "builtins.staticmethod",
    "builtins.classmethod", "typing.override", "typing_extensions.override", "abc.abstractmethod",
)  # fmt: skip
UNWRAPPED = (
    "to",
    "cuda",
    "cpu",
    "eval",
    "train",
    "half",
    "float",
    "double",
    "bfloat16",
    "requires_grad_",
)
"""Methods of a module that return the module itself."""


class Compilers:
    """Recognizes torch.compile in a file."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._plain: dict[Scope, bool] = {}

    def is_compile(self, node: ast.expr, scope: Scope) -> bool:
        """Check whether an expression is torch.compile, or another name for it in the file."""
        if self._program.dotted(node, scope) in _COMPILE:
            return True
        return isinstance(node, ast.Name) and self._named(node.id, scope) is not None

    def compiler(self, node: ast.expr, scope: Scope) -> ast.Call | None:
        """The call with the arguments of an expression that compiles what it's applied to; None for
        others.
        """
        if isinstance(node, ast.Call):
            if self._is_partial(node, scope):
                return ast.Call(node.func, [], node.keywords)
            return node if self.is_compile(node.func, scope) and not is_off(node) else None
        if isinstance(node, ast.Name) and (named := self._named(node.id, scope)) is not None:
            return ast.Call(named, [], named.keywords if isinstance(named, ast.Call) else [])
        return ast.Call(node, [], []) if self.is_compile(node, scope) else None

    def compiled(self, node: ast.Call, scope: Scope) -> tuple[ast.expr, ast.Call] | None:
        """Return the compiled expression, and the call with the arguments; None if a call compiles
        nothing.
        """
        if self.is_compile(node.func, scope) and not is_off(node):
            handed = node.args[0] if node.args else keyword_value(node, "model")
            return None if handed is None else (handed, node)
        if isinstance(node.func, ast.Call) and node.args:
            inner = self.compiler(node.func, scope)
            if inner is not None and not inner.args:
                return node.args[0], inner
        return None

    def is_wrapping(self, value: ast.AST | None, target: ast.expr, scope: Scope) -> bool:
        """Check whether a target's new value is its old one, compiled or moved: ``model =
        torch.compile(model.cuda())``.
        """
        is_wrapped = False
        while isinstance(value, ast.Call):
            compiled = self.compiled(value, scope)
            if compiled is not None:
                value = compiled[0]
            elif isinstance(value.func, ast.Attribute) and value.func.attr in UNWRAPPED:
                value = value.func.value
            else:
                return False
            is_wrapped = True
        return (
            is_wrapped and isinstance(value, ast.expr) and ast.unparse(value) == ast.unparse(target)
        )

    def is_plain(self, scope: Scope) -> bool:
        """Check whether calling a function runs its body: only torch.compile and harmless
        decorators, no generator.
        """
        if scope not in self._plain:
            outer = scope.parent or scope
            self._plain[scope] = (
                not isinstance(scope.node, ast.AsyncFunctionDef)
                and all(
                    self.compiler(decorator, outer) is not None
                    or self._program.dotted(
                        decorator.func if isinstance(decorator, ast.Call) else decorator, outer
                    )
                    in _HARMLESS
                    for decorator in scope.decorators
                )
                and not any(
                    isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own_nodes(scope.node)
                )
            )
        return self._plain[scope]

    def _named(self, name: str, scope: Scope) -> ast.expr | None:
        resolved = scope.lookup(name)
        if resolved is None or len(resolved[1]) != 1 or resolved[1][0].kind != "value":
            return None
        node = resolved[1][0].node
        assert isinstance(node, ast.expr)
        is_alias = self._program.dotted(node, resolved[0]) in _COMPILE
        return node if is_alias or self._is_partial(node, resolved[0]) else None

    def _is_partial(self, node: ast.expr, scope: Scope) -> bool:
        """Check for ``functools.partial(torch.compile, …)``, unless it disables compilation."""
        return (
            isinstance(node, ast.Call)
            and self._program.dotted(node.func, scope) == _PARTIAL
            and bool(node.args)
            and self._program.dotted(node.args[0], scope) in _COMPILE
            and not is_off(node)
        )


def keyword_value(call: ast.Call, name: str) -> ast.expr | None:
    """Return a call's argument of a name; None if nothing, as far as it's written out."""
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def is_off(call: ast.Call) -> bool:
    """Check whether ``disable=`` is passed as anything but False; False if arguments are unpacked
    before it.
    """
    for keyword in call.keywords:
        if keyword.arg is None:
            return False
        if keyword.arg == "disable":
            return not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    return False


def is_fullgraph(call: ast.Call) -> bool:
    """Check whether a break in what a call compiles is an error."""
    return any(
        keyword.arg in ("fullgraph", "nopython")
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is True
        for keyword in call.keywords
    )


def own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a function or module, without those of nested functions."""
    waiting = [node]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if not isinstance(child, _FUNCTIONS):
                yield child
                waiting.append(child)
