"""Guards: what torch checks before it runs compiled code, what the checks cost, and which guarded
values made it recompile.

Costs are measured in the steady call, after the user's own calls. ``None`` always means "unknown".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from . import shared
from .base import Fact
from .stack import StackEntry


class GuardNode(Fact):
    """One guard: one line of torch's guard tree."""

    kind: shared.GuardKindName | None
    """torch's name, such as ``TENSOR_MATCH``; None if the line has an unknown layout."""
    source: shared.Expression | None
    """torch's source, such as ``L['self'].scale``; None for process-wide state."""
    expression: shared.Expression
    """The value in the user's words, such as ``self.scale`` or ``process-wide state``."""
    expected: shared.ShapeText | None
    """The value that it must have, such as ``f32[4, 4]`` or ``1.5``; None if unknown."""
    path: shared.Expression | None
    """The argument or module that the value belongs to, such as ``x`` or ``self.layers[0]``; None
    for process-wide state."""
    is_module_internal: bool = False
    """True if it is about the structure of a module (type, hooks, parameters, buffers, submodules),
    not about a value."""
    depth: int
    """Depth in torch's tree; the root's own guards are at 1."""
    location: StackEntry | None = None
    """The line that made torch guard on it; None if torch names none."""
    lower_location: StackEntry | None = None
    """Of a range such as ``2 <= x.shape[0] <= 7`` the line of its lower bound; None if torch names
    none, and if it's the other's."""
    hint: str | None = None
    """torch's hint or note."""
    guard: str
    """torch's text, without its comments."""


class SubtreeCost(Fact):
    """Cost of one part of the guard tree."""

    path: shared.Expression
    """The argument or module, such as ``x`` or ``self.layers[0]``; a module includes its
    submodules."""
    guard_count: int
    check_us: float | None
    """Microseconds that a check, repeated with warm caches, is faster without it; None if the
    difference is within the noise."""


class GuardSet(Fact):
    """The guards of one compile."""

    compile_id: shared.CompileId
    """Such as ``0/1``."""
    guard_count: int
    """Guards in torch's tree. torch's own number, ``Compile.guard_count``, counts the guards that
    Dynamo asked for, each of which can become several checks or none."""
    kinds: dict[shared.GuardKindName, int]
    """Guards by kind, most frequent first."""
    nodes: tuple[GuardNode, ...]
    """All guards in torch's order."""
    unread_lines: tuple[str, ...] = ()
    """Lines of the tree with an unknown layout, at most 20."""
    runs_per_call: int | None = None
    """Number of checks of the steady call that succeed; 0 if it doesn't reach them; None if not
    measured."""
    search_us: float | None = None
    """Microseconds of one search that finds it, as torch.profiler times it in the steady call: its
    check, and those of the entries that are tried before; less the profiler's own time. The median;
    None if not measured."""
    search_low_us: float | None = None
    """First quartile."""
    search_high_us: float | None = None
    """Third quartile."""
    check_us: float | None = None
    """Microseconds of one check, the median of repetitions with warm caches: a lower bound; None if
    not measured."""
    check_low_us: float | None = None
    """First quartile."""
    check_high_us: float | None = None
    """Third quartile."""
    share: float | None = None
    """Time of the searches that find it in a steady call divided by the call's time, 0 to 1; None
    unless both were measured."""
    warm_share: float | None = None
    """Time of its checks, repeated with warm caches, divided by the call's time, 0 to 1; None
    unless both were measured."""
    bill: tuple[SubtreeCost, ...] = ()
    """Cost by argument and module, repeated with warm caches, outermost first; a part includes the
    parts inside it."""

    @property
    def known_share(self) -> float | None:
        """Its share of the steady call as it happens; if that wasn't measured, with warm caches."""
        return self.share if self.share is not None else self.warm_share


class Guards(Fact):
    """The guards of a whole recording, and the steady call that they were measured in."""

    sets: tuple[GuardSet, ...] = ()
    """Guards of each compile, in order, without those of extra calls."""
    call_us: float | None = None
    """Median time of the steady call (only the forward pass), in microseconds; None if not
    measured."""
    call_low_us: float | None = None
    """First quartile."""
    call_high_us: float | None = None
    """Third quartile."""
    call_count: int | None = None
    """Number of timings of the steady call."""
    searches_us: float | None = None
    """Microseconds that guard checks take in one steady call as it happens: all of torch's searches
    for compiled code, as torch.profiler times them there, less the profiler's own time. The median;
    None if not measured."""
    searches_low_us: float | None = None
    """First quartile."""
    searches_high_us: float | None = None
    """Third quartile."""
    checks_us: float | None = None
    """Microseconds of all successful guard checks of one steady call, each repeated with warm
    caches: a lower bound; None unless each was measured."""
    share: float | None = None
    """``searches_us`` divided by ``call_us``, 0 to 1; None too if it took longer than the call."""
    warm_share: float | None = None
    """``checks_us`` divided by ``call_us``, likewise."""

    @property
    def known_share(self) -> float | None:
        """The share of the steady call as it happens; if that wasn't measured, with warm caches."""
        return self.share if self.share is not None else self.warm_share


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
"""Kind of change of a value. ``number``: a Python int or float; ``module_number``: one that is an
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
    """True if the tensor is a ``torch.nn.Parameter``, whose sizes torch treats as static."""
    guard: str | None = None
    """torch's guard as printed."""
    small_source: shared.Expression | None = None
    """For a relation, torch's source of the size that is 0 or 1 now, which it compiles by itself;
    None if there is none, and if unknown."""
    guard_location: StackEntry | None = None
    """The line that made torch guard on the value; None if torch names none."""
    hint: str | None = None
    """torch's hint for this guard."""

    @property
    def key(self) -> tuple[ChangeKind, str]:
        """Return the properties that all changes of one value have in common."""
        return self.kind, self.expression


def distinct_values(changes: Iterable[GuardChange]) -> tuple[GuardChange, ...]:
    """Return the first change of each value, in order: a value that changed in several calls is
    one.
    """
    found: dict[tuple[str, str], GuardChange] = {}
    for change in changes:
        found.setdefault(change.key, change)
    return tuple(found.values())


class RecompileCause(Fact):
    """Reason why a frame with compiled code recompiled."""

    nearest: shared.CompileId | None
    """Compile id of the cache entry that was compared: of those that differ only in values that
    changed since the function's last call, the one that differs in the fewest; None if unknown."""
    last_used: shared.CompileId | None = None
    """Compile id of the cache entry that the function's last call used; None if unknown."""
    changes: tuple[GuardChange, ...]
    """All guarded values that differ from the nearest entry; from a log that graphdoctor didn't
    record, only the first failed guard of each entry."""
    hidden_change_count: int = 0
    """Number of values that differ beyond the listed ones."""
    also_changed: tuple[GuardChange, ...] = ()
    """Guarded values that changed since the function's last call too, but to what the nearest entry
    was compiled for."""
    caller: tuple[StackEntry, ...] = ()
    """The Python stack that led to the frame, outermost first, if the compile's own ``stack`` is
    empty."""
    is_exact: bool
    """True if compared while running; False if read from torch's log."""
