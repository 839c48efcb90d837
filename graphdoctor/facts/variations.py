"""The facts of ``--vary``: what torch compiles when one property of a call changes."""

from __future__ import annotations

from typing import Literal

from .base import Fact
from .guards import ChangeKind

TriedOutcome = Literal["free", "compiled", "over_limit", "fails_compiled", "fails_eager"]
"""``free``: nothing compiled for the value; ``compiled``: something did; ``over_limit``: the call
hit the recompile limit and ran eagerly; ``fails_compiled``: it works in eager mode and raises under
torch.compile; ``fails_eager``: it raises in eager mode, so it was not tried compiled."""

VariationVerdict = Literal["recompiles", "generalises", "free", "fails", "not_varied"]
"""``recompiles``: each new value recompiled. ``generalises``: some did, and the code that was
compiled then works for others. ``free``: none did. ``fails``: each raises under torch.compile and
works in eager mode. ``not_varied``: unknown. Special values only count if no other could be
tried."""


class TriedValue(Fact):
    """One value that a property was set to."""

    value: str
    """The value, such as ``8`` or ``f64``."""
    is_special: bool = False
    """Whether torch tends to compile separately for it: sizes 0 and 1, numbers 0, 1 and below 0."""
    outcome: TriedOutcome
    compiles: int | None = None
    """Compiles that got code in this call; None if it wasn't made under torch.compile."""
    compile_s: float | None = None
    """Seconds of these, as torch measured them."""
    torch_reason: str | None = None
    """The first guard that failed, in torch's words."""
    error: str | None = None


class Variation(Fact):
    """One property, and what changing only this property does to the compiled call.

    For each property, Dynamo is reset. Then come the unchanged call until nothing compiles, the
    values in order, and the unchanged call again. State and random numbers are restored before each
    call.
    """

    expression: str
    """The property in the user's words, such as ``x.shape[0]``, ``self.scale`` or ``grad mode``."""
    kind: ChangeKind
    base: str
    """Its value in the unchanged call."""
    tied: tuple[str, ...] = ()
    """Properties that had to change with it, because the call fails in eager mode otherwise."""
    tried: tuple[TriedValue, ...] = ()
    """The values that were tried, in order."""
    verdict: VariationVerdict
    back_compiles: int | None = None
    """Compiles of the unchanged call after all values; None if it wasn't made."""
    compile_s: float | None = None
    """Seconds spent compiling for the values, as torch measured them."""
    reason: str | None = None
    """Why it wasn't varied; None if it was."""
