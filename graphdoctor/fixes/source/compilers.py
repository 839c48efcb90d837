"""What in a file is torch.compile, under whatever name, and which decorators leave what they decorate as it is."""

from __future__ import annotations

import ast

from graphdoctor.fixes.source.program import Program, Scope

_COMPILE = ("torch.compile", "torch._dynamo.optimize", "torch._dynamo.optimize_assert")
_PARTIAL = "functools.partial"
_HARMLESS = (
    "torch.no_grad", "torch.enable_grad", "torch.autograd.no_grad", "builtins.staticmethod", "builtins.classmethod",
    "typing.override", "typing_extensions.override", "abc.abstractmethod",
)  # fmt: skip
UNWRAPPED = ("to", "cuda", "cpu", "eval", "train", "half", "float", "double", "bfloat16", "requires_grad_")
"""Methods of a module that return the module itself."""


class Compilers:
    """Recognizes torch.compile in a file."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._plain: dict[Scope, bool] = {}

    def is_compile(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is torch.compile, or another name for it in the file."""
        if self._program.dotted(node, scope) in _COMPILE:
            return True
        return isinstance(node, ast.Name) and self._named(node.id, scope) is not None

    def compiler(self, node: ast.expr, scope: Scope) -> ast.Call | None:
        """The call with the arguments of an expression that compiles what it's applied to; None for others."""
        if isinstance(node, ast.Call):
            partial = self._partial(node, scope)
            if partial is not None:
                return ast.Call(partial.func, [], partial.keywords)
            return node if self.is_compile(node.func, scope) and not is_off(node) else None
        if isinstance(node, ast.Name) and (named := self._named(node.id, scope)) is not None:
            return ast.Call(named, [], named.keywords if isinstance(named, ast.Call) else [])
        return ast.Call(node, [], []) if self.is_compile(node, scope) else None

    def compiled(self, node: ast.Call, scope: Scope) -> tuple[ast.expr, ast.Call] | None:
        """What a call compiles, and the call with the arguments; None if it compiles nothing."""
        if self.is_compile(node.func, scope) and not is_off(node):
            handed = node.args[:1] or [keyword.value for keyword in node.keywords if keyword.arg == "model"]
            return (handed[0], node) if handed else None
        if isinstance(node.func, ast.Call) and node.args:
            inner = self.compiler(node.func, scope)
            if inner is not None and not inner.args:
                return node.args[0], inner
        return None

    def is_wrapping(self, value: ast.AST | None, target: ast.expr, scope: Scope) -> bool:
        """Whether a target's new value is its old one, compiled or moved: ``model = torch.compile(model.cuda())``."""
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
        return is_wrapped and isinstance(value, ast.expr) and _same(value, target)

    def is_plain(self, scope: Scope) -> bool:
        """Whether calling a function runs its body: only torch.compile and harmless decorators, no generator."""
        if scope not in self._plain:
            outer = scope.parent or scope
            self._plain[scope] = (
                not isinstance(scope.node, ast.AsyncFunctionDef)
                and all(
                    self.compiler(one, outer) is not None or self._is_harmless(one, outer) for one in scope.decorators
                )
                and not _is_generator(scope.node)
            )
        return self._plain[scope]

    def _is_harmless(self, node: ast.expr, scope: Scope) -> bool:
        named = node.func if isinstance(node, ast.Call) else node
        return self._program.dotted(named, scope) in _HARMLESS

    def _named(self, name: str, scope: Scope) -> ast.expr | None:
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
            return node if is_compile and not is_off(node) else None
        return None


def is_off(call: ast.Call) -> bool:
    """Whether ``disable=`` is passed as anything but False; False if arguments are unpacked before it."""
    for keyword in call.keywords:
        if keyword.arg is None:
            return False
        if keyword.arg == "disable":
            return not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
    return False


def is_fullgraph(call: ast.Call) -> bool:
    """Whether a break in what a call compiles is an error."""
    return any(
        keyword.arg in ("fullgraph", "nopython")
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is True
        for keyword in call.keywords
    )


def own_nodes(node: ast.AST) -> list[ast.AST]:
    """All nodes of a function or module, without those of nested functions."""
    found: list[ast.AST] = []
    waiting = [node]
    while waiting:
        for child in ast.iter_child_nodes(waiting.pop()):
            if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                found.append(child)
                waiting.append(child)
    return found


def _is_generator(node: ast.AST) -> bool:
    return any(isinstance(child, (ast.Yield, ast.YieldFrom)) for child in own_nodes(node))


def _same(one: ast.expr, other: ast.expr) -> bool:
    """Whether two names or attributes are the same, read or assigned."""
    match one, other:
        case ast.Name(id=first), ast.Name(id=second):
            return first == second
        case ast.Attribute(value=inner, attr=first), ast.Attribute(value=outer, attr=second):
            return first == second and _same(inner, outer)
        case ast.Subscript(value=inner, slice=ast.Constant(value=first)), ast.Subscript(
            value=outer, slice=ast.Constant(value=second)
        ):
            return bool(first == second) and _same(inner, outer)
        case _:
            return False
