"""GD202: a tensor whose size changes from call to call."""

from __future__ import annotations

import re

from graphdoctor.facts.expressions import expression, size_dim
from graphdoctor.facts.guards import GuardChange
from graphdoctor.rules.toolkit import (
    WITHIN_CALL,
    Fixes,
    RecompileGroup,
    RecompileRule,
    call_fix,
    can_be_dynamic,
    code_fix,
    compile_argument,
    config_fix,
    is_specialized,
    names,
    shortened,
)

_ARGUMENT = re.compile(r"^L\['(\w+)'\](?:\['[^']*'\]|\[\d+\])*$")
_ROOTS = frozenset({"self", "fn", "args", "kwargs"})
_EVERYTHING = compile_argument(
    "dynamic=True", "Compile with dynamic shapes from the start", is_safe=True
)


class SizeChange(RecompileRule):
    """A tensor whose size, or number of dims, changes from call to call.

    ## What it finds
    Recompiles because a dim that was compiled as static has a different size. By default, torch
    makes a dim dynamic when it sees a second size, so each dim that changes costs one recompile. So
    does each tensor that changes independently, and each size of 0 or 1.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x):
        return x.sin() + 1

    def inputs():
        return [(torch.ones(4, 8),), (torch.ones(6, 8),)]
    ```

    ## Use instead
    ```python
    def inputs():
        calls = [(torch.ones(4, 8),), (torch.ones(6, 8),)]
        for (x,) in calls:
            torch._dynamo.mark_dynamic(x, 0)
        return calls
    ```

    ## Fix safety
    A dynamic dim keeps results the same. Code for any size can be slower than code for one size: if
    there are only a few sizes, pad to them, or let torch compile each of them.

    ## Source
    PyTorch user guide, "Dynamic shapes" and "Recompilation"; `torch/_dynamo/decorators.py`, 2.13
    (`mark_dynamic`).
    """

    kinds = ("size", "rank", "dynamic_marking")

    def matches(self, change: GuardChange) -> bool:
        return super().matches(change) and not is_specialized(change)

    def fixes(self, group: RecompileGroup) -> Fixes:
        if group.first.kind == "rank":
            same = call_fix("Give the tensor the same number of dims in each call")
            return (WITHIN_CALL if group.is_within_call else same,)
        if group.first.kind == "dynamic_marking":
            return (call_fix("Mark the same dims in each call, from the first on"),)
        return tuple(_of_sizes(group))


def _of_sizes(group: RecompileGroup) -> Fixes:
    changes = [change for found in group.changes for change in found if can_be_dynamic(change)]
    if not changes:
        title = "Make a call with each of these sizes during warm-up: torch compiles sizes 0 and 1 on their own"
        yield call_fix(title, is_safe=True)
        return
    sources = {
        f"{change.source}.size()[{size_dim(change.expression)}]": change for change in changes
    }
    if constant := next((one for one in group.constants if one.source in sources), None):
        # torch raises an error if such a dim is marked, and dynamic=True changes nothing.
        size, text = sources[constant.source or ""].expression, shortened(constant.text or "")
        yield code_fix(f"Keep `{size}` from becoming a constant on line {constant.line}: `{text}`")
        return
    marks = dict.fromkeys(
        (name, at)
        for change in changes
        if (name := group.passed(change)) is not None
        and (at := size_dim(change.expression)) is not None
    )
    if marks and not _is_first(group):
        # What later calls pass needn't be there in the first one: an argument can be None then.
        listed, when = (
            names(change.expression for change in changes),
            "before each call in which the tensor exists",
        )
        yield call_fix(
            f"Mark {listed} as dynamic, with torch._dynamo.mark_dynamic, {when}", is_safe=True
        )
    elif marks:
        yield call_fix(
            f"Mark the {'dim' if len(marks) == 1 else 'dims'} as dynamic before the first call",
            snippet="\n".join(f"torch._dynamo.mark_dynamic({name}, {at})" for name, at in marks),
            place=group.at_call("first_call", *(name for name, _ in marks)),
            is_safe=True,
        )
    yield _EVERYTHING
    tensors = dict.fromkeys(name for change in changes if (name := _argument(change)) is not None)
    if tensors and not marks:
        listed = names(tensors)
        title = f"Name {listed} in `torch.compiler.config.dynamic_sources`, so that torch makes sizes dynamic"
        yield config_fix(title, "torch/compiler/config.py, 2.13", is_safe=True)


def _argument(change: GuardChange) -> str | None:
    """The changed tensor's name in the call if it is an argument or an item of one, otherwise
    None.
    """
    match = _ARGUMENT.match(change.source or "")
    if match is None:
        return None
    name = expression(match[0])
    # torch's wrapper has the argument x as kwargs['x'].
    if match[1] == "kwargs" and (key := re.fullmatch(r"kwargs\['(\w+)'\]", name)):
        return key[1]
    # What an earlier line computed has no name that torch takes.
    return None if match[1] in _ROOTS or name.startswith("(") else name


def _is_first(group: RecompileGroup) -> bool:
    """Whether the first call had these values: its cache entry guards on them."""
    causes = (event.compiles[0].cause for event in group.events)
    return any(cause is not None and (cause.nearest or "").endswith("/0") for cause in causes)
