"""The facts of ``--vary``: one guarded property of a call changed at a time, and what torch compiled for it."""

from __future__ import annotations

from typing import Literal

from graphdoctor.model.base import Fact
from graphdoctor.model.recompiles import ChangeKind

TriedOutcome = Literal["free", "compiled", "over_limit", "fails_compiled", "fails_eager"]
"""``compiled``: something was compiled for the value; ``over_limit``: the recompile limit was hit, the call ran
eagerly; ``fails_compiled``: it works in eager mode and raises under torch.compile; ``fails_eager``: it raises in eager
mode, so it was not tried compiled."""

Verdict = Literal["recompiles", "generalises", "free", "fails", "not_varied"]
"""``recompiles``: each new value that was tried compiled something. ``generalises``: some did, and what was compiled
then serves others. ``free``: none did. ``fails``: each raises under torch.compile and works in eager mode.
``not_varied``: nothing is known. Special values count only where no other could be tried."""


class TriedValue(Fact):
    """One value that a property was set to."""

    value: str
    """In short, such as ``8`` or ``f64``."""
    is_special: bool = False
    """A value that torch tends to compile for by itself: sizes 0 and 1, numbers 0, 1 and below 0."""
    outcome: TriedOutcome
    """What came of it."""
    compiles: int | None = None
    """Compiles that got code in this call; None when it was not made under torch.compile."""
    compile_s: float | None = None
    """Seconds of these, as torch measured them."""
    torch_reason: str | None = None
    """The first guard that failed, in torch's words."""
    error: str | None = None
    """First line of what was raised."""


class Variation(Fact):
    """One property, and what changing it alone does to the compiled call.

    For each property Dynamo starts afresh: the unchanged call until it compiles nothing, then the values in order, then
    the unchanged call. State and random numbers are put back before each call.
    """

    expression: str
    """The property in the user's words, such as ``x.shape[0]``, ``self.scale`` or ``grad mode``."""
    kind: ChangeKind
    """What kind of change it is."""
    base: str
    """Its value in the unchanged call."""
    tied: tuple[str, ...] = ()
    """Properties that had to be changed with it, because it alone fails in eager mode."""
    tried: tuple[TriedValue, ...] = ()
    """In order."""
    verdict: Verdict
    """What follows from them."""
    back_compiles: int | None = None
    """Compiles of the unchanged call after all values; None when it was not made."""
    compile_s: float | None = None
    """Seconds spent compiling for the values, as torch measured them."""
    reason: str | None = None
    """Why it was not varied; None when it was."""
