"""A diagnosis and its picture as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphdoctor.facts.diagnosis import Diagnosis, Location
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.record_kinds import MEANINGS
from graphdoctor.facts.stack import relative
from graphdoctor.facts.wording import counted
from graphdoctor.views import log_words, words
from graphdoctor.views.actions import actions
from graphdoctor.views.html import data
from graphdoctor.views.html.document import write_document
from graphdoctor.views.html.highlight import highlighted
from graphdoctor.views.html.lines import AnnotatedFile, annotate
from graphdoctor.views.html.packed import packed
from graphdoctor.views.html.shown import Shown, shown_calls
from graphdoctor.views.html.sizes import guard_lines, lanes_height, phases_height
from graphdoctor.views.html.times import compile_shares, phase_rows
from graphdoctor.views.html.verdict import changes, tiles

if TYPE_CHECKING:
    from graphdoctor.facts.fixes import TriedFix
    from graphdoctor.facts.guards import GuardSet
    from graphdoctor.facts.picture import Picture
    from graphdoctor.facts.recording import Graph

_SCRIPTS = ("dagre.min.js", "timeline.js", "guards.js", "fold.js", "graphs.js")
_HUES = 8
_MAX_CHIPS = 3
_MAX_ACTIONS = 7
_MAX_ROWS = 100
"""Of one table of what else is in the log."""


def render_page(diagnosis: Diagnosis, picture: Picture, *, root: Path, has_source: bool = True) -> str:
    """The page.

    Args:
        diagnosis: What to show.
        picture: Graphs, phases and calls to draw, and the source.
        root: Paths in it are shown relative to it; the same as the diagnosis's.
        has_source: Show lines of code; otherwise the page says that they were left out.

    Returns:
        A whole HTML document.
    """
    if not has_source:
        from graphdoctor.views.html.sourceless import without_source

        diagnosis, picture = without_source(diagnosis), without_source(picture)
    page = _Page(diagnosis, picture, root)
    context = page.context() | {"has_source": has_source}
    return write_document("report.html.j2", context, blobs=page.blobs(), scripts=_SCRIPTS)


class _Page:
    """Where things are in the page, and the variables of its templates."""

    def __init__(self, diagnosis: Diagnosis, picture: Picture, root: Path) -> None:
        self._diagnosis = diagnosis
        self._picture = picture
        self._root = root
        self._files = annotate(diagnosis, picture, root)
        self._numbers = {file.file: number for number, file in enumerate(self._files)}
        self._lines = {(number, line.number) for number, file in enumerate(self._files) for line in file.lines}
        self._hues: dict[str, int] = {}
        self._shown = Shown(diagnosis, picture)
        self._graphs = self._shown.rows(diagnosis.recording.graphs)
        self._phases = self._shown.phases(picture.phases)

    def context(self) -> dict[str, Any]:
        """The variables of the template."""
        diagnosis, guards = self._diagnosis, self._diagnosis.recording.guards
        said, tone = words.sentence(diagnosis)
        calls = self._calls()
        return {
            "diagnosis": diagnosis,
            "picture": self._picture,
            "summary": diagnosis.summary,
            "title": words.title_parts(diagnosis.recording),
            "sentence": said,
            "tone": tone,
            "tiles": list(tiles(diagnosis.summary, diagnosis.recording.watch)),
            "changes": list(changes(diagnosis.recording.treatment)),
            "actions": actions(diagnosis.findings),
            "uncovered": self._uncovered(),
            "clusters": list(words.clusters(diagnosis.findings)),
            "files": [self._file(number, file) for number, file in enumerate(self._files)],
            "findings": {finding.fingerprint: finding for finding in diagnosis.findings},
            "graph_rows": list(_graph_rows(self._graphs)),
            "graphs": {graph.index: graph for graph in self._graphs},
            "ends": {report.index: report for report in diagnosis.graphs},
            "guard_sets": self._shown.rows(guards.sets if guards is not None else ()),
            "compiles": self._shown.rows(diagnosis.recording.compiles),
            "has_details": self._shown.has_details,
            "rows_note": self._shown.rows_note,
            "details_note": self._shown.details_note,
            "calls": calls,
            "call_rows": shown_calls(calls, (bool(row["compiled"] or row["fell_back"]) for row in calls)),
            "frames": self._frames(),
            "phase_rows": phase_rows(self._picture.phases),
            "compile_shares": compile_shares(self._picture.phases),
            "nothing_to_do": words.nothing_to_do(diagnosis.summary),
            "lanes_height": lanes_height(self._picture.lanes),
            "phases_height": phases_height(self._phases),
            "guard_lines": guard_lines(self._guard_sets()),
            "gaps": words.other_gaps(diagnosis),
            "hue": self.hue,
            "anchor": self.anchor,
            "location_anchor": lambda location: self.anchor(location.file, location.line),
            **self._log(),
            "max_chips": _MAX_CHIPS,
            "max_actions": _MAX_ACTIONS,
        }

    def _log(self) -> dict[str, Any]:
        """What ``log.html.j2`` needs."""
        evidence = self._diagnosis.recording.evidence
        return {
            "evidence": evidence,
            "caches": log_words.caches_text(evidence.cache_answers),
            "shapes": log_words.shapes_text(evidence),
            "cache_names": log_words.CACHES,
            "expression": expression,
            "shape_label": log_words.shape_label,
            "triton_total": log_words.triton_total,
            "triton_text": log_words.triton_text,
            "kernel_text": log_words.kernel_text,
            "schedule_text": log_words.schedule_text,
            "estimate_text": log_words.estimate_text,
            "meanings": {kind: f"no: {meaning}" for kind, meaning in MEANINGS.items()},
            "max_rows": _MAX_ROWS,
        }

    def blobs(self) -> dict[str, str]:
        """The data of the scripts, packed."""
        diagnosis, picture = self._diagnosis, self._picture
        return {
            "graphs": packed(data.graphs_data(diagnosis, self._graphs, picture, self._place, self._shown.has_details)),
            "guards": packed(data.guards_data(self._guard_sets(), self._place)),
            "lanes": packed(data.lanes_data(diagnosis, picture)),
            "phases": packed(data.phases_data(self._phases)),
        }

    def _guard_sets(self) -> list[GuardSet]:
        """Those whose trees are on the page."""
        sets = self._diagnosis.recording.guards.sets if self._diagnosis.recording.guards is not None else ()
        return [found for found in sets if self._shown.has_details(found.compile_id)]

    def anchor(self, file: str | None, line: int | None) -> str | None:
        """The anchor of a line in the page; None if the page doesn't have it."""
        if file is None or line is None:
            return None
        number = self._numbers.get(relative(file, self._root))
        if number is None or (number, line) not in self._lines:
            return None
        return f"f{number}-L{line}"

    def _place(self, file: str | None, line: int | None) -> list[Any] | None:
        if file is None or line is None:
            return None
        return [words.base_name(file), line, self.anchor(file, line)]

    def hue(self, compile_id: str) -> int:
        """The color of a frame, which all of its compiles share."""
        frame = compile_id.rpartition("/")[0]
        return self._hues.setdefault(frame, len(self._hues) % _HUES)

    def _file(self, number: int, file: AnnotatedFile) -> dict[str, Any]:
        texts = [line.text for line in file.lines]
        whole = "\n".join(text or "" for text in texts)
        return {
            "number": number,
            "file": file,
            "name": Location(file=file.file, line=1, function="", package=file.package).shown_file,
            "notes": list(_notes(file)),
            "runs": [
                (is_folded, list(run))
                for is_folded, run in groupby(enumerate(file.lines), lambda one: one[1].is_folded)
            ],
            "hidden_before": {last + 1: last - first + 1 for first, last in file.hidden_ranges},
            "code": highlighted(whole) if any(text is not None for text in texts) else [],
        }

    def _uncovered(self) -> list[TriedFix]:
        treatment = self._diagnosis.recording.treatment
        found = words.uncovered_fixes(treatment, self._diagnosis.findings) if treatment else []
        return [fix for fix in found if fix.is_applied]

    def _calls(self) -> list[dict[str, Any]]:
        """Each call with the compiles it caused."""
        compiles: dict[int | None, list[Any]] = {}
        for compile_ in self._diagnosis.recording.compiles:
            compiles.setdefault(compile_.call_index, []).append(compile_)
        return [
            {
                "call": call,
                "compiled": [found for found in compiles.get(call.index, []) if found.outcome == "compiled"],
                "recompiled": [
                    found
                    for found in compiles.get(call.index, [])
                    if found.outcome == "compiled" and found.is_recompile
                ],
                "fell_back": [
                    found for found in compiles.get(call.index, []) if found.outcome in ("skipped", "limit", "failed")
                ],
            }
            for call in self._diagnosis.recording.calls
        ]

    def _frames(self) -> list[dict[str, Any]]:
        """Functions that were compiled more than once or hit their limit, with their cache entries in order."""
        reports = {id_: report for report in self._diagnosis.recompiles for id_ in report.compile_ids[:1]}
        followers = {
            id_: report.compile_ids[0] for report in self._diagnosis.recompiles for id_ in report.compile_ids[1:]
        }
        compiles: dict[int, list[Any]] = {}
        for compile_ in self._shown.rows(self._diagnosis.recording.compiles):
            compiles.setdefault(compile_.frame_id, []).append(compile_)
        return [
            {
                "frame": frame,
                "compile_count": len(report.compile_ids),
                "entries": [
                    {
                        "compile": compile_,
                        "report": reports.get(compile_.compile_id),
                        "follows": followers.get(compile_.compile_id),
                    }
                    for compile_ in compiles[frame.frame_id]
                ],
            }
            for frame, report in self._diagnosis.each_frame()
            if len(report.compile_ids) > 1 and frame.frame_id in compiles
        ]


def _graph_rows(graphs: Sequence[Graph]) -> Iterator[tuple[Graph, Graph | None]]:
    """The graphs, the largest first, each with an earlier one that takes inputs of the same names and shapes."""
    known: dict[str, Graph] = {}
    for graph in data.largest_first(graphs):
        text = words.inputs_text(graph)
        yield graph, known.get(text) if graph.inputs else None
        known.setdefault(text, graph)


def _notes(file: AnnotatedFile) -> Iterator[str]:
    if file.finding_count:
        yield counted(file.finding_count, "finding")
    if file.is_source_missing:
        yield "source not recorded, only known lines are shown"
    if file.hidden_line_count:
        yield counted(file.hidden_line_count, "hidden line")
    if folded := sum(line.is_folded for line in file.lines):
        yield counted(folded, "folded line")
