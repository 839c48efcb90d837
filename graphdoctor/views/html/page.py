"""The page of a diagnosis alone: its lines, calls, guards, graphs and records, drawn from a picture, with
how tall drawings are and what compiling took by phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from graphdoctor.facts.base import grouped
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.record_kinds import MEANINGS
from graphdoctor.facts.stack import StackEntry, relative
from graphdoctor.views import parts, words
from graphdoctor.views.guards import parts_of
from graphdoctor.views.html.lines import annotate, listing
from graphdoctor.wording import counted, join_texts

if TYPE_CHECKING:
    from graphdoctor.facts.diagnosis import Diagnosis
    from graphdoctor.facts.picture import Phase, Picture
    from graphdoctor.facts.recording import Compile, Graph

_LINE = 18
"""``LINE`` of timeline.js."""
_NAME = 43
"""Of a row's name and the note below it."""
_NARROW_NAME = 27
"""Of both in one line, which on a narrow screen is above the row."""


def graphs_data(
    shown: Sequence[Graph],
    picture: Picture,
    has_details: Callable[[str], bool],
    ends: Mapping[int, str],
) -> dict[str, Any]:
    """The graphs, the largest first, with their inputs in the user's words, and all stages on the
    way to Inductor.
    """
    graphs = [
        {
            "index": graph.index,
            "id": graph.compile_id,
            "name": graph.function,
            "inputs": [
                (
                    item.name,
                    item.source and expression(item.source, graph.resumes_at),
                    item.is_parameter,
                )
                for item in graph.inputs or ()
            ],
            "isLeftOut": not has_details(graph.compile_id),
            # The break at its end.
            "endedBy": None if ends.get(graph.index) in (None, "return") else ends[graph.index],
        }
        for graph in largest_first(shown)
    ]
    return {"graphs": graphs, "stages": picture.graphs, "generated": picture.generated}


def largest_first(graphs: Iterable[Graph]) -> list[Graph]:
    """Graphs by their operations, those of unknown size last."""
    return sorted(
        graphs, key=lambda graph: -1 if graph.op_count is None else graph.op_count, reverse=True
    )


def lanes_data(
    diagnosis: Diagnosis, picture: Picture, compiles: Mapping[int | None, Sequence[Compile]]
) -> dict[str, Any]:
    """The calls as they are, with the worst that happened in each, and the functions of graphs by
    their numbers.
    """
    return {
        "lanes": picture.lanes,
        "fates": [
            None if lane.call_index is None else _fate(compiles.get(lane.call_index, ()))
            for lane in picture.lanes
        ],
        "functions": {str(graph.index): graph.function for graph in diagnosis.recording.graphs},
    }


def _fate(compiles: Sequence[Compile]) -> str | None:
    """The worst that happened in a call; None if nothing did."""
    outcomes = {compile_.outcome for compile_ in compiles}
    for outcome, word in (
        ("limit", "over the limit"),
        ("failed", "failed"),
        ("skipped", "skipped"),
    ):
        if outcome in outcomes:
            return word
    return (
        "recompiled"
        if any(compile_.is_recompile and compile_.outcome == "compiled" for compile_ in compiles)
        else None
    )


# How tall drawings will be, so that a page keeps room for those that are drawn when they come into
# view.


def phases_height(phases: Iterable[Phase]) -> tuple[int, int]:
    """The rows of compiles, which are as deep as their phases are nested."""
    ended = (phase for phase in phases if phase.duration_us is not None)
    depths = grouped(((phase.process, phase.compile_id), phase.depth) for phase in ended)
    return height_of([max(levels) - min(levels) + 1 for levels in depths.values()])


def height_of(depths: Iterable[int]) -> tuple[int, int]:
    """Pixels of rows as deep as these, and those on a narrow screen."""
    bars = [_LINE * depth + 4 for depth in depths]
    return sum(max(bar, _NAME) + 1 for bar in bars), sum(bar + _NARROW_NAME + 1 for bar in bars)


# Phases of compiling, added up.


@dataclass
class PhaseRow:
    """All phases of one name in the compiling thread, or in other threads."""

    name: str
    is_parallel: bool = False
    count: int = 0
    total_us: float = 0.0
    own_us: float = 0.0


PHASE_WORDS = {
    "entire_frame_compile": "compile a function, from its bytecode to its new code",
    "bytecode_tracing": "go through the function's bytecode and record a graph",
    "build_guards": "write the checks that decide when the code can be used again",
    "backend_compile": "the backend compiles the graph",
    "create_aot_dispatcher_function": "AOTAutograd traces forward and backward",
    "inductor_compile": "Inductor turns the graph into kernels",
    "compile_fx_inner": "Inductor looks in its cache, or turns the graph into kernels",
    "fx_codegen_and_compile": "Inductor writes kernels and has them compiled",
    "compile_file": "the C++ compiler builds a kernel",
    "async_compile.wait": "wait for kernels that other processes compile",
    "triton_compile": "Triton compiles a kernel",
    "gc": "collect garbage",
}
"""What phases do, by torch's names (2.13)."""

