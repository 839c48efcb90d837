"""GD203: a Python number that changes from call to call."""

from __future__ import annotations

import ast
import re

from graphdoctor.facts.guards import GuardChange
from graphdoctor.facts.stack import parsed
from graphdoctor.rules.toolkit import (
    WITHIN_CALL,
    Fixes,
    RecompileGroup,
    RecompileRule,
    call_fix,
    code_fix,
    setting,
)

_READ = re.compile(r"(\.?)\b(item|tolist|int|float)\(")


class NumberArgument(RecompileRule):
    """A Python number that changes from call to call.

    ## What it finds
    Recompiles because an int or float that the compiled code is specialized on has a different
    value: an argument, a captured variable, or a number that an earlier part of the function read
        from a tensor. An int becomes dynamic at
    its second value. A float does so only if it is used in nothing but tensor arithmetic.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x, scale):
        return x.sin() * scale if scale > 0 else x.cos()

    def inputs():
        return [(torch.ones(4, 8), 2), (torch.ones(4, 8), -2)]
    ```

    ## Use instead
    ```python
    def forward(x, scale):
        return torch.where(scale > 0, x.sin() * scale, x.cos())

    def inputs():
        return [(torch.ones(4, 8), torch.tensor(2)), (torch.ones(4, 8), torch.tensor(-2))]
    ```

    ## Fix safety
    A tensor without dims can replace the number in arithmetic, but its dtype can promote
    differently than a Python number, and a branch on it needs `torch.where`. Capturing scalar
    outputs keeps results the same.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/config.py`, 2.13 (`specialize_int`,
    `capture_scalar_outputs`).
    """

    kinds = ("number",)

    def fixes(self, group: RecompileGroup) -> Fixes:
        change = group.first
        if "___stack" in (change.source or "") and (read := _READ.search(change.expression)):
            title = "Let torch keep the number in the graph"
            what = f"`.{read[2]}()`" if read[1] else f"the call of `{read[2]}`"
            kept = f"Keep the tensor: remove {what}"
            condition = "if only tensor arithmetic uses it"
            return (
                setting("capture_scalar_outputs", title, is_safe=True),
                code_fix(kept, condition=condition),
            )
        if group.is_within_call:
            return (WITHIN_CALL,)
        name = group.passed(change)
        if name is None or not _is_computed_with(change):
            title = "Keep the value the same from call to call, or in a tensor if only tensor arithmetic uses it"
            return (code_fix(title),)
        elsewhere = "where a branch, a size or a loop needs its value, a tensor breaks the graph"
        title = f"Pass `{name}` as a tensor if only tensor arithmetic uses it: {elsewhere}"
        place = group.at_call("each_call", name)
        return (call_fix(title, snippet=f"{name} = torch.tensor({name})", place=place),)


def _is_computed_with(change: GuardChange) -> bool:
    """Whether the line that guards on the number only computes with it, so that a tensor will do.

    A branch on a tensor, or a size from one, would break the graph instead.
    """
    if change.guard_location is None:
        return True
    tree = parsed((change.guard_location.text or "").strip())
    if tree is None:
        return False
    wanted = change.expression
    computed = {
        ast.unparse(side)
        for node in ast.walk(tree)
        if isinstance(node, ast.BinOp)
        for side in (node.left, node.right)
    }
    return wanted in computed and not is_index(change)


def is_index(change: GuardChange) -> bool:
    """Whether the line that guards on the number selects an item by it, which torch compiles for
    that item.
    """
    tree = parsed(((change.guard_location and change.guard_location.text) or "").strip())
    indexes = (
        node.slice
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.Subscript)
    )
    return any(change.expression in ast.unparse(index) for index in indexes)
