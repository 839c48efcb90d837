"""What only the picture of a run shows.

Source files, graphs stage by stage, generated code, phases of compiles, lanes of calls, and which records of the log
all this came from.

It is read when it is asked for, since it is most of a log. ``None`` always means "not known".
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from graphdoctor.model.base import Fact
from graphdoctor.model.stack import Origin

SegmentKind = Literal["graph", "eager", "guards", "compile"]
"""``graph``: a compiled graph ran; ``eager``: tensor operations outside any graph; ``guards``: Dynamo looked for a
cache entry that fits; ``compile``: torch compiled a frame."""

Stage = Literal["dynamo", "joint", "forward", "backward", "inference", "post_grad"]
"""Where a graph was written down on its way: as Dynamo captured it (``dynamo_output_graph``), as AOTAutograd traced it
with its backward (``aot_joint_graph``) and cut it (``aot_forward_graph``, ``aot_backward_graph``) or traced it without
(``aot_inference_graph``), and as Inductor lowers it (``inductor_post_grad_graph``)."""


class SourceText(Fact):
    """A source file as it was while the program ran."""

    file: str
    """Path as in the stack entries."""
    text: str | None
    """All of it; None when it could not be read or is over the limit of what is kept."""
    origin: Origin = "user"
    """Who owns the file."""
    package: str | None = None
    """Top-level package of a file that is not the user's."""


class StageNode(Fact):
    """One node of a graph at one stage."""

    name: str
    """The node's name."""
    opcode: str
    """``placeholder``, ``call_function``, ``call_method``, ``call_module``, ``get_attr`` or ``output``."""
    target: str
    """What is called, as torch prints it less ``torch.ops.``, such as ``torch.relu`` or ``aten.mm.default``; the name
    of the argument, attribute, method or module where the opcode is of that kind; empty for an output."""
    inputs: tuple[str, ...] = ()
    """Names of the nodes that it takes, in order, each once."""
    value: str | None = None
    """What it yields, such as ``f32[4, 8]``."""
    file: str | None = None
    """The innermost line that is not torch's, of the code that made it; None when torch names none."""
    line: int | None = None
    """1-based."""
    module: str | None = None
    """The innermost module that it was traced in, as guards spell it, such as ``self.blocks[0].lin``; None outside any
    and when not known, as at every stage but Dynamo's."""


class StageGraph(Fact):
    """One graph as it was at one stage."""

    compile_id: str | None
    """The compile that made it."""
    stage: Stage
    """Where on its way."""
    graph_index: int | None = None
    """Of the graph that Dynamo captured, ``Graph.index``; None when not known."""
    of: Literal["forward", "backward", "inference"] | None = None
    """For ``post_grad`` the graph of AOTAutograd that it lowers; None when not known, and at every other stage."""
    nodes: tuple[StageNode, ...]
    """In order; the bodies of higher-order operators are in ``code`` alone."""
    unread_lines: int = 0
    """Lines of the printed graph that have a layout which is not known."""
    code: str | None = None
    """As torch printed it."""


class GeneratedCode(Fact):
    """What Inductor wrote for one graph."""

    compile_id: str | None
    """The compile that made it."""
    stage: Literal["forward", "backward", "inference"] | None = None
    """Which graph of AOTAutograd it is made of, as its first line says; None when not known."""
    graph_index: int | None = None
    """Of the graph that Dynamo captured; None when not known."""
    file: str | None = None
    """Where Inductor put it."""
    kernels: tuple[str, ...] = ()
    """Names of its kernels in the order of their definitions, then of the library functions that it calls, such as
    ``extern_kernels.addmm``, in the order of the first call; empty for a C++ wrapper, which is not read."""
    code: str
    """All of it."""


class Phase(Fact):
    """One phase of compiling, from the log's ``chromium_event`` records.

    Those of one name that overlap in other threads than the compile's are one phase: torch does not say which of them
    ended when.
    """

    name: str
    """torch's name, such as ``compile_fx_inner``."""
    compile_id: str | None
    """The compile that it belongs to; None outside any."""
    call_index: int | None = None
    """The user's call during which it began."""
    start_us: float
    """From the first event of its process."""
    duration_us: float | None
    """None when it never ended, or the clock was set back meanwhile."""
    depth: int
    """How many phases of the same thread it lies in."""
    process: str | None = None
    """The process that it ran in; None for the main one."""
    thread: int = 0
    """0 for the thread that compiles, where phases are nested; 1 and up for others, told apart by what overlaps, since
    torch gives every thread the number 0 (``torch/_dynamo/utils.py``, 2.13)."""
    notes: dict[str, str] = Field(default_factory=dict)
    """What torch added, such as a cache's answer, each value in short."""


class Segment(Fact):
    """A part of a call."""

    kind: SegmentKind
    """What went on."""
    start_us: float
    """From the start of the call."""
    end_us: float
    """From the start of the call."""
    compile_id: str | None = None
    """The compile, or the one whose code ran; None for eager operations and where it is not known."""
    graph_index: int | None = None
    """``Graph.index``, for a run of a graph."""
    op_names: dict[str, int] = Field(default_factory=dict)
    """For ``eager``: the outermost ``aten::`` operations, most frequent first, at most 12 names."""
    op_count: int | None = None
    """For ``eager``: how many there are."""


class Lane(Fact):
    """One call on a time axis.

    What no segment covers is Python: the program's own lines, Dynamo's entry code, all of a backward pass but
    AOTAutograd's graphs, and in a call without a profiler these, eager operations and guard checks too. It is the CPU's
    time: on a GPU a graph is over when its kernels are started; the call ends when the device is idle.
    """

    call_index: int | None
    """The user's call; None for the steady call, the last one repeated until it compiles nothing."""
    duration_us: float
    """From its start to its end, in the pass that the segments are from."""
    is_profiled: bool
    """Made under torch.profiler, which slows it: eager operations and guard checks are told apart. A call that compiles
    is not, since its profile would show Dynamo at work, nor is one that could not be repeated as it was."""
    segments: tuple[Segment, ...]
    """In the order of their starts; none lies within another."""
    hidden_segments: int = 0
    """Segments beyond the limit that were left out, the shortest first."""


class RecordCount(Fact):
    """How many records of a kind the log has."""

    kind: str
    """torch's name for it."""
    count: int
    """Records."""
    size_bytes: int
    """Their size in the log."""
    is_used: bool
    """Something in the picture or in the recording is from it."""


class Picture(Fact):
    """Everything that the picture needs beside the recording."""

    files: tuple[SourceText, ...] = ()
    """Files that a line of the recording lies in; empty for a log without our records."""
    graphs: tuple[StageGraph, ...] = ()
    """In the order of the log."""
    generated: tuple[GeneratedCode, ...] = ()
    """In the order of the log."""
    phases: tuple[Phase, ...] = ()
    """In the order of their starts, process by process; those of extra calls left out."""
    lanes: tuple[Lane, ...] = ()
    """The user's calls in order, then the steady call; empty when they were not measured."""
    records: tuple[RecordCount, ...] = ()
    """By size, largest first."""
    config: dict[str, str] | None = None
    """torch's config values that differ from their defaults behind the calls, or at the end of a script, by dotted
    name, as Python prints them in short; None when not known. What torch takes from an environment variable when it is
    imported can be a default."""
