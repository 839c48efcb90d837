"""A training step that is compiled as a whole: compile only the forward pass and the loss."""

from __future__ import annotations

from typing import ClassVar

import libcst as cst
from libcst import matchers

from graphdoctor.fixes.recipe import Edit, Recipe
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.extraction import Run
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import SourceFile

_TRAINING = ("zero_grad", "backward", "step", "update", "train", "eval")
"""Methods of optimizers, schedulers, gradient scalers, losses and models that a training step calls."""

_IS_TRAINING = matchers.Call(func=matchers.Attribute(attr=matchers.OneOf(*map(matchers.Name, _TRAINING))))
_IS_STEP = matchers.Expr(matchers.Call(func=matchers.Attribute(attr=matchers.Name("step"))))
_IS_BACKWARD = matchers.Expr(matchers.Call(func=matchers.Attribute(attr=matchers.Name("backward"))))


class BackwardOutOfRegion(Recipe):
    """Moves the code before ``loss.backward()`` into its own function and lets Dynamo skip the rest.

    Dynamo then compiles the new function, and AOTAutograd its backward pass; ``backward()`` and the optimizer's step
    run eagerly, without a break. ``torch.compile`` looks through ``torch.compiler.disable`` on the function that it is
    given (``innermost_fn`` in ``torch/_dynamo/eval_frame.py``, 2.13), but not on a module's ``forward``; any other
    function gets ``torch._dynamo.decorators.skip``. Unsafe: the optimizer's step is no longer compiled, which the user
    has to decide.
    """

    name: ClassVar = "backward-out-of-region"
    codes: ClassVar = frozenset({"GD112"})

    def edit(self, place: Place) -> Edit:
        """The forward pass and the loss in a function, and the step around them skipped.

        Raises:
            DeclinedError: The function isn't such a training step.
        """
        function = place.source.function_of(place.statement)
        if not isinstance(function, cst.FunctionDef):
            raise DeclinedError("the line isn't in a function")
        if any("disable" in place.source.code(decorator) for decorator in function.decorators):
            raise DeclinedError("Dynamo is already disabled for the function")
        run = _forward(place.source, function)
        name = place.source.free_name(f"_{function.name.value.strip('_')}_loss")
        # The new function comes after the old one, which keeps its number.
        number = _functions(place.source).index(function)
        moved = run.moved(name)
        content = _skipped(moved, _functions(moved)[number])
        return Edit(
            title=f"Compile only the forward pass and the loss of `{function.name.value}`",
            content=content,
            is_safe=False,
        )


def _functions(source: SourceFile) -> list[cst.CSTNode]:
    return list(matchers.findall(source.tree, matchers.FunctionDef()))


def _forward(source: SourceFile, function: cst.FunctionDef) -> Run:
    """The statements before the first ``backward()``, without the training calls around them."""
    body = function.body.body
    backward = next((at for at, statement in enumerate(body) if _is_line_of(statement, _IS_BACKWARD)), None)
    if backward is None:
        raise DeclinedError("the function's body has no `backward()` on its own line")
    stop = backward
    while stop and _is_between(body[stop - 1]):
        stop -= 1
    start = stop
    while start and not _is_between(body[start - 1]):
        start -= 1
    if start == stop:
        raise DeclinedError("there is no forward pass and loss before `backward()` on their own lines")
    run = Run(source, function, function.body, start, stop)
    if any(matchers.findall(statement, _IS_TRAINING) for statement in run.statements):
        raise DeclinedError("there are calls of the training step between the forward pass and the loss")
    return run


def _is_line_of(statement: cst.CSTNode, matcher: matchers.Expr) -> bool:
    return isinstance(statement, cst.SimpleStatementLine) and all(
        matchers.matches(small, matcher) for small in statement.body
    )


def _is_between(statement: cst.CSTNode) -> bool:
    """Whether it is a docstring, or a call of the training step around the forward pass and the loss."""
    return _is_line_of(statement, matchers.Expr(_IS_TRAINING | matchers.SimpleString()))


def _skipped(source: SourceFile, function: cst.CSTNode) -> bytes:
    """The file with a function that Dynamo skips, and with the optimizers' steps in it disabled."""
    assert isinstance(function, cst.FunctionDef)  # the matcher says so
    changed = function
    for step in matchers.findall(function, _IS_STEP):
        assert isinstance(step, cst.Expr) and isinstance(step.value, cst.Call)  # the matcher says so
        # Otherwise Dynamo would compile the step's own frame, which contains an explicit graph break.
        disabled = cst.Call(cst.parse_expression("torch.compiler.disable"), [cst.Arg(step.value.func)])
        replaced = changed.deep_replace(step.value, step.value.with_changes(func=disabled))
        assert isinstance(replaced, cst.FunctionDef)
        changed = replaced
    suite = next(source.parents(function))
    is_method = isinstance(next(source.parents(suite), None), cst.ClassDef)
    is_forward = is_method and function.name.value == "forward"
    skip = "torch.compiler.disable(recursive=False)" if is_forward else "torch._dynamo.decorators.skip"
    decorated = changed.with_changes(decorators=[*changed.decorators, cst.Decorator(cst.parse_expression(skip))])
    return source.replaced((function, decorated), imports=("torch",))