TorchPart = Literal["tracing", "aot", "backend", "inductor", "compiler"]

_LABELS: dict[TorchPart, str] = {
    "tracing": "tracing (Dynamo)",
    "aot": "AOTAutograd",
    "backend": "backend",
    "inductor": "Inductor",
    "compiler": "kernel compiler",
}

_PARTS: dict[str, TorchPart] = {
    "backend_compile": "backend",
    "create_aot_dispatcher_function": "aot",
    "_recursive_pre_grad_passes": "inductor",
    "_recursive_joint_graph_passes": "inductor",
    "_recursive_post_grad_passes": "inductor",
    "inductor_compile": "inductor",
    "compile_fx_inner": "inductor",
    "fx_codegen_and_compile": "inductor",
    "inductor_codecache_torch_key": "inductor",
    "compile_file": "compiler",
    "async_compile.wait": "compiler",
    "async_compile.precompile": "compiler",
    "triton_compile": "compiler",
}
"""Which part a phase of a name begins, as torch 2.13 names them; a phase inside is of the same
part, unless it begins another."""


def compile_shares(phases: Iterable[Phase]) -> list[tuple[TorchPart, str, float, float]]:
    """Split compile time among the parts of torch, in order: part, name, microseconds, share."""
    totals: dict[TorchPart, float] = dict.fromkeys(_LABELS, 0.0)
    # Other threads work while the compiling one does, or waits.
    for phase, us, around in _nested(phase for phase in phases if not phase.thread):
        totals[_part_of((*around, phase))] += us
        if around:
            totals[_part_of(around)] -= us
    whole = sum(totals.values())
    return (
        [(part, _LABELS[part], us, us / whole) for part, us in totals.items() if us > 0]
        if whole
        else []
    )


def _part_of(phases: Sequence[Phase]) -> TorchPart:
    return next(
        (_PARTS[phase.name] for phase in reversed(phases) if phase.name in _PARTS), "tracing"
    )


def _nested(phases: Iterable[Phase]) -> Iterator[tuple[Phase, float, Sequence[Phase]]]:
    """Each phase with its microseconds and those around it, the outermost first."""
    # Phases of other threads begin in between, and contain none of this one's.
    open_phases: dict[tuple[str | None, int], list[Phase]] = {}
    for phase in phases:
        if phase.duration_us is not None:
            around = open_phases.setdefault((phase.process, phase.thread), [])
            while around and around[-1].depth >= phase.depth:
                around.pop()
            yield phase, phase.duration_us, around
            around.append(phase)


def phase_rows(phases: Iterable[Phase]) -> list[PhaseRow]:
    """Add up phases by name, the longest own time first, and those of other threads last.

    Own times of the compiling thread add up to the time that it compiled.
    """
    rows: dict[tuple[str, bool], PhaseRow] = {}
    for phase, us, around in _nested(phases):
        is_parallel = phase.thread > 0
        row = rows.setdefault((phase.name, is_parallel), PhaseRow(phase.name, is_parallel))
        row.count += 1
        row.own_us += us
        if not any(outer.name == phase.name for outer in around):
            row.total_us += us
        if around:
            rows[around[-1].name, is_parallel].own_us -= us
    return sorted(rows.values(), key=lambda row: (row.is_parallel, -row.own_us))


if TYPE_CHECKING:
    from graphdoctor.facts.guards import GuardSet
    from graphdoctor.facts.picture import Picture
    from graphdoctor.facts.recording import Compile, Graph

_Row = TypeVar("_Row", "Compile", "Graph", "GuardSet")

_HUES = 8
_MOST_CALLS = 1_000
"""Calls in the table of calls."""
_FELL_BACK = ("skipped", "limit", "failed")


