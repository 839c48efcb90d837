"""Facts that only the picture of a run needs.

Source files, graphs stage by stage, generated code, phases of compiles, and lanes of calls.

They are only read on request, because they are most of a log. ``None`` always means "unknown".
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import field
from typing import Literal

from . import shared
from .base import Fact
from .spec import StageName
from .stack import Origin, parsed

Language = Literal["Python", "C++"]

LoweredGraph = Literal["forward", "backward", "inference"]
"""A graph that AOTAutograd hands to Inductor."""

SegmentKind = Literal["graph", "eager", "guards", "compile", "backward"]
"""``graph``: a compiled graph ran; ``eager``: tensor operations outside any graph; ``guards``:
Dynamo looked for a matching cache entry; ``compile``: torch compiled a frame; ``backward``:
autograd ran outside AOTAutograd's graphs."""

Stage = Literal["dynamo", "joint", "forward", "backward", "inference", "post_grad"]
"""The stage at which a graph was logged: as Dynamo captured it (``dynamo_output_graph``), as
AOTAutograd traced it with its backward (``aot_joint_graph``) and cut it (``aot_forward_graph``,
``aot_backward_graph``) or traced it without (``aot_inference_graph``), and as Inductor lowers it
(``inductor_post_grad_graph``)."""


class SourceText(Fact):
    """A source file as it was while the program ran."""

    file: str
    """Path as in the stack entries."""
    text: str | None
    """The whole text; None if it couldn't be read or is too large to keep."""
    origin: Origin = "user"
    package: str | None = None
    """Top-level package of the file; None for the user's own code."""


class StageNode(Fact):
    """One node of a graph at one stage."""

    name: shared.Name
    opcode: shared.Opcode
    """``placeholder``, ``call_function``, ``call_method``, ``call_module``, ``get_attr`` or
    ``output``."""
    target: shared.OperationName
    """Called operator, as torch prints it without ``torch.ops.``, such as ``torch.relu`` or
    ``aten.mm.default``; for other opcodes, the name of the argument, attribute, method or module;
    empty for an output."""
    inputs: tuple[shared.Name, ...] = ()
    """Names of its input nodes, in order, each once."""
    value: shared.ShapeText | None = None
    """Its value, such as ``f32[4, 8]``."""
    file: str | None = None
    """Path of the innermost line outside torch that it comes from; None if torch names none."""
    line: int | None = None
    """1-based."""
    text: str | None = None
    """Expression that computes it, as torch prints it without ``torch.ops.``, such as
    ``aten.mul.Tensor(addmm, 0.5)``; None for other opcodes than calls, and for a statement that
    isn't an expression."""
    module: shared.Expression | None = None
    """The innermost module it was traced in, as guards spell it, such as ``self.blocks[0].lin``;
    None outside any module or if unknown, as at every stage but Dynamo's."""


class StageGraph(Fact):
    """One graph at one stage."""

    compile_id: shared.CompileId | None
    stage: Stage
    graph_index: int | None = None
    """Of the graph that Dynamo captured, ``Graph.index``; None if unknown."""
    of: LoweredGraph | None = None
    """For ``post_grad``, the graph of AOTAutograd that it lowers; None if unknown, and at all other
    stages."""
    nodes: tuple[StageNode, ...]
    """Nodes in order; the bodies of higher-order operators are only in ``code``."""
    unread_lines: int = 0
    """Number of lines of the printed graph with an unknown layout."""
    code: str | None = None


class FusedKernel(Fact):
    """One kernel that generated code runs, and what was fused into it."""

    name: str
    """Its name in the code, such as ``cpp_fused_gelu_1`` or ``extern_kernels.addmm``."""
    nodes: tuple[str, ...]
    """Names of the nodes that it computes, of the graph that Inductor lowered, in order; views only
    if it has nothing else."""


class GeneratedCode(Fact):
    """The code that Inductor generated for one graph."""

    compile_id: str | None
    stage: LoweredGraph | None = None
    """The graph of AOTAutograd that it was generated from, according to its first line; None if
    unknown."""
    graph_index: int | None = None
    """Of the graph that Dynamo captured; None if unknown."""
    file: str | None = None
    kernels: tuple[str, ...] = ()
    """Names of its kernels in the order of their definitions, then of the library functions that it
    calls, such as ``extern_kernels.addmm``, in the order of the first call; empty for a C++
    wrapper, which is not read."""
    fused: tuple[FusedKernel, ...] | None = None
    """The kernels in the order in which it runs them, each run by itself, with what was fused; None
    if nobody looked on while the code was generated."""
    lowered_from: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """For nodes of Dynamo's graph, those of the lowered graph that came of them; empty if torch
    noted none, as for a backward."""
    code: str
    """The whole code."""


class Autotuned(Fact):
    """Inductor's measurements to choose a way to compute one operation (``max_autotune``), as torch
    sums it up.
    """

    operation: str
    """Operation it computes, such as ``mm``."""
    compile_id: str | None
    """The compile that it belongs to; None if unknown."""
    choices: int
    """Ways to compute it that were timed."""
    triton_choices: int
    """Those of them that are Triton templates."""
    best: str
    """The fastest, such as ``triton_mm_12`` or ``mm``."""
    best_us: float
    """Its time in microseconds."""
    best_settings: str | None = None
    """Its settings, such as block sizes, as torch writes them; None if it has none."""
    triton: str | None = None
    """The fastest Triton template, if another choice is faster."""
    triton_us: float | None = None
    """Its time in microseconds."""


