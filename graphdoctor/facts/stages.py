"""What becomes of each graph on its way from Dynamo to the code that runs: the facts of ``explain
--stages``.
"""

from __future__ import annotations

from .base import Fact
from .picture import LoweredGraph, StageNode
from .spec import StageName


class LinePlace(Fact):
    """A line of source."""

    file: str
    """Path, relative to the working directory if it is below it."""
    line: int
    """1-based."""


class SourceLine(LinePlace):
    """A line of source that operations come from."""

    text: str
    """Without indentation."""


class StageChange(Fact):
    """What became of some operations from one stage to the next. Equal changes are one, with a
    count.
    """

    before: tuple[str, ...]
    """Short names of the operations before, such as ``layer_norm``; empty for operations that are
    new."""
    after: tuple[str, ...]
    """Those in their place, in order; empty for operations that are gone."""
    count: int
    places: tuple[LinePlace, ...] = ()
    """The lines of the user that they come from, each once."""


class SavedValue(Fact):
    """A value that the forward keeps for the backward."""

    name: str
    value: str | None
    """What it is, such as ``f32[8, 64]``."""
    is_input: bool
    """Whether it's an input of the graph, such as a parameter, which is kept anyway."""


class StageKernel(Fact):
    """A kernel that generated code runs."""

    name: str
    nodes: tuple[str, ...]
    """Names of the nodes that it computes, in the order of the ``post-grad`` graph."""
    operations: tuple[str, ...]
    """Short names of their operations, in the same order."""
    places: tuple[LinePlace, ...] = ()
    """The lines of the user that they come from, each once."""


class StageReport(Fact):
    """One stage of one graph."""

    stage: StageName
    of: LoweredGraph | None = None
    """For ``post-grad`` and ``fusion``, the graph of AOTAutograd that was lowered; None if unknown,
    and elsewhere."""
    compared_with: StageName | None = None
    """The stage that ``changes`` compares with; None if there is none before it in the log."""
    operations: int | None
    """Operations in the graph; for ``fusion``, runs of kernels, or None if torch didn't log
    them."""
    kept: int | None = None
    """Operations that are the same as in the stage before; None without a comparison."""
    of_backward: int | None = None
    """For ``joint``, the operations that only the backward graph has; None if unknown, and
    elsewhere."""
    changes: tuple[StageChange, ...] = ()
    """What changed against the stage before, in the order of the graph. For ``joint``, what the
    forward graph has of it; for ``forward``, what neither half has of the joint graph."""
    saved: tuple[SavedValue, ...] | None = None
    """For ``forward``, what it keeps for the backward; None if unknown, and elsewhere."""
    recomputed: tuple[str, ...] | None = None
    """For ``backward``, short names of operations that the forward computes too; None if unknown,
    and elsewhere."""
    nodes: tuple[StageNode, ...] = ()
    """The graph; empty for ``fusion``."""
    unread_lines: int = 0
    """Lines of the printed graph with an unknown layout, whose operations may be missing."""
    kernels: tuple[StageKernel, ...] | None = None
    """For ``fusion``, the kernels in the order in which they run; None if torch noted none, and
    elsewhere."""
    unfused: tuple[str, ...] | None = None
    """For ``fusion``, short names of the operations that no kernel names, such as views; None if
    unknown, and elsewhere."""
    kernel_names: tuple[str, ...] = ()
    """For ``fusion``, the kernels that the code defines and the library functions that it calls."""
    file: str | None = None
    """For ``fusion``, the file that Inductor wrote; None elsewhere."""
    code: str | None = None
    """The graph as torch printed it; for ``fusion``, the generated code. None if torch printed
    none."""


class GraphStages(Fact):
    """One graph, from Dynamo to the generated code."""

    compile_id: str | None
    """The compile that captured it; None if unknown."""
    graph_index: int | None
    """Its number among the graphs; None if unknown."""
    function: str
    """The function that it was captured in."""
    place: LinePlace | None
    """That function's first line; None if unknown."""
    stages: tuple[StageReport, ...]
    """In the order in which torch makes them."""
    lines: tuple[SourceLine, ...] = ()
    """The lines of the user that its operations come from, where their source is known."""
