"""GD124: a value that torch cannot rebuild behind a break."""

from __future__ import annotations

from typing import ClassVar

from graphdoctor.diagnosis.lines import called_name, shortened
from graphdoctor.diagnosis.rule import BreakRule, BreakSite
from graphdoctor.model.diagnosis import Fix

_TYPES = ("Reconstruction failure", "Generator reconstruction with mutations", "reconstructing @contextmanager object")


class ValueNotRebuilt(BreakRule):
    """A value that torch cannot rebuild behind a break.

    ## What it finds
    A break at which Python still holds something that Dynamo only imagined: a bound method of an object made in the
    function, a generator half-way through, the end of a `with`. Another break lies inside the call, or on the same
    line.

    ## Why it costs
    To go on in Python, every live value must exist for real. Where one cannot be made, the function is left to eager
    mode as a whole.

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
    Fix the break inside the call first, and this one is gone. Else make the object outside the compiled function.


    ## Fix safety
    Making the object outside is safe where it holds no state of the call.

    ## Source
    torch's own messages for GB0092, GB8335 and GB2533.
    """

    code: ClassVar = "GD124"
    name: ClassVar = "value-not-rebuilt"
    severity: ClassVar = "warning"
    torch_ids: ClassVar = frozenset({"GB0092", "GB0093", "GB1297", "GB2533", "GB8335"})

    def matches(self, site: BreakSite) -> bool:
        """By id, or by the name that other versions give it."""
        return super().matches(site) or site.cause.gb_type.startswith(_TYPES)

    def message(self, site: BreakSite) -> str:
        """At which call."""
        what = called_name(site) or shortened(site.expression)
        return f"a break in `{what}` leaves a value that torch cannot rebuild"

    def fixes(self, site: BreakSite) -> tuple[Fix, ...]:
        """The other break first."""
        if not site.is_own_code:
            return ()
        what = called_name(site) or shortened(site.expression)
        return (
            Fix(
                title=f"Fix the break inside `{what}` first: this one follows from it",
                kind="code",
                source="torch's message for GB0092",
            ),
        )
