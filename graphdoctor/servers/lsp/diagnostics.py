"""Findings as an editor shows them: diagnostics, hovers, lenses, hints and edits, in a document's
own positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path

from lsprotocol import types
from pygls.workspace import TextDocument

from graphdoctor.facts.base import grouped
from graphdoctor.facts.command import rule_url
from graphdoctor.facts.diagnosis import Finding, Severity
from graphdoctor.facts.fixes import LOSSY, WORKING
from graphdoctor.facts.stack import relative
from graphdoctor.fixes.diffs import DiffError, changes_of
from graphdoctor.fixes.patch import FileChange
from graphdoctor.rules.gate.baseline import known_in
from graphdoctor.rules.gate.ignores import comments_in, ignored_by
from graphdoctor.servers.lsp.known import Home, Known, Run, Seen, moved
from graphdoctor.views import words
from graphdoctor.views.html.lines import LineState
from graphdoctor.views.printable import printable
from graphdoctor.views.reasons import verdict_text
from graphdoctor.wording import counted, join_texts

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
    """Return where a document is; for one that has no file yet, where one of its name would be."""
    return Path.cwd() / (document.path or "untitled.py")


def counting(seen: Sequence[Seen], text: str, home: Home) -> list[Seen]:
    """Return what runs saw in a file, without what a comment in its text, a setting or a baseline
    leaves out.
    """
    comments = comments_in(text)
    left = []
    for target, sightings in grouped((sighting.run.target, sighting) for sighting in seen).items():
        findings = [
            sighting.finding
            for sighting in sightings
            if all(comment.code_for(sighting.finding) is None for comment in comments)
        ]
        for policy in home.judging(target):
            in_baseline = known_in(policy.baseline, findings) if policy.baseline else ()
            paths, selection = policy.paths, policy.selection
            findings = [
                finding
                for finding in findings
                if finding not in in_baseline
                and not ignored_by(finding, comments={}, paths=paths, selection=selection)
            ]
        left += findings
    return [sighting for sighting in seen if any(sighting.finding is finding for finding in left)]


def diagnostics(
    document: TextDocument, linted: Sequence[Finding], seen: Sequence[Seen]
) -> list[types.Diagnostic]:
    """Return what runs saw, and what lint finds at other lines."""
    places = {(sighting.finding.code, sighting.finding.location.line) for sighting in seen}
    from_runs = [_diagnostic(document, sighting.finding, sighting.run) for sighting in seen]
    rest = (finding for finding in linted if (finding.code, finding.location.line) not in places)
    return [*from_runs, *(_diagnostic(document, finding, None) for finding in rest)]


def _diagnostic(document: TextDocument, finding: Finding, run: Run | None) -> types.Diagnostic:
    url = rule_url(finding.code)
    messages = [finding.message]
    if run is not None:
        messages += [words.cost_text(finding.cost) if finding.cost else "", run.age]
    return types.Diagnostic(
        range=range_of(document, finding),
        message=printable(join_texts("; ", *messages)),
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        code_description=None if url is None else types.CodeDescription(href=url),
        source=SOURCE,
        data={"fingerprint": finding.fingerprint},
    )


def range_of(document: TextDocument, finding: Finding) -> types.Range:
    """Return where a finding is: its expression, or the text of its line."""
    lines, place = document.lines, finding.location
    line = min(max(place.line, 1), max(len(lines), 1)) - 1
    text = lines[line].rstrip("\r\n") if lines else ""
    start, end = len(text) - len(text.lstrip()), len(text)
    if place.column is not None and place.column <= len(text):
        start, end = place.column - 1, min(place.end_column - 1, end) if place.end_column else end
    range_ = types.Range(types.Position(line, start), types.Position(line, max(start, end)))
    return document.position_codec.range_to_client_units(lines, range_)


def hover(document: TextDocument, known: Known, line: int, seen: Sequence[Seen]) -> str | None:
    """Say what is known of a 1-based line, as Markdown; None if nothing is."""
    parts = []
    for sighting in seen:
        finding = sighting.finding
        if finding.location.line == line:
            parts.append(f"**{finding.code}** {printable(finding.message)}")
            steps = ((change.expression, words.step(change)) for change in finding.changes)
            parts += [f"`{expression}`: {printable(step)}" for expression, step in steps if step]
            if finding.cost and (cost := words.cost_text(finding.cost)):
                parts.append(f"*{cost}*")
            parts.append(f"{counted(finding.count, 'time')}, {sighting.run.age}")
    path = path_of(document)
    for run, text in islice(known.runs_of(path), 1):
        lines = moved(text, document.source)
        states = run.annotated.get(Path(relative(str(path), known.home.root)), {})
        parts += [
            f"Runs {_RUNS[state]}."
            for at, state in states.items()
            if state in _RUNS and lines.to_before(at) == line and not lines.is_changed_after(at)
        ]
    return "\n\n".join(parts) or None


def lenses(document: TextDocument, known: Known) -> Iterator[tuple[int, str]]:
    """Yield what is shown above each compiled function: its line now, and how it fared."""
    path, shown = path_of(document), dict[int, str]()
    for run, text in known.runs_of(path):
        lines = moved(text, document.source)
        for frame, report in run.diagnosis.each_frame():
            if Path(frame.file) != path or frame.resumes_at:
                continue
            broken = {
                finding.location.at
                for finding in run.diagnosis.findings
                if finding.code.startswith("GD1")
                and finding.location.function == (frame.qualname or frame.function)
            }
            breaks = counted(len(broken), "break site") if broken else None
            title = join_texts(" · ", report.state.replace("_", " "), breaks)
            shown.setdefault(lines.to_before(frame.line), title)
    yield from shown.items()


def fix_edits(
    finding: Finding, document: TextDocument, root: Path
) -> Iterator[tuple[str, bool, types.WorkspaceEdit]]:
    """Yield a finding's fixes that edit the document, and others with it: title, whether a trial
    verified it, the edit.
    """
    path = path_of(document)

    def read(name: Path) -> bytes:
        return document.source.encode() if name == path else name.read_bytes()

    for fix in finding.fixes:
        if fix.diff is None or fix.verdict not in (*WORKING, "not tried", "unproven"):
            continue
        try:
            changes = changes_of(fix.diff, root, read)
        except (DiffError, OSError):
            continue  # its lines changed since
        if path in (change.path for change in changes):
            edits = {
                document.uri if change.path == path else change.path.as_uri(): text_edits(change)
                for change in changes
            }
            is_verified = fix.verdict in WORKING and fix.verdict != LOSSY
            same = words.same_text(fix.compared, fix.attacked) if is_verified else None
            proof = join_texts(": ", verdict_text(fix), same)
            title = f"{words.fix_text(fix)} ({proof})"
            yield title, is_verified, types.WorkspaceEdit(changes=edits)


def text_edits(change: FileChange) -> list[types.TextEdit]:
    """Return a change of a file as edits of its lines."""
    old, new = (text.decode().splitlines(keepends=True) for text in (change.before, change.after))
    changes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [
        types.TextEdit(
            types.Range(types.Position(first, 0), types.Position(last, 0)), "".join(new[start:end])
        )
        for tag, first, last, start, end in changes
        if tag != "equal"
    ]


def ignore_edit(document: TextDocument, line: int, code: str) -> types.WorkspaceEdit:
    """Return a comment at the end of a 0-based line that leaves a code out there."""
    text = document.lines[line].rstrip("\r\n")
    end = document.position_codec.client_num_units(text)
    at = types.Position(line, end)
    edits = {
        document.uri: [types.TextEdit(types.Range(at, at), f"  # graphdoctor: ignore[{code}]")]
    }
    return types.WorkspaceEdit(changes=edits)
