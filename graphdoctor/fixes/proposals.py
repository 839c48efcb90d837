"""From a finding to what can be tried for it: edits of source, config values, changes of the call.

Third-party files are never edited: there it is a config value, or a wrapper that keeps a function outside.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from graphdoctor.diagnosis.selection import Selection
from graphdoctor.fixes.patch import FileChange
from graphdoctor.fixes.recipes import recipes_for
from graphdoctor.fixes.remedies import Candidate, Change, candidates
from graphdoctor.fixes.replays import Program
from graphdoctor.fixes.rule_codes import BREAK, RECOMPILE, RECOMPILE_LIMIT
from graphdoctor.fixes.syntax.declined import DeclinedError
from graphdoctor.fixes.syntax.place import Place
from graphdoctor.fixes.syntax.source import SourceFile, UnreadableError
from graphdoctor.fixes.verdicts import Seen
from graphdoctor.model.diagnosis import Finding
from graphdoctor.model.fixes import FixKind
from graphdoctor.model.recompiles import GuardChange

_SETTING = re.compile(r"^torch(\._\w+|\.\w+)*\.config\.\w+(\.\w+)* = \S+$|^torch[\w.]*\.\w+\(.+\)$", re.DOTALL)
_CONFIG = re.compile(r"^(torch(?:\.\w+)*\.config(?:\.\w+)+) = (True|False|None|-?\d+)$")
_NESTED = "torch._dynamo.config.nested_graph_breaks = True"
_FOR_SIZES = ("GD202", "GD206", "GD207")


@dataclass(frozen=True)
class Proposal:
    """One fix that can be tried.

    Args:
        title: One imperative sentence.
        kind: What it changes.
        is_safe: It keeps results as they are for every input.
        targets: Fingerprints of the findings it is meant for.
        edit: The edit of a file as the program has it that the fix is for; None where source stays as it is.
        setup: Lines that configure torch.
        change: What is changed about configuration and calls.
        snippet: What to write, for people; None for an edit of source.
        contains: It contains a break rather than taking it away.
        moves_out: It takes code out of the compiled region on purpose.
        drops_output: The program prints less with it.
    """

    title: str
    kind: FixKind
    is_safe: bool
    targets: tuple[str, ...]
    edit: FileChange | None = None
    setup: tuple[str, ...] = ()
    change: Change = field(default_factory=Change)
    snippet: str | None = None
    contains: bool = False
    moves_out: bool = False
    drops_output: bool = False

    def is_same(self, other: Proposal) -> bool:
        """They do the same to the program."""
        return (self.edit, self.setup, self.change) == (other.edit, other.setup, other.change)


def treated_findings(seen: Seen, selection: Selection) -> list[Finding]:
    """What a program has of the findings that fixes are for and a person asked about."""
    return [
        finding
        for finding in seen.diagnosis.findings
        if finding.code.startswith((BREAK, RECOMPILE)) and selection.keeps(finding)
    ]


@dataclass(frozen=True)
class Options:
    """What can be tried for one finding.

    Args:
        finding: The finding.
        proposals: Best first.
        declined: Why recipes leave the source as it is, each once.
    """

    finding: Finding
    proposals: tuple[Proposal, ...]
    declined: tuple[str, ...]


class Sources:
    """The user's files as a program has them; each is read from disk once, whatever becomes of it meanwhile.

    Args:
        program: Its edits.
        root: What relative paths are relative to.
        originals: Bytes of files as they were when first read; filled here.
    """

    def __init__(self, program: Program, root: Path, originals: dict[Path, bytes]) -> None:
        self._program = program
        self.root = root
        self._originals = originals
        self._parsed: dict[Path, SourceFile | str] = {}

    def file_of(self, finding: Finding) -> SourceFile:
        """The file that a finding lies in.

        Raises:
            DeclinedError: It has no source that can be edited, or that changed since the run.
        """
        path = self.root / finding.location.file
        if path not in self._parsed:
            self._parsed[path] = self._parse(path)
        source = self._parsed[path]
        if isinstance(source, str):
            raise DeclinedError(source)
        if not _is_line(source, finding):
            raise DeclinedError(f"{path.name} changed since the run")
        return source

    def _parse(self, path: Path) -> SourceFile | str:
        try:
            known = self._program.content.get(path, self._originals.get(path))
            source = SourceFile.read(path) if known is None else SourceFile.parse(path, known)
        except UnreadableError as error:
            return error.reason
        if known is None:
            self._originals[path] = source.content
        return source


def _is_line(source: SourceFile, finding: Finding) -> bool:
    text = finding.location.text
    # str.splitlines knows more ends of lines than Python, such as a form feed.
    lines = re.split(r"\r\n|\r|\n", source.tree.code)
    number = finding.location.line
    return text is None or (number <= len(lines) and lines[number - 1].strip() == text.strip())


def options_for(seen: Seen, sources: Sources, selection: Selection) -> list[Options]:
    """What can be tried for each finding about breaks and recompiles.

    Args:
        seen: The program as it is now.
        sources: Its files.
        selection: Findings to treat.
    """
    findings = treated_findings(seen, selection)
    calls = _call_proposals(seen, findings)
    found = []
    for finding in findings:
        edits, declined = _edits(finding, sources, _changes_of(finding, seen))
        settings = [
            _setting(finding, fix.title, fix.snippet, is_safe=fix.is_safe)
            for fix in finding.fixes
            if fix.kind == "config" and fix.snippet is not None and _is_setting(fix.snippet)
        ]
        general = calls.get(finding.fingerprint, [])
        proposals = [*(edit for edit in edits if edit.is_safe), *general]
        proposals += [*(edit for edit in edits if not edit.is_safe), *settings, *_containing(finding, sources.root)]
        found.append(Options(finding, tuple(_distinct(proposals)), tuple(dict.fromkeys(declined))))
    return found


def _changes_of(finding: Finding, seen: Seen) -> tuple[GuardChange, ...]:
    """The changed values that a finding about recompiles names; a compile can have several causes."""
    if not finding.code.startswith(RECOMPILE):
        return ()
    ids = set(finding.compile_ids)
    found = {
        change.expression: change
        for report in seen.diagnosis.recompiles
        if ids & set(report.compile_ids)
        for change in report.cause
        if f"`{change.expression}`" in finding.message
    }
    return tuple(found.values())


def _distinct(proposals: Sequence[Proposal]) -> list[Proposal]:
    kept: list[Proposal] = []
    for proposal in proposals:
        if not any(proposal.is_same(other) for other in kept):
            kept.append(proposal)
    return kept


def _edits(finding: Finding, sources: Sources, changes: tuple[GuardChange, ...]) -> tuple[list[Proposal], list[str]]:
    if finding.location.origin != "user":
        package = finding.location.package or "Python itself"
        return [], [f"the line belongs to {package}, whose files are not edited"]
    try:
        source = sources.file_of(finding)
    except DeclinedError as error:
        return [], [error.reason]
    found, declined = [], []
    for recipe in recipes_for(finding.code):
        try:
            edit = recipe.edit(Place(source, finding, changes))
        except DeclinedError as error:
            declined.append(error.reason)
            continue
        except UnicodeEncodeError:
            declined.append(f"{source.path.name} is written in {source.tree.encoding}, which lacks a character of it")
            continue
        found.append(
            Proposal(
                title=edit.title,
                kind="code",
                is_safe=edit.is_safe,
                targets=(finding.fingerprint,),
                edit=FileChange(source.path, source.content, edit.content),
                contains=not recipe.removes,
                moves_out=recipe.moves_out,
                drops_output=edit.drops_output,
            )
        )
    return found, declined


def _is_setting(line: str) -> bool:
    return _SETTING.match(line) is not None and "…" not in line


def _setting(finding: Finding, title: str, line: str, *, is_safe: bool, contains: bool = False) -> Proposal:
    lines = _with_imports(line)
    value = _CONFIG.match(lines)
    return Proposal(
        title=title,
        kind="config",
        is_safe=is_safe,
        targets=(finding.fingerprint,),
        setup=() if value else (lines,),
        change=Change(config=((value[1], ast.literal_eval(value[2])),)) if value else Change(),
        snippet=lines,
        contains=contains,
        drops_output="ignore_logging_functions" in lines,
    )


def _with_imports(line: str) -> str:
    """The line behind imports of what it names."""
    try:
        names = {node.id for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name)}
    except SyntaxError:
        return line
    modules = sorted(name for name in names if name != "torch" and not hasattr(builtins, name))
    return "\n".join([*(f"import {name}" for name in modules), line])


def _containing(finding: Finding, root: Path) -> list[Proposal]:
    """What bounds a break that stays: torch's nested breaks, and a package's function kept outside."""
    found = []
    has_callers = sum(entry.origin in ("user", "third_party") for entry in finding.user_stack) > 1
    if finding.code.startswith(BREAK) and has_callers:
        title = "Let torch break inside the called function, without breaking its callers"
        found.append(_setting(finding, title, _NESTED, is_safe=True, contains=True))
    wrapper = _wrapper(finding, root)
    if wrapper is not None:
        found.append(wrapper)
    return found


def _wrapper(finding: Finding, root: Path) -> Proposal | None:
    location = finding.location
    if not finding.code.startswith(BREAK) or location.origin != "third_party" or not location.package:
        return None
    _, found, rest = location.file.replace("\\", "/").rpartition(f"/{location.package}/")
    parts = [location.package, *rest.removesuffix(".py").split("/")]
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    if not found or not all(part.isidentifier() for part in parts):
        return None
    if not _is_attribute(root / location.file, location.function):
        return None
    module = ".".join(parts)
    name = f"{module}.{location.function}"
    lines = f"import {module}\n{name} = torch.compiler.disable({name})"
    return Proposal(
        title=f"Keep `{location.function}` of {location.package} outside the compiled function",
        kind="call",
        is_safe=True,
        targets=(finding.fingerprint,),
        setup=(lines,),
        snippet=lines,
        contains=True,
    )


def _is_attribute(path: Path, name: str) -> bool:
    """A dotted name leads through classes to a plain function of a file, so that it can be taken and set."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    *classes, function = name.split(".")
    for part in classes:
        inner = next((node for node in body if isinstance(node, ast.ClassDef) and node.name == part), None)
        if inner is None:
            return False
        body = inner.body
    return any(isinstance(node, ast.FunctionDef) and node.name == function and not node.decorator_list for node in body)


