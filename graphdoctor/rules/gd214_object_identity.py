"""GD214: a different object in some calls."""

from __future__ import annotations

import re

from graphdoctor.rules.toolkit import (
    WITHIN_CALL,
    Fixes,
    RecompileGroup,
    RecompileRule,
    code_fix,
    quoted,
    without_middle,
)

_NAMED = re.compile(r"`?[\w.|]+`? `?[\w.|]+`?")
"""Two objects with names of their own, such as functions and members of an enumeration."""


class ObjectIdentity(RecompileRule):
    """A function, module or other object that is a different one in some calls.

    ## What it finds
    Recompiles because the compiled code has a guard on the identity of an object: a lambda or
    closure that is created for each call, a module that was replaced or freed, a different backend
    callable.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x, activation):
        return activation(x) + 1

    def inputs():
        return [(torch.ones(4), lambda t: t.sin()), (torch.ones(4), lambda t: t.sin())]
    ```

    ## Use instead
    ```python
    def inputs():
        activation = lambda t: t.sin()
        return [(torch.ones(4), activation), (torch.ones(4), activation)]
    ```

    ## Fix safety
    Creating the object once keeps results the same, unless it has state that each call must start
    without.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13 (`ID_MATCH`,
    `CLOSURE_MATCH`).
    """

    kinds = ("identity", "entry_gone", "backend")

    def because(self, group: RecompileGroup) -> str:
        change = group.first
        if change.kind == "backend":
            return "torch.compile got a different backend callable"
        old = f"{without_middle(change.old or 'one object')}{_made(change.old_place)}"
        new = f"{without_middle(change.new or 'a different one')}{_made(change.new_place)}"
        return f"{quoted(change.expression)} is a different object: {old} → {new}"

    def fixes(self, group: RecompileGroup) -> Fixes:
        change = group.first
        where = f" ({_base_name(change.new_place)})" if change.new_place else ""
        title = (
            f"Create {quoted(change.expression)} once, outside the loop that makes the calls{where}"
        )
        if change.old != change.new and _NAMED.fullmatch(f"{change.old} {change.new}"):
            if group.is_within_call:
                return (WITHIN_CALL,)
            title = f"Call it once with each value of {quoted(change.expression)} during warm-up"
        elif change.kind == "backend":
            title = "Pass the same backend callable to each torch.compile"
        return (code_fix(title),)


def _made(place: str | None) -> str:
    return f" created at {_base_name(place)}" if place else ""


def _base_name(place: str) -> str:
    return re.split(r"[/\\]", place)[-1]
