"""GD121: an iterator created outside the compiled region."""

from __future__ import annotations

import re

from graphdoctor.rules.toolkit import BreakRule, BreakSite, Fixes, code_fix

_ITERATOR = re.compile(r"iterator|generator|enumerate|zip|map|filter", re.IGNORECASE)


class IteratorFromOutside(BreakRule):
    """An iterator or generator that was created outside the compiled region.

    ## What it finds
    A `for` loop over, or `next()` on, an iterator, a generator, `enumerate` or `zip` that is an
    argument, an attribute or a global, in code that torch.compile traces.

    ## Why it costs
    The position of an iterator is hidden state that Dynamo can't read or guard on. `next()` ends
    the graph, and a `for` loop over it makes the whole function run eagerly.

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
    def inputs():
        return (torch.randn(4, 8), [1, 2, 3])
    ```
    Pass a list or a tuple, or create the iterator inside the compiled function.


    ## Fix safety
    Unsafe: a list starts over in each call, while an iterator continues where it stopped.

    ## Source
    PyTorch user guide, "Common graph breaks"; torch's own messages for GB0811 and GB4347.
    """

    torch_ids = ("GB0811", "GB4347", "GB0118", "GB0160")
    gb_type = (
        r"missing tp_iter|Missing tp_iternext|Unsupported next\(\) call|Unimplemented next\(\) call"
    )
    context = r"name=__(?:iter|next)__|\) __(?:iter|next)__ \[\]"
    says = "`{site.looped_over}` iterates over an iterator that was created outside the compiled function"

    def is_consequence(self, site: BreakSite) -> bool:
        return site.is_comprehension

    def message(self, site: BreakSite) -> str:
        if site.is_comprehension:
            return (
                f"torch skips the function around `{site.shown}`, and can't compile that by itself"
            )
        return super().message(site)

    def matches(self, site: BreakSite) -> bool:
        is_sourceless = site.gb_type.startswith("Unexpected type in sourceless builder")
        return (
            is_sourceless and _ITERATOR.search(site.torch_context) is not None
        ) or super().matches(site)

    def suggested(self, site: BreakSite) -> Fixes:
        if site.is_comprehension:
            yield code_fix(
                "Fix the break for which torch skips the function: then torch compiles this as part of it"
            )
        elif site.called == "next":
            yield code_fix(
                f"Call `{site.shown}` before the compiled function, and pass the value in"
            )
        else:
            yield code_fix(
                "Pass a list or a tuple, or create the iterator inside the compiled function"
            )
