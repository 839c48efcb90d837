"""GD215: a container or an object of another structure."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.diagnosis.recompile_wording import GUIDE, changed, recompiled
from graphdoctor.diagnosis.recompiles import RecompileGroup
from graphdoctor.diagnosis.rule import RecompileRule
from graphdoctor.model.diagnosis import Fix
from graphdoctor.model.recompiles import ChangeKind


class StructureChange(RecompileRule):
    """A dict, list or other object with other keys, another length or another type.

    ## What it finds
    Compiles because an argument's structure changed: other keys, another number of items, a list in place of a tuple,
    an attribute that comes and goes, one tensor passed twice.

    ## Why it costs
    Each compile takes as long as the first one, in the middle of a call; after `recompile_limit` of them (8) the
    function runs eagerly.

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
    import torch

    def forward(x, extras):
        for value in extras.values():
            x = x + value
        return x

    def inputs():
        return [(torch.ones(4), {"a": torch.ones(4)}), (torch.ones(4), {"a": torch.ones(4)})]
    ```

    ## Fix safety
    A fixed structure (missing entries filled with zeros, say) is for the author to judge; a stacked tensor keeps
    results.

    ## Source
    PyTorch user guide, "Recompilation"; `torch/_dynamo/guards.py`, 2.13 (`DICT_KEYS_MATCH`, `SEQUENCE_LENGTH`).
    """

    code: ClassVar = "GD215"
    name: ClassVar = "structure-change"
    severity: ClassVar = "warning"
    kinds: ClassVar = frozenset({"keys", "length", "attribute", "type", "aliasing"})

    def message(self, group: RecompileGroup) -> str:
        """What about the structure changed."""
        if group.first.kind == "aliasing":
            change = group.first
            return recompiled(group, f"{change.expression} became {change.new or 'the same tensor'}")
        return recompiled(group, changed(group))

    def fixes(self, group: RecompileGroup) -> tuple[Fix, ...]:
        """Keep the structure the same."""
        titles: dict[ChangeKind, str] = {
            "keys": "Pass the same keys, in the same order, in each call",
            "length": "Pass the same number of items, or stack them into one tensor",
            "type": "Pass a value of the same type in each call",
            "attribute": "Give the object the same attributes in each call",
            "aliasing": "Pass a copy where one tensor is given twice",
        }
        return (Fix(title=titles[group.first.kind], kind="call", source=GUIDE),)
