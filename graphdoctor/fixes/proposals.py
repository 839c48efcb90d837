"""From a finding to what can be tried for it: edits of source, torch settings, changes of the call.

Files of other packages are never edited: for their findings, a setting or a wrapper that keeps a function outside the
compiled region can be tried.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import FixKind, SnippetPlace
from graphdoctor.facts.run import Setting
from graphdoctor.facts.stack import PROGRAM_ORIGINS
from graphdoctor.fixes.cuda_graphs import cuda_graph_remedies
from graphdoctor.fixes.patch import FileChange
from graphdoctor.fixes.recipes import recipes_for
from graphdoctor.fixes.remedies import Candidate, candidates
from graphdoctor.fixes.rule_codes import BREAK, CUDA_GRAPHS, RECOMPILE, RECOMPILE_LIMIT, SIZE_CHANGES, SKIPPED_FRAME
from graphdoctor.fixes.source.place import Place
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.trials.judge import Observed
from graphdoctor.trials.program import Program, RunChange

_NESTED_BREAKS = Setting(name="torch._dynamo.config.nested_graph_breaks", value=True)
_START = SnippetPlace(where="start")


@dataclass(frozen=True)
class Proposal:
    """One fix that can be tried.

    Args:
        title: One imperative sentence.
        kind: What it changes.
        is_safe: Whether results stay the same for every input.
        targets: Fingerprints of the findings that it is for.
        edit: An edit of a file as the program has it; None if source doesn't change.
        change: What it changes about the run, such as torch settings and calls.
        snippet: What to write, for people; None for an edit of source.
        place: Where ``snippet`` goes; None without one.
        contains: Whether it contains a break rather than removing it.
        drops_output: Whether the program prints less with it.
    """

    title: str
    kind: FixKind
    is_safe: bool
    targets: tuple[str, ...]
    edit: FileChange | None = None
    change: RunChange = field(default_factory=RunChange)
    snippet: str | None = None
    place: SnippetPlace | None = None
    contains: bool = False
    drops_output: bool = False

    def is_same(self, other: Proposal) -> bool:
        """Whether both do the same to the program."""
        return (self.edit, self.change) == (other.edit, other.change)


def treated_findings(observed: Observed, selection: Selection) -> list[Finding]:
    """The findings of a program that fixes are for and that the user selected."""
    return [
        finding
        for finding in observed.diagnosis.findings
        if (finding.code.startswith((BREAK, RECOMPILE)) or _is_graph_to_record(finding)) and selection.keeps(finding)
    ]


def _is_graph_to_record(finding: Finding) -> bool:
    skip = finding.cuda_graph_skip
    return finding.code == CUDA_GRAPHS and skip is not None and skip.is_on_gpu


@dataclass(frozen=True)
class FindingOptions:
    """What can be tried for one finding.

    Args:
        finding: The finding.
        proposals: What can be tried, best first.
        declined: Why recipes leave the source unchanged, each reason once.
    """

    finding: Finding
    proposals: tuple[Proposal, ...]
    declined: tuple[str, ...]


class Sources:
    """The user's files as a program has them; each is read from disk once, even if it changes there later.

    Args:
        program: The program, with its edits.
        root: What relative paths are relative to.
        originals: Bytes of files as they were when first read; filled here.
    """

    def __init__(self, program: Program, root: Path, originals: dict[Path, bytes]) -> None:
        self._program = program
        self.root = root
        self._originals = originals
        self._parsed: dict[Path, SourceFile | str] = {}

    def file_of(self, finding: Finding) -> SourceFile:
        """The file that a finding is in.

        Raises:
            DeclinedError: It has no source that can be edited, or the source changed since the run.
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
        except DeclinedError as error:
            return error.reason
        if known is None:
            self._originals[path] = source.content
        return source


def _is_line(source: SourceFile, finding: Finding) -> bool:
    """Whether the finding's line still reads as it did in the run."""
    text = finding.location.text
    # str.splitlines splits at more characters than Python does, such as a form feed.
    lines = re.split(r"\r\n|\r|\n", source.tree.code)
    number = finding.location.line
    return text is None or (number <= len(lines) and lines[number - 1].strip() == text.strip())


def options_for(observed: Observed, sources: Sources, selection: Selection) -> list[FindingOptions]:
    """What can be tried for each finding about breaks, recompiles and CUDA graphs.

    Args:
        observed: The program as it is now.
        sources: Its files.
        selection: Findings to treat.
    """
    findings = treated_findings(observed, selection)
    remedies = _remedies(observed, findings)
    found = []
    for finding in findings:
        edits, declined = _edits(finding, sources)
        settings = [
            _setting(finding, fix.title, fix.setting, is_safe=fix.is_safe)
            for fix in finding.fixes
            if fix.setting is not None
        ]
        proposals = [*(edit for edit in edits if edit.is_safe), *remedies.get(finding.fingerprint, [])]
        proposals += [*(edit for edit in edits if not edit.is_safe), *settings]
        # What keeps every line comes before what drops some.
        proposals.sort(key=lambda proposal: (proposal.drops_output, not proposal.is_safe))
        proposals += _containing(finding, sources.root)
        found.append(FindingOptions(finding, tuple(_distinct(proposals)), tuple(dict.fromkeys(declined))))
    return found


