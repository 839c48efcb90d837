"""The page of a diagnosis alone: its lines, calls, guards, graphs and records, drawn from a
picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from graphdoctor.facts.base import grouped
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.guards import GuardSet
from graphdoctor.facts.picture import Lane, Phase, Picture, SegmentKind
from graphdoctor.facts.record_kinds import MEANINGS
from graphdoctor.facts.recording import Compile, Graph
from graphdoctor.facts.stack import StackEntry, relative
from graphdoctor.views import words
from graphdoctor.views.guards import parts_of
from graphdoctor.views.html.lines import annotate
from graphdoctor.views.parts import Block, Drawing, Note, Section
from graphdoctor.wording import counted, join_texts

_Row = TypeVar("_Row", "Compile", "Graph", "GuardSet")

_HUES = 8
_MOST_CALLS = 1_000
"""Calls in the table of calls."""
_FELL_BACK = {"limit": "over the limit", "failed": "failed", "skipped": "skipped"}
"""Outcomes of compiles after which a function runs eagerly, the worst first."""
_SCRIPTS = {
    "calls": ("timeline.js",),
    "time": ("timeline.js",),
    "guards": ("guards.js",),
    "graphs": ("dagre.min.js", "fold.js", "graphs.js"),
}


class Page:
    """The drawings of a page."""

    def __init__(self, diagnosis: Diagnosis, picture: Picture, root: Path) -> None:
        recording = diagnosis.recording
        self._diagnosis = diagnosis
        self._picture = picture
        self._root = root
        self._files = annotate(diagnosis, picture, root)
        self.links = {
            (file.file, line.number): f"f{number}-L{line.number}"
            for number, file in enumerate(self._files)
            for line in file.lines
        }
        """The anchor of each line that is shown, by file and number."""
        self._hues: dict[str, int] = {}
        compiles = {compile_.compile_id for compile_ in recording.compiles}
        ids = compiles | {graph.compile_id for graph in recording.graphs}
        # Of a large log, the picture names the compiles that were chosen.
        self._listed = ids if picture.shown is None else {*picture.shown}
        detailed = self._listed if picture.detailed is None else {*picture.detailed}
        self._detailed = self._listed & detailed
        self._graphs = sorted(
            self._rows(recording.graphs),
            key=lambda graph: -1 if graph.op_count is None else graph.op_count,
            reverse=True,
        )
        self._rows_note = self._details_note = ""
        if picture.shown is not None:
            few = f"{counted(len(self._listed), 'compile')} of {len(compiles):,}"
            self._rows_note = (
                f"This page lists {few}: first those of the findings, then one of each function."
            )
        if (kept := len(ids & self._detailed)) < len(ids):
            self._details_note = (
                f"Graphs, code and guards of {counted(kept, 'compile')} of {len(ids):,} are on this"
                " page. `graphdoctor report LOG --compile ID --html` shows those of another."
            )

    def _rows(self, rows: Iterable[_Row]) -> list[_Row]:
        """Return the rows of the compiles that the page lists."""
        return [row for row in rows if row.compile_id in self._listed]

    def _drawing(
        self, name: str, blobs: Mapping[str, object] | None = None, /, **facts: object
    ) -> Drawing:
        def anchor(file: str | None, line: int | None) -> str | None:
            if file is None or line is None:
                return None
            return self.links.get((relative(file, self._root), line))

        def hue(compile_id: str) -> int:
            # All compiles of a frame have one color.
            return self._hues.setdefault(compile_id.rpartition("/")[0], len(self._hues) % _HUES)

        facts |= {
            "anchor": anchor,
            "hue": hue,
            "has_details": self._detailed.__contains__,
            "rows_note": self._rows_note,
            "details_note": self._details_note,
        }
        return Drawing(f"{name}.html.j2", facts, blobs or {}, _SCRIPTS.get(name, ()))

    def banner(self) -> Iterator[Block]:
        """Say what the page leaves out of a large log."""
        of_whole = "Counts and findings are of the whole run." if self._rows_note else ""
        if notes := join_texts(" ", self._rows_note, self._details_note, of_whole):
            yield Note(notes, "warning")

    def coverage(self) -> Drawing:
        """Return a bar of what was compiled."""
        return self._drawing("coverage", summary=self._diagnosis.summary)

    def shares(self) -> Iterator[Block]:
        """Yield a bar of where a steady call's time goes, and one of what compiling took."""
        steady = [lane for lane in self._picture.lanes if lane.call_index is None]
        if len(steady) == 1 and not steady[0].hidden_segments:
            title = "Steady call, profiled" if steady[0].is_profiled else "Steady call"
            yield self._drawing("shares", title=title, link="calls", shares=call_shares(steady[0]))
        if shares := compile_shares(self._picture.phases):
            yield self._drawing("shares", title="Compile time", link="time", shares=shares)

    def evidence(self) -> Drawing:
        """Return the environment, torch's configuration, and the records of the log."""
        meanings = {kind: f"no: {meaning}" for kind, meaning in MEANINGS.items()}
        return self._drawing(
            "evidence", diagnosis=self._diagnosis, picture=self._picture, meanings=meanings
        )

    def source(self) -> Iterator[Section]:
        """Yield the program, line by line."""
        guards = self._diagnosis.recording.guards
        paths = [node.file for graph in self._picture.graphs for node in graph.nodes]
        for guard_set in guards.sets if guards else ():
            paths += [guard.location.file for guard in guard_set.nodes if guard.location]
        # As the page's graphs and guards name it; a redacted page must not say where the program
        # lay.
        by_name = {relative(path, self._root): path for path in paths if path is not None}
        files = []
        for number, file in enumerate(self._files):
            entry = StackEntry(file=file.file, line=1, function="", package=file.package)
            path = by_name.get(file.file, file.file)
            files.append(file.listing(number, entry.shown_file) | {"path": path})
        if files:
            source = self._drawing(
                "source",
                files=files,
                graphs={
                    graph.index: graph for graph in self._rows(self._diagnosis.recording.graphs)
                },
                graph_count=len(self._diagnosis.graphs),
                findings={finding.fingerprint: finding for finding in self._diagnosis.findings},
            )
            yield Section("Source", source)

    def calls(self) -> Iterator[Section]:
        """Yield calls, guards and graphs."""
        diagnosis, recording = self._diagnosis, self._diagnosis.recording
        if self._picture.lanes or recording.calls:
            yield Section("Calls", self._calls(), count=len(recording.calls) or None)
        if recording.guards is not None and recording.guards.sets:
            yield Section("Guards", self._guards(recording.guards.sets))
        if diagnosis.graphs:
            yield Section("Graphs", self._graph_list(), count=len(diagnosis.graphs))

    def time(self) -> Iterator[Section]:
        """Yield what compiling took."""
        listed = {None, *self._listed}
        phases = [phase for phase in self._picture.phases if phase.compile_id in listed]
        compiles = self._rows(self._diagnosis.recording.compiles)
        if phases or compiles:
            summary = self._diagnosis.summary
            facts = {"summary": summary, "compiles": compiles, "has_phases": bool(phases)}
            time = self._drawing("time", {"phases": phases}, **facts)
            yield Section("Compile time", time, "Time")

    def _calls(self) -> Drawing:
        """Return each call with what it compiled, and what fell back to eager mode."""
        recording, lanes = self._diagnosis.recording, self._picture.lanes
        compiles = grouped((compile_.call_index, compile_) for compile_ in recording.compiles)

        def fate(call_index: int) -> str | None:
            """Return the worst that happened in a call; None if nothing did."""
            in_call = compiles.get(call_index, [])
            outcomes = {compile_.outcome for compile_ in in_call}
            is_recompiled = any(compile_.has_recompiled for compile_ in in_call)
            fell_back = (word for outcome, word in _FELL_BACK.items() if outcome in outcomes)
            return next(fell_back, "recompiled" if is_recompiled else None)

        calls = [
            (
                call,
                [compile_ for compile_ in in_call if compile_.outcome == "compiled"],
                [compile_ for compile_ in in_call if compile_.outcome in _FELL_BACK],
            )
            for call in recording.calls
            for in_call in (compiles.get(call.index, []),)
        ]
        drawn = {
            "lanes": lanes,
            "fates": [None if lane.call_index is None else fate(lane.call_index) for lane in lanes],
            "functions": {str(graph.index): graph.function for graph in recording.graphs},
        }
        return self._drawing(
            "calls", {"lanes": drawn}, calls=calls, call_rows=calls[:_MOST_CALLS], lanes=lanes
        )

    def _guards(self, sets: Sequence[GuardSet]) -> Drawing:
        detailed = [guard_set for guard_set in sets if guard_set.compile_id in self._detailed]
        trees = [parts_of(guard_set) for guard_set in detailed]
        blob = [
            {"id": guard_set.compile_id, "count": guard_set.guard_count, "parts": tree}
            for guard_set, tree in zip(detailed, trees, strict=True)
        ]
        return self._drawing(
            "guards",
            {"guards": blob},
            guards=self._diagnosis.recording.guards,
            guard_sets=self._rows(sets),
            guard_lines=len(trees[0]) if trees else 0,
        )

    def _graph_list(self) -> Drawing:
        """Return the graphs, the largest first, with their inputs in the user's words, and all
        stages on the way to Inductor.
        """
        ends = {report.index: report for report in self._diagnosis.graphs}
        graphs = []
        for graph in self._graphs:
            ended_by = words.base_name(ends[graph.index].ended_by) if graph.index in ends else None
            inputs = (
                (item.name, item.source and expression(item.source, graph.resumes_at), item)
                for item in graph.inputs or ()
            )
            graphs.append(
                {
                    "index": graph.index,
                    "id": graph.compile_id,
                    "name": graph.function,
                    "inputs": [(name, source, item.is_parameter) for name, source, item in inputs],
                    "isLeftOut": graph.compile_id not in self._detailed,
                    # The break at its end.
                    "endedBy": None if ended_by == "return" else ended_by,
                }
            )
        stages = {
            "graphs": graphs,
            "stages": self._picture.graphs,
            "generated": self._picture.generated,
        }
        findings = {finding.fingerprint for finding in self._diagnosis.findings}
        return self._drawing(
            "graphs", {"graphs": stages}, graph_rows=self._graphs, findings=findings, ends=ends
        )


