"""What only the page of a diagnosis shows: its lines, calls, guards, graphs and records, drawn from
a picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from graphdoctor.facts.base import grouped
from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.record_kinds import MEANINGS
from graphdoctor.facts.stack import StackEntry, relative
from graphdoctor.views import parts, words
from graphdoctor.views.guards import parts_of
from graphdoctor.views.html import data
from graphdoctor.views.html.data import compile_shares, phase_rows, phases_height
from graphdoctor.views.html.lines import annotate, listing
from graphdoctor.wording import counted, join_texts

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
        compiles = {one.compile_id for one in diagnosis.recording.compiles}
        self._rows_note = self._details_note = ""
        if self._listed is not None:
            few = f"{counted(len(self._listed), 'compile')} of {len(compiles):,}"
            self._rows_note = (
                f"This page lists {few}: first those of the findings, then one of each function."
            )
        compiles |= {one.compile_id for one in diagnosis.recording.graphs}
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
        entries = [guard for each in (guarded.sets if guarded else ()) for guard in each.nodes]
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
            one for one in picture.phases if one.compile_id is None or self._has_row(one.compile_id)
        ]
        if phases or diagnosis.recording.compiles:
            time = self._drawing(
                "time",
                {"phases": phases},
                summary=diagnosis.summary,
                phase_rows=phase_rows(picture.phases),
                phase_words=data.PHASE_WORDS,
                height=phases_height(phases),
                compiles=self._rows(diagnosis.recording.compiles),
            )
            yield parts.Section("Compile time", time, "Time")

    def _guards(self, sets: Sequence[GuardSet]) -> parts.Section:
        detailed = [found for found in sets if self._has_details(found.compile_id)]
        guards = self._drawing(
            "guards",
            {
                "guards": [
                    {"id": one.compile_id, "count": one.guard_count, "parts": parts_of(one)}
                    for one in detailed
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
        graphs_data = data.graphs_data(self._graphs, self._picture, self._has_details, ended)
        findings = {finding.fingerprint for finding in diagnosis.findings}
        rows = list(_graph_rows(self._graphs))
        ends = {report.index: report for report in diagnosis.graphs}
        graphs = self._drawing(
            "graphs", {"graphs": graphs_data}, graph_rows=rows, findings=findings, ends=ends
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
            grouped((one.call_index, one) for one in self._diagnosis.recording.compiles),
        )
        calls = [
            (
                call,
                [one for one in own if one.outcome == "compiled"],
                [one for one in own if one.outcome in _FELL_BACK],
            )
            for call in self._diagnosis.recording.calls
            for own in (compiles.get(call.index, []),)
        ]
        # In order, but those that matter first, if there are too many.
        ranked = sorted(range(len(calls)), key=lambda at: not any(calls[at][1:]))
        rows = [calls[at] for at in sorted(ranked[:_MOST_CALLS])]
        blobs = {"lanes": data.lanes_data(self._diagnosis, self._picture, compiles)}
        height = data.height_of([1] * len(lanes))
        drawn = self._drawing(
            "calls", blobs, calls=calls, call_rows=rows, lanes=lanes, height=height
        )
        return parts.Section("Calls", drawn, count=len(calls) or None)

    def _recompiles(self) -> parts.Blocks:
        """Functions that were compiled more than once or hit their limit, with their cache entries
        in order.
        """
        compiles = grouped(
            (found.frame_id, found) for found in self._rows(self._diagnosis.recording.compiles)
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
    known: dict[str, Graph] = {}
    for graph in data.largest_first(graphs):
        text = words.inputs_text(graph)
        yield graph, known.get(text) if graph.inputs else None
        known.setdefault(text, graph)
