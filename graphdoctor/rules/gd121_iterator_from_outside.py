"""GD121: an iterator created outside the compiled region."""

from __future__ import annotations

import re
from typing import ClassVar

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.rules.diagnosis.lines import looped_over
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite

_TYPES = ("missing tp_iter", "Missing tp_iternext", "Unsupported next() call", "Unimplemented next() call")
_ITERATOR = re.compile(r"iterator|generator|enumerate|zip|map|filter", re.IGNORECASE)


class IteratorFromOutside(BreakRule, code="GD121", name="iterator-from-outside", severity="warning"):
    """An iterator or generator that was created outside the compiled region.

    ## What it finds
    A `for` loop over, or `next()` on, an iterator, a generator, `enumerate` or `zip` that is an argument, an attribute
    or a global, in code that torch.compile traces.

    ## Why it costs
    The position of an iterator is hidden state that Dynamo can't read or guard on. `next()` ends the graph, and a `for`
    loop over it makes the whole function run eagerly.

    ## Example
    ```python
    import torch

    def forward(x, steps):
        for step in steps:
            x = x.sin() * step
        return x

    def inputs():
        return (torch.randn(4, 8), iter([1, 2, 3]))
    ```

    ## Use instead
    ```python
    import torch

    def forward(x, steps):
        for step in steps:
            x = x.sin() * step
        return x

    def inputs():
        return (torch.randn(4, 8), [1, 2, 3])
    ```
    Pass a list or a tuple, or create the iterator inside the compiled function.


    ## Fix safety
    Unsafe: a list starts over in each call, while an iterator continues where it stopped.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own messages for GB0811 and GB4347.
    """

    torch_ids: ClassVar = frozenset({"GB0811", "GB4347", "GB0118", "GB0160"})

    def matches(self, site: BreakSite) -> bool:
        context = site.cause.context or ""
        is_special = "name=__iter__" in context or "name=__next__" in context
        is_iterator = site.cause.gb_type.startswith("Unexpected type in sourceless builder") and _ITERATOR.search(
            context
        )
        return super().matches(site) or site.cause.gb_type.startswith(_TYPES) or is_special or bool(is_iterator)

    def message(self, site: BreakSite) -> str:
        return f"`{looped_over(site)}` iterates over an iterator that was created outside the compiled function"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        if not site.is_own_code:
            return ()
        return (
            Fix(
                title="Pass a list or a tuple, or create the iterator inside the compiled function",
                kind="code",
                source="PyTorch user guide: torch.compile, common graph breaks",
            ),
        )
