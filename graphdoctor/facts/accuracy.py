"""The facts of ``accuracy``: whether compiled code computes what eager mode does, and where it
first differs.

``AccuracyReport`` is a JSON document.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from .base import Document, Fact
from .bench import Correctness, Stages
from .located import Located, NotLocated
from .recording import CaptureGap, Environment, TargetInfo, TracingBranch
from .stack import StackEntry
from .trials import Difference, ResultKind

AccuracyVerdict = Literal["same bits", "rounding", "different", "unknown"]
"""``same bits``: everything that was compared is eager mode's, bit by bit; ``rounding``: only
rounding differs; ``different``: rounding can't explain it; ``unknown``: nobody can say, and the
report says why."""

CureKind = Literal["part", "argument", "line", "torch"]
"""A ``part`` of the compiler that is left out, by a setting too; an ``argument`` of torch.compile;
an operation that is kept out of graphs (``line``); or the ``torch`` of another environment."""


class StaleValue(Fact):
    """A value that changed between calls without a recompile, though the graph depends on it."""

    expression: str | None
    """The value in the user's words, such as ``self.scale``; None if it isn't known."""
    before: str | None = None
    """As the graph has it."""
    after: str | None = None
    """As the call that went wrong has it."""
    call: int
    """The first call, from 1, in which a fresh compile agrees and the graph that was reused
    doesn't."""
    compile_id: str | None = None
    """The compile whose graph was reused; None if unknown."""
    location: StackEntry | None = None
    """The line at which the graphs differ."""
    difference: Difference
    """How the results differ."""


class Cure(Fact):
    """A change that was tried: whether results agree with it."""

    name: str
    """Its part, argument or operation, such as ``vectorization``, or ``torch 2.14.1``."""
    kind: CureKind
    lines: tuple[str, ...] = ()
    """Lines of Python to run before torch.compile."""
    arguments: dict[str, object] = field(default_factory=dict)
    """Arguments of torch.compile with another value."""
    is_right: bool
    """True if results are eager mode's with it."""
    reason: str | None = None
    """Why not, a clause; None if they are."""


class ComparedKind(Fact):
    """Results of one kind beside eager mode's."""

    kind: ResultKind
    verdict: AccuracyVerdict
    count: int
    """Values that were compared."""
    variant: float | None = None
    """Largest distance of a value from a run in float64, relative to its size; None if unknown."""
    eager: float | None = None
    """The same of eager mode."""


class AccuracyReport(Document):
    """The JSON document of ``graphdoctor accuracy``."""

    environment: Environment
    target: TargetInfo
    text: str
    """The answer in a sentence."""
    verdict: AccuracyVerdict
    reason: str | None = None
    """Why nobody can say, a clause; None if the verdict isn't ``unknown``."""
    call_count: int
    """Calls that were compared."""
    graphs: int
    """Graphs that torch compiled in them; without one, nothing compiled was compared."""
    break_sites: int = 0
    """Lines that break graphs; from them on, code may be eager mode's own."""
    correctness: Correctness | None
    kinds: tuple[ComparedKind, ...] = ()
    differences: tuple[Difference, ...] = ()
    """The largest of each kind that rounding can't explain."""
    strides: Difference | None = None
    """How strides differ, if they weren't asked to count; None if they don't."""
    is_drawn_as_eager: bool = False
    """True if a call draws random numbers, and compiled code was given eager mode's to compare."""
    first_call: int | None = None
    """The first call with another result; None if none has, or it isn't known."""
    stages: Stages | None = None
    located: Located | None = None
    not_located: NotLocated | None = None
    not_located_lines: tuple[StackEntry, ...] = ()
    """Lines of the operations among which the wrong ones are; empty if one is named."""
    reproduction: str | None = None
    """A program of a few lines, which was run and is wrong in the same way; None if there is
    none."""
    stale: StaleValue | None = None
    branches: tuple[TracingBranch, ...] = ()
    """Lines that ask whether torch.compile is at work."""
    is_branch_explained: bool | None = None
    """True if results agree once eager mode takes the compiled branch; None if it can't, or it
    wasn't tried."""
    cures: tuple[Cure, ...] = ()
    """Changes that were tried."""
    is_interrupted: bool = False
    gaps: tuple[CaptureGap, ...] = ()
