"""The facts of a cure: what was tried to make a program fast, what of it helped, and what it comes
to.
"""

from __future__ import annotations

from typing import Literal

from .base import Document, Fact
from .bench import Noise, Speedup, Variant
from .fixes import Treatment
from .recording import CaptureGap, Environment, TargetInfo

AS_IT_WAS = "as you had it"
"""The name of torch.compile with the user's own arguments, without a change."""

CURED = "cured"
"""The name of the best way that was found."""

Best = Literal["eager", "as you had it", "cured"]

StepOutcome = Literal["kept", "no gain", "slower", "wrong", "failed", "skipped"]
"""``kept``: correct, and faster than the best before it, or as fast and quicker to compile cold;
``no gain``: neither; ``slower``, ``wrong`` and ``failed`` as of a variant; ``skipped``: not tried,
because it can't be, or time was up."""


class CureStep(Fact):
    """One thing that was tried on top of those that were kept before."""

    name: str
    """Such as ``fixes`` or ``mode=reduce-overhead``."""
    outcome: StepOutcome
    reason: str | None = None
    """Why, as a clause; None if the numbers say it."""
    is_late: bool = False
    """It wasn't tried because time was up."""
    speedup: Speedup | None = None
    """Beside the best way before it; None if it wasn't timed."""
    compile_cold_s: float | None = None
    """Seconds that compiling adds with an empty cache on disk; None unless cold starts were asked
    for."""
    compile_before_s: float | None = None
    """The same of the best way before it."""


class CureReport(Document):
    """What ``graphdoctor cure`` found."""

    environment: Environment
    target: TargetInfo
    text: str
    best: Best | None
    """The fastest correct way; None if the program fails without torch.compile, so that nothing
    could be compared."""
    eager: Variant
    """Without torch.compile."""
    as_it_was: Variant
    """With the user's own arguments."""
    cured: Variant | None
    """The best way that was found; None if nothing helped."""
    steps: tuple[CureStep, ...]
    """What was tried, in order."""
    diff: str = ""
    """Edits of source that the best way needs, as one unified diff."""
    arguments: dict[str, object]
    """What torch.compile is to be given that isn't its default; empty if the best way is eager
    mode."""
    compile_lines: tuple[str, ...] = ()
    """Lines that compile the model, in place of the user's own call of torch.compile."""
    settings: tuple[str, ...] = ()
    """Lines for the start of the program."""
    calls: tuple[str, ...] = ()
    """Lines for where the program makes its calls."""
    treatment: Treatment | None = None
    """Fixes that were tried; None if there were no findings to treat."""
    noise: Noise | None = None
    verified_calls: int
    """Calls whose results were compared with eager mode's."""
    budget_s: float
    """Seconds that the search was given."""
    spent_s: float
    """Seconds that it took."""
    gaps: tuple[CaptureGap, ...] = ()