def _call_proposals(seen: Seen, findings: Sequence[Finding]) -> dict[str, list[Proposal]]:
    """Remedies for recompiles that change the call or a config value, by the finding's fingerprint."""
    remedies = candidates(seen.recording)
    if remedies is None:
        return {}
    recompiles = [finding for finding in findings if finding.code.startswith(RECOMPILE)]
    found: dict[str, list[Proposal]] = {}
    for candidate in remedies.singles:
        for finding in recompiles:
            # The rule says which value it is about; a compile can have several causes, each a finding of its own.
            if any(f"`{name}`" in finding.message for name in candidate.remedies[0].addresses):
                found.setdefault(finding.fingerprint, []).append(_remedy(candidate, finding))
    for finding in recompiles:
        for candidate in remedies.general:
            name = candidate.remedies[0].name
            is_fitting = (name == "dynamic=True" and finding.code in _FOR_SIZES) or (
                name == "recompile_limit" and finding.code == RECOMPILE_LIMIT
            )
            if is_fitting:
                found.setdefault(finding.fingerprint, []).append(_remedy(candidate, finding))
    return found


def _remedy(candidate: Candidate, finding: Finding) -> Proposal:
    remedy = candidate.remedies[0]
    return Proposal(
        title=remedy.title,
        kind=remedy.kind,
        is_safe=remedy.keeps_results,
        targets=(finding.fingerprint,),
        change=candidate.change,
        snippet=remedy.snippet,
    )
