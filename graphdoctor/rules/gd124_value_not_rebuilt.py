"""GD124: a value that torch can't reconstruct after a break."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.facts.diagnosis import Fix
from graphdoctor.rules.diagnosis.lines import called_name, shortened
from graphdoctor.rules.diagnosis.rule import BreakRule, BreakSite

_TYPES = ("Reconstruction failure", "Generator reconstruction with mutations", "reconstructing @contextmanager object")


class ValueNotRebuilt(BreakRule, code="GD124", name="value-not-rebuilt", severity="warning"):
    """A value that torch can't reconstruct after a graph break.

    ## What it finds
    A graph break while the function holds a value that exists only in Dynamo's trace: a bound method of an object
    created in the function, a generator that has started, or the exit of a `with`. The call, or the same line, has
    another break.

    ## Why it costs
    To continue in Python, Dynamo must reconstruct every live value. If it can't reconstruct one, the rest of the
    function runs eagerly.

    ## Example
    ```python
    import torch

    class Scale:
        def apply(self, x):
            print("scaling")
            return x * 2

    def forward(x):
        return Scale().apply(x.sin())

    def inputs():
        return (torch.randn(4, 8),)
    ```

    ## Use instead
    ```python
    import torch

    class Scale:
        def apply(self, x):
            return x * 2

    def forward(x):
        return Scale().apply(x.sin())

    def inputs():
        return (torch.randn(4, 8),)
    ```
    Fix the break inside the call first; then this one is gone. Otherwise create the object outside the compiled
    function.


    ## Fix safety
    Creating the object outside is safe if it doesn't keep state from the call.

    ## Source
    torch's own messages for GB0092, GB8335 and GB2533.
    """

    torch_ids: ClassVar = frozenset({"GB0092", "GB0093", "GB1297", "GB2533", "GB8335"})

    def matches(self, site: BreakSite) -> bool:
        return super().matches(site) or site.cause.gb_type.startswith(_TYPES)

    def message(self, site: BreakSite) -> str:
        what = called_name(site) or shortened(site.expression)
        return f"a break in `{what}` leaves a value that torch can't reconstruct"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        if not site.is_own_code:
            return ()
        what = called_name(site) or shortened(site.expression)
        return (
            Fix(
                title=f"Fix the break inside `{what}` first: it causes this one",
                kind="code",
                source="torch's message for GB0092",
            ),
        )
