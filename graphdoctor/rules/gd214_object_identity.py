"""GD214: another object with each call."""

from __future__ import annotations

import re
from typing import ClassVar

from graphdoctor.diagnosis.recompile_wording import GUIDE, quoted, recompiled
from graphdoctor.diagnosis.recompiles import RecompileGroup
from graphdoctor.diagnosis.rule import RecompileRule
from graphdoctor.model.diagnosis import Fix


class ObjectIdentity(RecompileRule):
    """A function, module or other object that is a new one in some calls.

    ## What it finds
    Compiles because the compiled code belongs to one very object: a lambda or a closure that is made anew for each
    call, a module that is swapped or was freed, another backend callable.

    ## Why it costs
    Each compile takes as long as the first one, in the middle of a call; after `recompile_limit` of them (8) the
    function runs eagerly.

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
    import torch

    def forward(x, activation):
        return activation(x) + 1

    def inputs():
        activation = lambda t: t.sin()
        return [(torch.ones(4), activation), (torch.ones(4), activation)]
    ```

    ## Fix safety
    Making an object once keeps results unless it holds state that each call must begin anew with.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13 (`ID_MATCH`, `CLOSURE_MATCH`).
    """

    code: ClassVar = "GD214"
    name: ClassVar = "object-identity"
    severity: ClassVar = "warning"

    kinds: ClassVar = frozenset({"identity", "entry_gone", "backend"})

    def message(self, group: RecompileGroup) -> str:
        """Which object is another one, and where old and new were made."""
        change = group.first
        if change.kind == "entry_gone":
            return recompiled(group, "an object that its compiled code belonged to is gone")
        if change.kind == "backend":
            return recompiled(group, "torch.compile was given another backend callable")
        old = f"{change.old or 'one object'}{_made(change.old_place)}"
        new = f"{change.new or 'another'}{_made(change.new_place)}"
        return recompiled(group, f"{quoted(change.expression)} is another object: {old} → {new}")

    def fixes(self, group: RecompileGroup) -> tuple[Fix, ...]:
        """Make it once."""
        change = group.first
        if change.kind == "entry_gone":
            return (Fix(title="Keep the object alive as long as the compiled function", kind="code", source=GUIDE),)
        if change.kind == "backend":
            return (Fix(title="Pass the same backend callable to each torch.compile", kind="code", source=GUIDE),)
        where = f" ({_base_name(change.new_place)})" if change.new_place else ""
        title = f"Make {quoted(change.expression)} once, outside the loop that calls{where}"
        return (Fix(title=title, kind="code", source=GUIDE),)


def _made(place: str | None) -> str:
    return f" made at {_base_name(place)}" if place else ""


def _base_name(place: str) -> str:
    return re.split(r"[/\\]", place)[-1]
