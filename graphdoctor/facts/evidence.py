"""Contents of torch's trace log beside compiles, graphs, breaks and guards.

Answers of the caches on disk, symbolic sizes, fake kernels, exported programs, collectives, which
kinds of records there are, and digests of each compile to compare ranks by.
"""

from __future__ import annotations

from typing import Literal

from . import shared
from .base import Fact

AskedCache = Literal["fx_graph_cache", "aotautograd_cache"]
"""Caches on disk: Inductor's and AOTAutograd's."""

CacheState = Literal["hit", "miss", "bypass"]
"""Answer of a cache for a graph; ``bypass``: it can't be kept."""

ShapeKind = Literal["dynamic", "unbacked", "specialized", "guarded", "assumed", "data_dependent"]
"""``dynamic``: a size got a symbol. ``unbacked``: a size that depends on data did. ``specialized``:
a symbol became a constant. ``guarded``: a condition on symbols is checked before compiled code
runs, or while it runs. ``assumed``: a condition that depends on data was decided by the values at
hand. ``data_dependent``: one couldn't be decided."""


class RecordCount(Fact):
    """The records of one kind in the log."""

    kind: shared.RecordKind
    """torch's name for the kind; those of bytecode begin with ``*`` in place of a function's
    name."""
    count: int
    size_bytes: int
    is_shown: bool
    """True if the report, its page or this document has what they say. ``tlparse`` writes those
    with a text of their own to files, and the others to its index."""


class CacheAnswer(Fact):
    """Answer of a cache on disk to a compile."""

    compile_id: shared.CompileId | None
    """The compile that asked; its backward graph asks under the same."""
    cache: AskedCache
    state: CacheState
    reason: str | None = None
    """Reason, for a bypass, in torch's words; None if torch gives none."""


class ShapeEvent(Fact):
    """Something about a symbolic size, each thing once for each compile."""

    kind: ShapeKind
    compile_id: shared.CompileId | None
    """The compile; None outside any, as in ``torch.export``."""
    expression: shared.SizeText
    """The symbol, or the condition on symbols, as torch prints it."""
    source: shared.Expression | None = None
    """Value that the symbol stands for, as torch prints it, such as ``L['x'].size()[0]``."""
    file: shared.File | None = None
    """Path of the program's innermost line; None if torch names none."""
    line: int | None = None
    """1-based."""
    text: str | None = None
    """That line without indentation; None if unknown."""


class FakeKernel(Fact):
    """An operator that can't be traced without running it."""

    op: shared.OperationName
    """The operator."""
    is_missing: bool
    """It has no fake kernel; otherwise it has one that is wrong."""
    reason: str | None = None
    """Difference from the real one, in torch's words."""


class LogEvidence(Fact):
    """Contents of torch's trace log beside compiles, graphs, breaks and guards."""

    records: tuple[RecordCount, ...] = ()
    """Kinds of records by size, largest first, in the logs of all processes."""
    cache_answers: tuple[CacheAnswer, ...] = ()
    """In the order of the log."""
    shapes: tuple[ShapeEvent, ...] = ()
    """In the order of the log, at most 2,000 for each process and reset of Dynamo."""
    hidden_shapes: int = 0
    """Number of further ones."""
    fake_kernels: tuple[FakeKernel, ...] = ()
    """Each operator once."""
    exported_programs: int = 0
    """Number of programs that ``torch.export`` made."""
    collectives: int = 0
    """Number of collectives that Inductor scheduled."""


class CompileMark(Fact):
    """Results of one compile, as digests of texts in which only what can differ for a reason is
    left.

    Device numbers, addresses and comments are taken out, since each rank has its own.
    """

    compile_id: str
    """As in the recording."""
    operations: str | None = None
    """Digest of the printed graphs without shapes and numbers; None if there is no graph."""
    graph: str | None = None
    """Digest of the printed graphs; None if there is none."""
    guards: str | None = None
    """Digest of the guards; None if the log has none."""
    collectives: tuple[str, ...] | None = None
    """The collectives that Inductor scheduled, in order; None if the log doesn't say."""
    cache: CacheState | None = None
    """Answer of torch's caches on disk for its graphs, the worst answer of all; None if they
    weren't asked."""
    began_s: float | None = None
    """When it began, in seconds on the clock of its machine, which has no year; None if its begin
    isn't in the log."""
    graph_text: str | None = None
    """The printed graphs that ``graph`` is of; None unless asked for."""
    guards_text: str | None = None
    """The guards that ``guards`` is of; None unless asked for."""


class LogSpan(Fact):
    """The compiles of one process, and when it wrote its log."""

    marks: tuple[CompileMark, ...] = ()
    """In the order of the compiles."""
    first_s: float | None = None
    """When the first record was written, as ``began_s``; None if the log has none."""
    last_s: float | None = None
    """When the last one was."""
    is_ended: bool | None = None
    """True if the process ran to its end; None in a log that graphdoctor didn't record."""