class Phase(Fact):
    """One phase of compiling, from the log's ``chromium_event`` records.

    Phases of the same name that overlap in threads other than the compiling one are one phase,
    because torch doesn't log which of them ended when.
    """

    name: shared.EventName
    """torch's name, such as ``compile_fx_inner``."""
    compile_id: shared.CompileId | None
    """The compile that it belongs to; None outside any compile."""
    call_index: int | None = None
    """The call in which it began; None outside the user's calls."""
    start_us: float
    """Microseconds since the first event of its process."""
    duration_us: float | None
    """Its duration; None if it never ended, or if the clock was set back meanwhile."""
    depth: int
    """Number of phases of the same thread that contain it."""
    process: shared.ProcessName | None = None
    """The process that it ran in; None for the main process."""
    thread: int = 0
    """0 for the thread that compiles, where phases are nested; 1 and up for other threads, which
    are distinguished by overlap, because torch gives every thread the number 0
    (``torch/_dynamo/utils.py``, 2.13)."""
    notes: dict[str, str] = field(default_factory=dict)
    """torch's notes, such as the result of a cache lookup, with shortened values."""


class Segment(Fact):
    """A part of a call."""

    kind: SegmentKind
    start_us: float
    """From the start of the call."""
    end_us: float
    """From the start of the call."""
    compile_id: shared.CompileId | None = None
    """The compile, or the compile whose code ran; None for eager operations or if unknown."""
    graph_index: int | None = None
    """``Graph.index``, for a run of a graph."""
    op_names: dict[shared.OperationName, int] = field(default_factory=dict)
    """For ``eager``: the outermost ``aten::`` operations, most frequent first, at most 12 names."""
    op_count: int | None = None
    """For ``eager``: how many operations there are."""


class Lane(Fact):
    """One call on a time axis.

    The time outside segments is Python: the program's own code and Dynamo's entry code. In a call
    without a profiler, it includes eager operations, guard checks, and a backward pass. All times
    are CPU time: on a GPU, a graph ends when its kernels are launched, and the call ends when the
    device is idle.
    """

    call_index: int | None
    """The call; None for the steady call, which is the last one repeated until nothing compiles."""
    duration_us: float
    """From its start to its end, in the pass that the segments are from."""
    is_profiled: bool
    """True if it was made under torch.profiler, which slows it down but shows eager operations and
    guard checks separately. A call that compiles isn't, because its profile would show Dynamo, and
    neither is one that couldn't be repeated unchanged."""
    segments: tuple[Segment, ...]
    """Segments in the order of their starts; none is inside another."""
    hidden_segments: int = 0
    """Number of segments left out because there were too many, the shortest first."""


class Picture(Fact):
    """Everything that the picture needs besides the recording."""

    files: tuple[SourceText, ...] = ()
    """Files with a line of the recording; empty for a log that graphdoctor didn't record."""
    graphs: tuple[StageGraph, ...] = ()
    """In the order of the log."""
    generated: tuple[GeneratedCode, ...] = ()
    """In the order of the log."""
    autotuned: tuple[Autotuned, ...] = ()
    """Operations for which Inductor timed several ways, in the order of the log."""
    shown: tuple[str, ...] | None = None
    """The compiles that a page has rows for, the most telling first; None for all of them."""
    detailed: tuple[str, ...] | None = None
    """The compiles whose graphs, code and notes are here; None if there was room for those of
    all."""
    phases: tuple[Phase, ...] = ()
    """Phases in the order of their starts, process by process, without those of extra calls."""
    lanes: tuple[Lane, ...] = ()
    """The user's calls in order, then the steady call; empty if they weren't measured."""


# What becomes of each graph on its way from Dynamo to the code that runs: ``explain --stages``.


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
    """Operations that changed from one stage to the next. Equal changes are one, with a
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
    """Its dtype and shape, such as ``f32[8, 64]``."""
    is_input: bool
    """True if it's an input of the graph, such as a parameter, which is kept anyway."""


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
    """Changes against the stage before, in the order of the graph. For ``joint``, what the
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


def kernel_sources(
    code: str, module: ast.Module | None = None
) -> Iterator[tuple[str, tuple[Language, str]]]:
    """Yield each kernel that generated code defines: its name, and its own code; ``module``: the
    code as it was parsed, if it was.
    """
    module = module or parsed(code)
    for statement in () if module is None else module.body:
        match statement:
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id="async_compile"), attr=made_by),
                    args=arguments,
                ),
            ):
                constants = (item.value for item in arguments if isinstance(item, ast.Constant))
                texts = (value for value in constants if isinstance(value, str))
                text = max(texts, key=len, default="")
                if "\n" in text:
                    yield name, ("C++" if made_by.startswith("cpp") else "Python", text)
                elif (whole := ast.get_source_segment(code, statement)) is not None:
                    yield name, ("Python", whole)
