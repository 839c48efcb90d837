"""The facts of recompiles: which guarded values differed from the nearest cache entry, and who made
the call.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Literal

from . import shared
from .base import Fact
from .stack import StackEntry

ChangeKind = Literal[
    "size",
    "rank",
    "stride",
    "dtype",
    "device",
    "requires_grad",
    "tensor_class",
    "dispatch_keys",
    "dynamic_marking",
    "number",
    "module_number",
    "flag",
    "text",
    "none",
    "value",
    "type",
    "identity",
    "keys",
    "length",
    "attribute",
    "training",
    "grad_mode",
    "inference_mode",
    "autocast",
    "default_dtype",
    "default_device",
    "threads",
    "determinism",
    "global_state",
    "function_mode",
    "aliasing",
    "relation",
    "backend",
    "entry_gone",
    "unknown",
]
"""What changed about a value. ``number``: a Python int or float; ``module_number``: one that is an
attribute of a module; ``flag``: a bool; ``none``: to or from None; ``value``: another constant;
``identity``: a different object of the same type; ``relation``: a condition on dynamic sizes that
no longer holds; ``entry_gone``: torch dropped the cache entry; ``unknown``: only torch's words are
known."""


class GuardChange(Fact):
    """One guarded value that differs from the one that a cache entry was compiled for."""

    kind: ChangeKind
    source: shared.Expression | None = None
    """torch's source, such as ``L['self'].scale``; None for process-wide state."""
    expression: shared.Expression
    """The value in the user's words, such as ``x.shape[0]``, ``self.scale`` or ``grad mode``."""
    old: str | None = None
    """The value that the cache entry was compiled for; None if unknown."""
    previous: str | None = None
    """The value in the last call of the function before this one; None if unknown."""
    new: str | None = None
    """The value in the call; None if unknown."""
    old_place: shared.Place | None = None
    """``file:line`` of the old object's code, for functions and classes."""
    new_place: shared.Place | None = None
    """``file:line`` of the new object's code."""
    is_parameter: bool = False
    """Whether the tensor is a ``torch.nn.Parameter``, whose sizes torch treats as static."""
    guard: str | None = None
    """torch's guard as printed."""
    guard_location: StackEntry | None = None
    """The line that made torch guard on the value; None if torch names none."""
    hint: str | None = None
    """torch's hint for this guard."""

    @property
    def key(self) -> tuple[ChangeKind, str]:
        """What all changes of one value have in common."""
        return self.kind, self.expression


def distinct_values(changes: Iterable[GuardChange]) -> tuple[GuardChange, ...]:
    """The first change of each value, in order: a value that changed in several calls is one."""
    found: dict[tuple[str, str], GuardChange] = {}
    for change in changes:
        found.setdefault(change.key, change)
    return tuple(found.values())


class RecompileCause(Fact):
    """Why a frame with compiled code recompiled."""

    nearest: shared.CompileId | None
    """Compile id of the cache entry that was compared: of those that differ only in values that
    changed since the function's last call, the one that differs in the fewest; None if unknown."""
    last_used: shared.CompileId | None = None
    """Compile id of the cache entry that the function's last call used; None if unknown."""
    entry_count: int | None
    """Number of cache entries that the frame had; None if unknown."""
    changes: tuple[GuardChange, ...]
    """All guarded values that differ from the nearest entry; from a log that graphdoctor didn't
    record, only the first failed guard of each entry."""
    hidden_change_count: int = 0
    """How many more values differ than are listed."""
    also_changed: tuple[GuardChange, ...] = ()
    """Guarded values that changed since the function's last call too, but to what the nearest entry
    was compiled for."""
    caller: tuple[StackEntry, ...] = ()
    """The Python stack that led to the frame, outermost first, if the compile's own ``stack`` is
    empty."""
    loop_values: dict[str, str] = field(default_factory=dict)
    """Loop counters around the calling line and their values, such as ``{"step": "17"}``."""
    is_exact: bool
    """True if compared while running; False if read from torch's log."""
