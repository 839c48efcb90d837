"""What the rules on recompiles say alike: how often, from what to what."""

from __future__ import annotations

from graphdoctor.rules.frames import described
from graphdoctor.rules.recompiles import RecompileGroup

GUIDE = "PyTorch user guide: torch.compile, recompilation"
_MAX_VALUES = 5
_MAX_NAMES = 3


def recompiled(group: RecompileGroup, what: str) -> str:
    """The whole sentence: the function, how often it was compiled again, and what changed."""
    count = len([event for event in group.events if not event.is_over_limit])
    times = {0: "could not be compiled again", 1: "was compiled once more"}.get(
        count, f"was compiled {count} times more"
    )
    return f"`{described(group.frame)}` {times}: {what}"


def changed(group: RecompileGroup) -> str:
    """What changed from what to what: ``x.shape[0]`` went 4 → 6 → 7."""
    return f"{names(group)} {went(group)}"


def names(group: RecompileGroup) -> str:
    """The values that changed, in backquotes, at most three by name."""
    found = [expression if " " in expression else f"`{expression}`" for expression in group.expressions]
    shown, more = found[:_MAX_NAMES], len(found) - _MAX_NAMES
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def went(group: RecompileGroup) -> str:
    """The values of the first expression from event to event."""
    values = group.values(group.expressions[0])
    if not values:
        return "changed"
    if len(values) == 1:
        return f"was {values[0]} before"
    shown = values if len(values) <= _MAX_VALUES else (*values[: _MAX_VALUES - 1], "…", values[-1])
    return "went " + " → ".join(shown)