class Page:
    """The drawings of a page."""

    def __init__(self, diagnosis: Diagnosis, picture: Picture, root: Path) -> None:
        self._diagnosis = diagnosis
        self._picture = picture
        self._root = root
        self._files = annotate(diagnosis, picture, root)
        numbers = enumerate(self._files)
        self.links = {
            (file.file, line.number): f"f{n}-L{line.number}"
            for n, file in numbers
            for line in file.lines
        }
        """The anchor of each line that is shown, by file and number."""
        self._hues: dict[str, int] = {}
        # Of a large log, the picture names the compiles that were chosen.
        self._listed = None if picture.shown is None else frozenset(picture.shown)
        self._detailed = None if picture.detailed is None else frozenset(picture.detailed)
        self._graphs = self._rows(diagnosis.recording.graphs)
        compiles = {compile_.compile_id for compile_ in diagnosis.recording.compiles}
        self._rows_note = self._details_note = ""
        if self._listed is not None:
            few = f"{counted(len(self._listed), 'compile')} of {len(compiles):,}"
            self._rows_note = (
                f"This page lists {few}: first those of the findings, then one of each function."
            )
        compiles |= {graph.compile_id for graph in diagnosis.recording.graphs}
        if (kept := sum(map(self._has_details, compiles))) < len(compiles):
            self._details_note = (
                f"Graphs, code and guards of {counted(kept, 'compile')} of {len(compiles):,} are on this page. "
                "`graphdoctor report LOG --compile ID --html` shows those of another."
            )

    def _has_row(self, compile_id: str) -> bool:
        return self._listed is None or compile_id in self._listed

    def _has_details(self, compile_id: str) -> bool:
        return self._has_row(compile_id) and (
            self._detailed is None or compile_id in self._detailed
        )

    def _rows(self, rows: Iterable[_Row]) -> list[_Row]:
        """The rows of compiles that have some."""
        return [row for row in rows if self._has_row(row.compile_id)]

    def banner(self) -> Iterator[parts.Block]:
        """Say what the page leaves out of a large log."""
        of_whole = "Counts and findings are of the whole run." if self._rows_note else ""
        if notes := join_texts(" ", self._rows_note, self._details_note, of_whole):
            yield parts.Note(notes, "warning")

    def coverage(self) -> Iterator[parts.Block]:
        """A bar of what was compiled."""
        yield self._drawing("coverage", summary=self._diagnosis.summary)

    def shares(self) -> Iterator[parts.Block]:
        """A bar of what compiling took."""
        if shares := compile_shares(self._picture.phases):
            yield self._drawing("shares", shares=shares)

    def source(self) -> Iterator[parts.Section]:
        """The program, line by line."""
        if not self._files:
            return
        diagnosis, picture = self._diagnosis, self._picture
        guarded = diagnosis.recording.guards
        paths = [
            node.file for graph in picture.graphs for node in graph.nodes if node.file is not None
        ]
        entries = [
            guard for guard_set in (guarded.sets if guarded else ()) for guard in guard_set.nodes
        ]
        paths += [guard.location.file for guard in entries if guard.location is not None]
        # As the page's graphs and guards name it; a redacted page must not say where the program
        # lay.
        named = {relative(path, self._root): path for path in paths}
        files = [
            listing(
                number,
                file,
                StackEntry(file=file.file, line=1, function="", package=file.package).shown_file,
            )
            | {"path": named.get(file.file, file.file)}
            for number, file in enumerate(self._files)
        ]
        source = self._drawing(
            "source",
            files=files,
            graphs={graph.index: graph for graph in self._graphs},
            graph_count=len(diagnosis.graphs),
            findings={finding.fingerprint: finding for finding in diagnosis.findings},
        )
        yield parts.Section("Source", source)

    def sections(self, what_if: parts.Blocks) -> Iterator[parts.Section]:
        """The sections after the findings; ``what_if`` is said of recompiles."""
        diagnosis, picture = self._diagnosis, self._picture
        if picture.lanes or diagnosis.recording.calls:
            yield self._calls()
        if recompiles := self._recompiles():
            yield parts.Section(
                "Recompiles", (*recompiles, *what_if), count=diagnosis.summary.recompiles or None
            )
        sets = diagnosis.recording.guards.sets if diagnosis.recording.guards is not None else ()
        if sets:
            yield self._guards(sets)
        if diagnosis.graphs:
            yield self._graph_list()
        phases = [
            phase
            for phase in picture.phases
            if phase.compile_id is None or self._has_row(phase.compile_id)
        ]
        if phases or diagnosis.recording.compiles:
            time = self._drawing(
                "time",
                {"phases": phases},
                summary=diagnosis.summary,
                phase_rows=phase_rows(picture.phases),
                phase_words=PHASE_WORDS,
                height=phases_height(phases),
                compiles=self._rows(diagnosis.recording.compiles),
            )
            yield parts.Section("Compile time", time, "Time")

    def _guards(self, sets: Sequence[GuardSet]) -> parts.Section:
        detailed = [guard_set for guard_set in sets if self._has_details(guard_set.compile_id)]
        guards = self._drawing(
            "guards",
            {
                "guards": [
                    {
                        "id": guard_set.compile_id,
                        "count": guard_set.guard_count,
                        "parts": parts_of(guard_set),
                    }
                    for guard_set in detailed
                ]
            },
            guards=self._diagnosis.recording.guards,
            guard_sets=self._rows(sets),
            guard_lines=len(parts_of(detailed[0])) if detailed else 0,
        )
        return parts.Section("Guards", guards)

    def _graph_list(self) -> parts.Section:
        diagnosis = self._diagnosis
        ended = {report.index: words.base_name(report.ended_by) for report in diagnosis.graphs}
        stages = graphs_data(self._graphs, self._picture, self._has_details, ended)
        findings = {finding.fingerprint for finding in diagnosis.findings}
        rows = list(_graph_rows(self._graphs))
        ends = {report.index: report for report in diagnosis.graphs}
        graphs = self._drawing(
            "graphs", {"graphs": stages}, graph_rows=rows, findings=findings, ends=ends
        )
        return parts.Section("Graphs", graphs, count=len(diagnosis.graphs))

    def evidence(self) -> Iterator[parts.Block]:
        """The environment, torch's configuration, and the records of the log."""
        meanings = {kind: f"no: {meaning}" for kind, meaning in MEANINGS.items()}
        yield self._drawing(
            "evidence", diagnosis=self._diagnosis, picture=self._picture, meanings=meanings
        )

    def _drawing(
        self, name: str, blobs: dict[str, Any] | None = None, /, **facts: object
    ) -> parts.Drawing:
        shared: dict[str, object] = {
            "anchor": self._anchor,
            "hue": self._hue,
            "has_details": self._has_details,
            "rows_note": self._rows_note,
            "details_note": self._details_note,
        }
        scripts = {
            "calls": ("timeline.js",),
            "time": ("timeline.js",),
            "guards": ("guards.js",),
            "graphs": ("dagre.min.js", "fold.js", "graphs.js"),
        }
        return parts.Drawing(f"{name}.html.j2", shared | facts, blobs or {}, scripts.get(name, ()))

    def _anchor(self, file: str | None, line: int | None) -> str | None:
        return (
            None
            if file is None or line is None
            else self.links.get((relative(file, self._root), line))
        )

    def _hue(self, compile_id: str) -> int:
        """The color of a frame, which all of its compiles share."""
        return self._hues.setdefault(compile_id.rpartition("/")[0], len(self._hues) % _HUES)

    def _calls(self) -> parts.Section:
        """Each call with what it compiled, and what fell back to eager mode."""
        lanes, compiles = (
            self._picture.lanes,
            grouped(
                (compile_.call_index, compile_) for compile_ in self._diagnosis.recording.compiles
            ),
        )
        calls = [
            (
                call,
                [compile_ for compile_ in in_call if compile_.outcome == "compiled"],
                [compile_ for compile_ in in_call if compile_.outcome in _FELL_BACK],
            )
            for call in self._diagnosis.recording.calls
            for in_call in (compiles.get(call.index, []),)
        ]
        # In order, but those that matter first, if there are too many.
        ranked = sorted(range(len(calls)), key=lambda at: not any(calls[at][1:]))
        rows = [calls[at] for at in sorted(ranked[:_MOST_CALLS])]
        blobs = {"lanes": lanes_data(self._diagnosis, self._picture, compiles)}
        height = height_of([1] * len(lanes))
        drawn = self._drawing(
            "calls", blobs, calls=calls, call_rows=rows, lanes=lanes, height=height
        )
        return parts.Section("Calls", drawn, count=len(calls) or None)

    def _recompiles(self) -> parts.Blocks:
        """Functions that were compiled more than once or hit their limit, with their cache entries
        in order.
        """
        compiles = grouped(
            (compile_.frame_id, compile_)
            for compile_ in self._rows(self._diagnosis.recording.compiles)
        )
        frames = [
            (frame, len(report.compile_ids), compiles[frame.frame_id])
            for frame, report in self._diagnosis.each_frame()
            if len(report.compile_ids) > 1 and frame.frame_id in compiles
        ]
        if not frames and not self._diagnosis.summary.recompiles:
            return ()
        causes = {
            report.compile_ids: report
            for report in self._diagnosis.recompiles
            if report.compile_ids
        }
        reports = {ids[0]: report for ids, report in causes.items()}
        followed = {id_: ids[0] for ids in causes for id_ in ids[1:]}
        facts = {
            "frames": frames,
            "reports": reports,
            "followed": followed,
            "diagnosis": self._diagnosis,
        }
        return (self._drawing("recompiles", **facts),)


def _graph_rows(graphs: Sequence[Graph]) -> Iterator[tuple[Graph, Graph | None]]:
    """The graphs, the largest first, each with an earlier one that takes inputs of the same names
    and shapes.
    """
    first_alike: dict[str, Graph] = {}
    for graph in largest_first(graphs):
        text = words.inputs_text(graph)
        yield graph, first_alike.get(text) if graph.inputs else None
        first_alike.setdefault(text, graph)