def _distinct(proposals: Sequence[Proposal]) -> list[Proposal]:
    kept: list[Proposal] = []
    for proposal in proposals:
        if not any(proposal.is_same(other) for other in kept):
            kept.append(proposal)
    return kept


def _edits(finding: Finding, sources: Sources) -> tuple[list[Proposal], list[str]]:
    """The edits that recipes write for a finding, and why others decline."""
    finding = _in_own_code(finding)
    if finding.location.origin != "user":
        package = finding.location.package or "Python itself"
        return [], [f"the line belongs to {package}, whose files aren't edited"]
    try:
        source = sources.file_of(finding)
    except DeclinedError as error:
        return [], [error.reason]
    found, declined = [], []
    for recipe in recipes_for(finding.code):
        try:
            edit = recipe.edit(Place(source, finding))
        except DeclinedError as error:
            declined.append(error.reason)
            continue
        except UnicodeEncodeError:
            declined.append(f"{source.path.name} is encoded in {source.tree.encoding}, which can't encode the edit")
            continue
        found.append(
            Proposal(
                title=edit.title,
                kind="code",
                is_safe=edit.is_safe,
                targets=(finding.fingerprint,),
                edit=FileChange(source.path, source.content, edit.content),
                contains=not recipe.removes,
                drops_output=edit.drops_output,
            )
        )
    return found, declined


def _in_own_code(finding: Finding) -> Finding:
    """The finding, at the user's own block if that is why a break in a package makes torch skip a function.

    In a function of its own, the block is all that torch skips; breaks that the user's code has after it then show.
    """
    if finding.code != SKIPPED_FRAME or finding.location.origin == "user":
        return finding
    blocks = (place for place in finding.related if place.origin == "user" and place.text is not None)
    block = next(blocks, None)
    return finding if block is None else finding.model_copy(update={"location": block})


def _setting(finding: Finding, title: str, setting: Setting, *, is_safe: bool, contains: bool = False) -> Proposal:
    return Proposal(
        title=title,
        kind="config",
        is_safe=is_safe,
        targets=(finding.fingerprint,),
        change=RunChange(settings=(setting,)),
        snippet=setting.code,
        place=_START,
        contains=contains,
        drops_output=setting.drops_output,
    )


def _containing(finding: Finding, root: Path) -> list[Proposal]:
    """What contains a break that stays: torch's nested breaks, and a package's function kept outside."""
    found = []
    has_callers = sum(entry.origin in PROGRAM_ORIGINS for entry in finding.user_stack) > 1
    if finding.code.startswith(BREAK) and has_callers:
        title = "Let torch break inside the called function, without breaking its callers"
        found.append(_setting(finding, title, _NESTED_BREAKS, is_safe=True, contains=True))
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
        change=RunChange(setup=(lines,)),
        snippet=lines,
        place=_START,
        contains=True,
    )


def _is_attribute(path: Path, name: str) -> bool:
    """Whether a dotted name leads through classes to a plain function of a file, so that it can be replaced."""
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


def _remedies(observed: Observed, findings: Sequence[Finding]) -> dict[str, list[Proposal]]:
    """Remedies that change the call or a setting, by the finding's fingerprint."""
    found = {
        finding.fingerprint: [
            _remedy(each, finding) for each in cuda_graph_remedies(finding.cuda_graph_skip, observed.recording)
        ]
        for finding in findings
        if finding.cuda_graph_skip is not None
    }
    tried = candidates(observed.recording)
    if tried is None:
        return found
    for finding in findings:
        if not finding.code.startswith(RECOMPILE):
            continue
        names = {change.expression for change in finding.changes}
        fitting = [candidate for candidate in tried.singles if names.intersection(candidate.remedies[0].addresses)]
        if tried.dynamic is not None and finding.code in SIZE_CHANGES:
            fitting.append(tried.dynamic)
        if tried.higher_limit is not None and finding.code == RECOMPILE_LIMIT:
            fitting.append(tried.higher_limit)
        found[finding.fingerprint] = [_remedy(candidate, finding) for candidate in fitting]
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
        place=_place_of(candidate.change),
    )


def _place_of(change: RunChange) -> SnippetPlace:
    """Where a person makes the change of a remedy."""
    if change.dynamic is not None:
        return SnippetPlace(where="compile")
    if change.marks or change.static or change.buffers:
        return SnippetPlace(where="first_call")
    is_each = change.tensors or change.contiguous or change.on_device
    return SnippetPlace(where="each_call") if is_each else _START