_SEGMENTS: dict[SegmentKind, str] = {
    "graph": "compiled graphs",
    "eager": "eager operations",
    "guards": "guard checks",
    "compile": "compiling",
    "backward": "backward pass",
}


def call_shares(lane: Lane) -> list[tuple[str, str, float, float]]:
    """Split a call's time among what ran in it: kind, name, microseconds, share."""
    totals = dict.fromkeys(_SEGMENTS, 0.0)
    for segment in lane.segments:
        totals[segment.kind] += segment.end_us - segment.start_us
    rest = "Python" if lane.is_profiled else "Python, eager operations and guard checks"
    rest_us = lane.duration_us - sum(totals.values())
    named = [
        *((kind, _SEGMENTS[kind], us) for kind, us in totals.items()),
        ("python", rest, rest_us),
    ]
    return [(kind, name, us, us / lane.duration_us) for kind, name, us in named if us > 0]


# Phases of compiling, added up.

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
    open_phases: dict[str | None, list[tuple[int, TorchPart]]] = {}
    for phase in phases:
        # Other threads work while the compiling one does, or waits.
        if phase.thread or phase.duration_us is None:
            continue
        around = open_phases.setdefault(phase.process, [])
        while around and around[-1][0] >= phase.depth:
            around.pop()
        outer = around[-1][1] if around else None
        part = _PARTS.get(phase.name, outer or "tracing")
        totals[part] += phase.duration_us
        if outer is not None:
            totals[outer] -= phase.duration_us
        around.append((phase.depth, part))
    whole = sum(totals.values())
    return [
        (part, _LABELS[part], us, us / whole) for part, us in totals.items() if whole and us > 0
    ]
