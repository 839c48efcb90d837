"""The facts of recompiles: which guarded values differed from the nearest cache entry, who made the call."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from graphdoctor.model.base import Fact
from graphdoctor.model.stack import StackEntry

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
"""What about a value changed. ``number``: a Python int or float; ``module_number``: one that is an attribute of a
module; ``flag``: a bool; ``none``: None against something; ``value``: another constant; ``identity``: another object
of the same type; ``relation``: a condition on dynamic sizes no longer held; ``entry_gone``: torch dropped the cache
entry; ``unknown``: torch's words alone."""


class GuardChange(Fact):
    """One guarded value that differed from what a cache entry was compiled for."""

    kind: ChangeKind
    """What about the value changed."""
    source: str | None = None
    """torch's source, such as ``L['self'].scale``; None for process-wide state."""
    expression: str
    """The value in the user's words, such as ``x.shape[0]``, ``self.scale`` or ``grad mode``."""
    old: str | None = None
    """What the cache entry was compiled for; None when not known."""
    new: str | None = None
    """What the call brought; None when not known."""
    old_place: str | None = None
    """``file:line`` where the old object's code is, for functions and classes."""
    new_place: str | None = None
    """``file:line`` where the new object's code is."""
    is_parameter: bool = False
    """The tensor is a ``torch.nn.Parameter``, whose sizes torch takes to be fixed."""
    guard: str | None = None
    """torch's guard, as printed."""
    guard_location: StackEntry | None = None
    """The user's line that made torch guard on the value; None when torch names none."""
    hint: str | None = None
    """torch's hint for this guard."""


class RecompileCause(Fact):
    """Why a frame that had compiled code was compiled again."""

    nearest: str | None
    """Compile id of the cache entry with the fewest differing values; None when not known."""
    entry_count: int | None
    """How many cache entries the frame had; None when not known."""
    changes: tuple[GuardChange, ...]
    """All guarded values that differ from the nearest entry; from a log of others the first failed one of each
    entry's guards alone."""
    hidden_change_count: int = 0
    """Differing values beyond those listed."""
    caller: tuple[StackEntry, ...] = ()
    """The Python stack that led to the frame, outermost first, where the compile's own ``stack`` is empty."""
    loop_values: dict[str, str] = Field(default_factory=dict)
    """Numbers that count the loops around the user's calling line, such as ``{"step": "17"}``."""
    is_exact: bool
    """Compared while running; False when read from the text that torch printed."""
