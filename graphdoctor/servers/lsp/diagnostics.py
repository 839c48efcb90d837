"""Findings as an editor shows them: diagnostics, hovers, lenses, hints and edits, in a document's
own positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.workspace import TextDocument

from graphdoctor.facts.bench import EAGER
from graphdoctor.facts.command import rule_url
from graphdoctor.facts.diagnosis import Diagnosis, Finding, Severity
from graphdoctor.facts.fixes import WORKING, Fix
from graphdoctor.facts.recording import Frame
from graphdoctor.facts.stack import relative
from graphdoctor.fixes.diffs import DiffError, changes_of
from graphdoctor.fixes.patch import FileChange
from graphdoctor.rules.catalog import PAGES
from graphdoctor.rules.gate.baseline import known_in
from graphdoctor.rules.gate.ignores import comments_in, ignored_by
from graphdoctor.servers.lsp.known import Home, Known, Run, Seen, moved
from graphdoctor.views import words
from graphdoctor.views.html.lines import LineState
from graphdoctor.views.measures import speedup_text
from graphdoctor.views.printable import printable
from graphdoctor.wording import counted, duration, percent

SOURCE = "graphdoctor"
_SEVERITIES: dict[Severity, types.DiagnosticSeverity] = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
}
_RUNS: dict[LineState, str] = {
    "graph": "in a compiled graph",
    "eager": "eagerly",
    "mixed": "partly in a graph, partly eagerly",
}


def path_of(document: TextDocument) -> Path:
    """Where a document is; for one that has no file yet, where one of its name would be."""
    return Path.cwd() / (document.path or "untitled.py")


def counting(seen: Sequence[Seen], text: str, home: Home) -> list[Seen]:
    """What runs saw in a file, without what a comment in its text, a setting or a baseline leaves
    out.
    """
    comments = comments_in(text)
    kept = [
        sighting
        for sighting in seen
        if all(comment.code_for(sighting.finding) is None for comment in comments)
    ]
    for target in {sighting.run.target for sighting in kept}:
        for policy in home.judging(target):
            here = [sighting.finding for sighting in kept if sighting.run.target == target]
            in_baseline = known_in(policy.baseline, here) if policy.baseline else ()
            paths, selection = policy.paths, policy.selection
            left = [
                finding
                for finding in here
                if finding in in_baseline
                or ignored_by(finding, comments={}, paths=paths, selection=selection)
            ]
            kept = [
                sighting
                for sighting in kept
                if sighting.run.target != target or sighting.finding not in left
            ]
    return kept


def diagnostics(
    document: TextDocument, linted: Sequence[Finding], seen: Sequence[Seen]
) -> list[types.Diagnostic]:
    """What runs saw, and what lint finds at other lines."""
    places = {(sighting.finding.code, sighting.finding.location.line) for sighting in seen}
    from_runs = [_diagnostic(document, sighting.finding, sighting.run) for sighting in seen]
    rest = (finding for finding in linted if (finding.code, finding.location.line) not in places)
    return [*from_runs, *(_diagnostic(document, finding, None) for finding in rest)]


def _diagnostic(document: TextDocument, finding: Finding, run: Run | None) -> types.Diagnostic:
    url = rule_url(finding.code)
    messages = [finding.message]
    if run is not None:
        cost = finding.cost
        messages += (
            [f"{duration(cost.call_us)} per call"] if cost is not None and cost.call_us else []
        )
        messages += (
            [f"{cost.compile_s:.1f} s of compiling"] if cost is not None and cost.compile_s else []
        )
        messages.append(run.age)
    return types.Diagnostic(
        range=range_of(document, finding),
        message=printable("; ".join(messages)),
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        code_description=None if url is None else types.CodeDescription(href=url),
        source=SOURCE,
        data={"fingerprint": finding.fingerprint},
    )


def range_of(document: TextDocument, finding: Finding) -> types.Range:
    """Where a finding is: its expression, or the text of its line."""
    lines, place = document.lines, finding.location
    line = min(max(place.line, 1), max(len(lines), 1)) - 1
    text = lines[line].rstrip("\r\n") if lines else ""
    start, end = len(text) - len(text.lstrip()), len(text)
    if place.column is not None and place.column <= len(text):
        start, end = place.column - 1, min(place.end_column - 1, end) if place.end_column else end
    range_ = types.Range(types.Position(line, start), types.Position(line, max(start, end)))
    return document.position_codec.range_to_client_units(lines, range_)


def hover(document: TextDocument, known: Known, line: int, seen: Sequence[Seen]) -> str | None:
    """What is known of a 1-based line, as Markdown; None if nothing is."""
    parts = []
    for sighting in seen:
        finding = sighting.finding
        if finding.location.line == line:
            parts.append(f"**{finding.code}** {printable(finding.message)}")
            steps = ((change.expression, words.step(change)) for change in finding.changes)
            parts += [f"`{expression}`: {printable(said)}" for expression, said in steps if said]
            parts += [f"*{text}*" for text in _costs(finding)]
            parts.append(f"{counted(finding.count, 'time')}, {sighting.run.age}")
    parts += [f"Runs {_RUNS[state]}." for state in _states(document, known, line) if state in _RUNS]
    for text in _times(document, known, line):
        parts.append(text)
    return "\n\n".join(parts) or None


def _states(document: TextDocument, known: Known, line: int) -> Iterator[LineState]:
    path = path_of(document)
    for run, text in known.runs_of(path):
        if run.bench is None and not run.lines:
            lines = moved(text, document.source)
            states = run.annotated.get(Path(relative(str(path), known.home.root)), {})
            yield from (
                states[at]
                for at in states
                if lines.to_before(at) == line and not lines.is_changed_after(at)
            )
            return


def _costs(finding: Finding) -> Iterator[str]:
    cost = finding.cost
    if cost is not None and cost.call_us:
        yield f"{duration(cost.call_us)} per call" + (
            f" ({percent(cost.share)})" if cost.share else ""
        )


def _times(document: TextDocument, known: Known, line: int | None) -> Iterator[str]:
    yield from (text for at, text in line_times(document, known) if at == line)


def line_times(document: TextDocument, known: Known) -> Iterator[tuple[int, str]]:
    """The time of each line that the newest profile saw: its line now, and its time by pass."""
    path = path_of(document)
    for run, text in known.runs_of(path):
        lines = moved(text, document.source)
        for timed in run.lines:
            if known.home.root / timed.file == path and not lines.is_changed_after(timed.line):
                passes = [("forward", timed.forward_us), ("backward", timed.backward_us)]
                times = ", ".join(f"{duration(us)} {name}" for name, us in passes if us)
                yield lines.to_before(timed.line), f"{percent(timed.share)} of the call: {times}"
        if run.lines:
            return


def lenses(document: TextDocument, known: Known) -> Iterator[tuple[int, str]]:
    """What is shown above each compiled function: its line now, and how it fared.

    How much is compiled, and how fast it is, are the whole run's, so they stand where one function
    is compiled alone.
    """
    path, shown = path_of(document), dict[int, str]()
    for run, text in known.runs_of(path):
        lines, diagnosis = moved(text, document.source), run.diagnosis
        frames = {
            (frame.file, frame.line): (frame, report)
            for frame, report in diagnosis.each_frame()
            if not frame.resumes_at
        }
        summary, is_alone = diagnosis.summary, len(frames) == 1
        for frame, report in frames.values():
            line = lines.to_before(frame.line)
            if Path(frame.file) != path or line in shown:
                continue
            is_share_known = is_alone and summary.coverage is not None
            titles = [
                f"{words.share_text(summary.coverage)} compiled"
                if is_share_known
                else report.state.replace("_", " ")
            ]
            breaks = summary.break_sites if is_alone else len(_broken_in(frame, diagnosis))
            titles += [counted(breaks, "break site")] if breaks else []
            titles += _benched(known, path, run.target) if is_alone else []
            shown[line] = " · ".join(titles)
    yield from shown.items()


def _broken_in(frame: Frame, diagnosis: Diagnosis) -> set[tuple[str, int]]:
    """Lines of a function that break the graph."""
    here = (finding.location for finding in diagnosis.findings if finding.code.startswith("GD1"))
    return {
        location.at for location in here if location.function == (frame.qualname or frame.function)
    }


def _benched(known: Known, path: Path, target: str) -> list[str]:
    for run, _ in known.runs_of(path):
        if run.bench is not None and run.target == target:
            timed = (
                variant.speedup
                for variant in run.bench.variants
                if variant.name != EAGER and variant.speedup is not None
            )
            return [f"{speedup_text(speedup)} (bench)" for speedup in timed][:1]
    return []


def fix_edits(
    finding: Finding, document: TextDocument, root: Path
) -> Iterator[tuple[str, bool, types.WorkspaceEdit]]:
    """A finding's fixes that edit the document, and others with it: title, whether a trial verified
    it, the edit.
    """
    path = path_of(document)

    def read(name: Path) -> bytes:
        return document.source.encode() if name == path else name.read_bytes()

    for fix in sorted(finding.fixes, key=lambda fix: fix.verdict not in WORKING):
        if fix.diff is None or fix.verdict not in (*WORKING, "not tried", "unproven"):
            continue
        try:
            changes = changes_of(fix.diff, root, read)
        except (DiffError, OSError):
            continue  # its lines changed since
        if path in (change.path for change in changes):
            edits: dict[str, Any] = {
                document.uri if change.path == path else change.path.as_uri(): text_edits(change)
                for change in changes
            }
            yield (
                f"{words.fix_text(fix)} ({_proof(fix)})",
                fix.verdict in WORKING,
                types.WorkspaceEdit(changes=edits),
            )


def _proof(fix: Fix) -> str:
    same = words.same_text(fix.compared, fix.attacked) if fix.verdict in WORKING else None
    return f"{fix.verdict}: {same}" if same else fix.verdict


def text_edits(change: FileChange) -> list[types.TextEdit]:
    """A change of a file as edits of its lines."""
    old, new = (text.decode().splitlines(keepends=True) for text in (change.before, change.after))
    return [
        types.TextEdit(
            types.Range(types.Position(first, 0), types.Position(last, 0)), "".join(new[start:end])
        )
        for tag, first, last, start, end in SequenceMatcher(
            None, old, new, autojunk=False
        ).get_opcodes()
        if tag != "equal"
    ]


def ignore_edit(document: TextDocument, line: int, code: str) -> types.WorkspaceEdit:
    """A comment at the end of a 0-based line that leaves a code out there."""
    text = document.lines[line].rstrip("\r\n")
    end = document.position_codec.client_num_units(text)
    at = types.Position(line, end)
    edits: dict[str, Any] = {
        document.uri: [types.TextEdit(types.Range(at, at), f"  # graphdoctor: ignore[{code}]")]
    }
    return types.WorkspaceEdit(changes=edits)


def rule_page(code: str) -> str:
    """A rule's page as Markdown."""
    page = PAGES[code]
    return f"# {page.code} {page.name}\n\n{page.documentation()}\n"
