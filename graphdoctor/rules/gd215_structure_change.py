"""GD215: a container or object whose structure changes from call to call."""

from __future__ import annotations

from graphdoctor.facts.guards import ChangeKind
from graphdoctor.rules.toolkit import Fixes, RecompileGroup, RecompileRule, call_fix, quoted

_TITLES: dict[ChangeKind, str] = {
    "keys": "Pass the same keys, in the same order, in each call",
    "length": "Pass the same number of items, or stack them into one tensor",
    "type": "Pass a value of the same type in each call",
    "attribute": "Give the object the same attributes in each call",
    "aliasing": "Pass a copy if the same tensor is passed twice",
}


class StructureChange(RecompileRule):
    """A dict, list or other object whose keys, length or type change from call to call.

    ## What it finds
    Recompiles because the structure of an argument changed: different keys, a different number of
    items, a list instead of a tuple, an attribute that is only sometimes there, the same tensor
    passed twice.

    ## Why it costs
    Each recompile takes as long as the first compile and happens in the middle of a call. After
    `recompile_limit` (8) of them, the function runs eagerly.

    ## Example
    ```python
    import torch

    def forward(x, extras):
        for value in extras.values():
            x = x + value
        return x

    def inputs():
        return [(torch.ones(4), {"a": torch.ones(4)}), (torch.ones(4), {"b": torch.ones(4)})]
    ```

    ## Use instead
    ```python
    def inputs():
        return [(torch.ones(4), {"a": torch.ones(4)}), (torch.ones(4), {"a": torch.ones(4)})]
    ```

    ## Fix safety
    A stacked tensor keeps results the same. Whether you can use a fixed structure, such as zeros
    for missing entries, depends on the program.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13 (`DICT_KEYS_MATCH`,
    `SEQUENCE_LENGTH`).
    """

    kinds = tuple(_TITLES)
    is_about_calls = True

    def because(self, group: RecompileGroup) -> str:
        change = group.first
        is_alias = change.kind == "aliasing"
        return (
            f"{change.expression} became {change.new or 'the same tensor'}"
            if is_alias
            else group.changed
        )

    def fixes(self, group: RecompileGroup) -> Fixes:
        name = quoted(group.first.expression)
        if group.first.kind in ("keys", "length", "type") and group.passed(group.first) is None:
            return (
                call_fix(
                    f"Keep {name} the same from call to call, or compile one function for each"
                ),
            )
        return (call_fix(_TITLES[group.first.kind]),)
