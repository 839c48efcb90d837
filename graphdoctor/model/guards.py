"""The facts of guards: what torch checks before it runs a compiled function, and what a check costs.

Costs are measured on the steady last call, after the user's own calls; ``None`` always means "not known".
"""

from __future__ import annotations

from pydantic import Field

from graphdoctor.model.base import Fact
from graphdoctor.model.stack import StackEntry


class GuardNode(Fact):
    """One guard: one line of torch's tree."""

    kind: str | None
    """torch's name, such as ``TENSOR_MATCH``; None where the line has another layout."""
    source: str | None
    """torch's source, such as ``L['self'].scale``; None for process-wide state."""
    expression: str
    """The value in the user's words, such as ``self.scale`` or ``process-wide state``."""
    expected: str | None
    """What it must be, in words, such as ``f32[4, 4]`` or ``1.5``; None when not known."""
    path: str | None
    """The argument or module that the value belongs to, such as ``x`` or ``self.layers[0]``; None for process-wide
    state."""
    is_module_internal: bool = False
    """On how a module is built (its type, hooks, parameters, buffers, submodules), not on a value of the user's."""
    depth: int
    """Depth in torch's tree, the root's own guards at 1."""
    location: StackEntry | None = None
    """The line that made torch guard on it; None when torch names none."""
    hint: str | None = None
    """torch's hint or note."""
    guard: str
    """torch's text, without its comments."""


class SubtreeCost(Fact):
    """What one part of the tree adds to a guard check."""

    path: str
    """The argument or module, such as ``x`` or ``self.layers[0]``; a module includes its submodules."""
    guard_count: int
    """Guards in it."""
    check_us: float | None
    """Microseconds that a check is quicker without it; None when the difference drowns in the noise."""


class GuardSet(Fact):
    """The guards of one compile."""

    compile_id: str
    """Such as ``0/1``."""
    guard_count: int
    """Lines of torch's tree that are guards. torch's own count (``Compile.guard_count``) counts what Dynamo asked for,
    of which one can become several checks or none."""
    kinds: dict[str, int]
    """Guards by kind, most frequent first."""
    nodes: tuple[GuardNode, ...]
    """All guards in torch's order."""
    unread_lines: tuple[str, ...] = ()
    """Lines of the tree that have another layout, at most 20."""
    latency_us: float | None = None
    """The check as torch measured it once, when it had just been compiled, caches cold."""
    runs_per_call: int | None = None
    """How often the steady call checks it with success; 0 when the call does not reach it; None when not measured."""
    check_us: float | None = None
    """Median of one check, in microseconds, repeated and so with warm caches: a lower bound; None when not measured."""
    check_low_us: float | None = None
    """First quartile."""
    check_high_us: float | None = None
    """Third quartile."""
    share: float | None = None
    """All its checks of a steady call over the call's time, 0 to 1; None unless both were measured."""
    bill: tuple[SubtreeCost, ...] = ()
    """By argument and module, outermost first; a part that contains another includes it."""
    unbilled_count: int = 0
    """Parts that were not measured on their own, to stay within bounds."""


class Guards(Fact):
    """The guards of a whole recording, and the steady call that they were measured in."""

    sets: tuple[GuardSet, ...] = Field(default=())
    """One for each compile, in order; those of extra calls left out."""
    call_us: float | None = None
    """Median time of the steady call (forward only), in microseconds; None when not measured."""
    call_low_us: float | None = None
    """First quartile."""
    call_high_us: float | None = None
    """Third quartile."""
    call_count: int | None = None
    """How often the steady call was timed."""
    checks_us: float | None = None
    """All successful guard checks of one steady call together; None unless each was measured."""
    share: float | None = None
    """That over the call's time, 0 to 1."""
