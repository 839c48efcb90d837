"""Backward passes, optimizers, and code that creates or changes an autograd leaf."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from graphdoctor.fixes.lint.checks.base import Site, Spot
from graphdoctor.fixes.lint.flow import Place

_PARAMETER = "Attempted to use `torch.nn.Parameter()` constructor with Dynamo"
_WITH_PARAMETERS = frozenset(f"torch.nn.{name}" for name in ("Linear", "Bilinear", "Conv1d", "Conv2d", "Embedding"))
"""Modules that always have a parameter; a norm may not."""
_CREATORS = frozenset(f"torch.{name}" for name in ("ones", "zeros", "full", "rand", "randn", "empty", "tensor"))
_BY_METHOD = {
    "to_sparse": ("GD117", "GB0277", "Attempted to wrap sparse Tensor with VariableTracker"),
    "to_sparse_csr": ("GD117", "GB0277", "Attempted to wrap sparse Tensor with VariableTracker"),
    "is_inference": ("GD118", "GB0045", "Encountered tensor.is_inference() during tracing"),
    "random_": ("GD100", "GB0107", "Tensor.random_ op"),
}


def gradients(node: ast.AST, place: Place, site: Site) -> Iterator[Spot]:  # noqa: ARG001 - a check's interface
    """``backward()``, optimizer methods, ``requires_grad``, parameters created while tracing, sparse tensors."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if not isinstance(target, ast.Attribute) or target.attr != "requires_grad":
                continue
            if site.is_tensor(target.value):
                yield Spot("GD114", target, "GB0206", "setattr() on Tensor.requires_grad")
    if not isinstance(node, ast.Call):
        return
    dotted = site.dotted(node.func)
    if dotted == "torch.autograd.grad":
        yield Spot(
            "GD112", node, "GB9186", "using `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops`"
        )
    elif dotted == "torch.nn.Parameter" or dotted in _WITH_PARAMETERS:
        yield Spot("GD115", node, "GB0264", _PARAMETER)
    elif dotted in _CREATORS and any(
        keyword.arg == "requires_grad" and _is_true(keyword.value) for keyword in node.keywords
    ):
        yield Spot("GD114", node, "GB0225", "Attempted to use tensor creation function with requires_grad=True")
    elif isinstance(node.func, ast.Attribute):
        yield from _methods(node, node.func, site)


def _methods(node: ast.Call, func: ast.Attribute, site: Site) -> Iterator[Spot]:
    kind = site.kind(func.value)
    if kind == "optimizer" and func.attr in ("step", "zero_grad"):
        is_step = func.attr == "step"
        yield Spot(
            "GD112",
            node,
            "GB0025" if is_step else "GB0008",
            "Call to `torch._dynamo.graph_break()`" if is_step else "Attempted to inline function marked as skipped",
            "qualname: Optimizer.",
        )
    if func.attr == "backward" and (kind == "tensor" or _is_backward_of_unknown(node, func.value, site)):
        yield Spot("GD112", node, "GB0123", "Unsupported Tensor.backward() call")
    if kind != "tensor":
        return
    if func.attr in _BY_METHOD and site.is_tensor(_root(func.value, site)):
        yield Spot(_BY_METHOD[func.attr][0], node, *_BY_METHOD[func.attr][1:])
    elif func.attr == "requires_grad_" and _is_parameter(func.value, site) and not node.args and not node.keywords:
        yield Spot("GD114", node, "GB0125", "Unsupported Tensor.requires_grad_() call")


def _root(node: ast.expr, site: Site) -> ast.expr:
    """What a chain of methods and subscripts begins with: it may be sparse already if it comes from elsewhere."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and site.dotted(node.func) is None:
            node = node.func.value
        else:
            return node


def _is_backward_of_unknown(node: ast.Call, receiver: ast.expr, site: Site) -> bool:
    """Whether it's ``loss.backward()`` of a local name: other ``backward`` methods take the loss as an argument."""
    is_local = isinstance(receiver, ast.Name) and site.dotted(receiver) is None
    is_own = site.values.owner(receiver, site.region.scope) is not None
    is_defined = any("backward" in info.methods for info in site.program.classes.values())
    return is_local and not is_own and not is_defined and not node.args and not node.keywords


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_parameter(node: ast.expr, site: Site) -> bool:
    """Whether a tensor comes in from outside; for one created in the graph, torch breaks only if it's returned."""
    if not isinstance(node, ast.Name):
        return False
    bindings = site.region.scope.bindings.get(node.id, ())
    return len(bindings) == 1 and bindings[0].kind == "parameter"
