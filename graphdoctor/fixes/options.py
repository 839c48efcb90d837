"""From a finding to what can be tried for it: edits of source, torch settings, changes of the call.

Files of other packages are never edited.
"""

from __future__ import annotations

import ast
import contextlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from graphdoctor.facts.base import values_of
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.fixes import DeclinedEdits
from graphdoctor.facts.reading import write_fact
from graphdoctor.facts.run import Setting
from graphdoctor.fixes.patch import Candidate, FileChange, Options
from graphdoctor.fixes.recipe import Place, UnlearnedError, traced_path
from graphdoctor.fixes.recipes import recipes_for
from graphdoctor.fixes.run_changes import call_fix, cuda_graph_fixes, recompile_fixes, setting_fix
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile, decline_if
from graphdoctor.fixes.verdicts import (
    BREAK,
    RECOMPILE,
    RECOMPILE_LIMIT,
    SIZE_CHANGES,
    SKIPPED_FRAME,
)
from graphdoctor.fixes.wrapping import wrapped
from graphdoctor.probe.wire import DECLINED_FILE
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.diagnosis.verdicts import with_verdicts
from graphdoctor.trials.judge import Observed
from graphdoctor.trials.program import Program, RunChange
from graphdoctor.trials.replays import EqualSizes

_NESTED_BREAKS = Setting(name="torch._dynamo.config.nested_graph_breaks", value=True)


def treated_findings(observed: Observed, selection: Selection) -> list[Finding]:
    """List the findings of a program that fixes are for and that the user selected."""
    return [
        finding
        for finding in filter(selection.keeps, observed.diagnosis.findings)
        if finding.is_treatable and not finding.code.startswith("GD4")
    ]


class Sources:
    """The user's files as a program has them; each is read from disk once, even if it changes there
    later.
    """

    def __init__(
        self,
        program: Program,
        root: Path,
        originals: dict[Path, bytes],
        equal_sizes: EqualSizes | None = None,
    ) -> None:
        self._program = program
        self.equal_sizes: EqualSizes | None = equal_sizes or {}
        self.root = root
        self._originals = originals
        self._parsed: dict[Path, SourceFile] = {}

    def file_of(self, finding: Finding) -> SourceFile:
        """Read the file that a finding is in."""
        path = self.root / finding.location.file
        if path not in self._parsed:
            content = self._program.content.get(path, self._originals.get(path))
            source = SourceFile.read(path) if content is None else SourceFile.parse(path, content)
            self._originals.setdefault(path, source.content)
            self._parsed[path] = source
        decline_if(not _is_line(self._parsed[path], finding), f"{path.name} changed since the run")
        return self._parsed[path]


def _is_line(source: SourceFile, finding: Finding) -> bool:
    text = finding.location.text
    # str.splitlines splits at more characters than Python does, such as a form feed.
    lines = re.split(r"\r\n|\r|\n", source.tree.code)
    number = finding.location.line
    return text is None or (number <= len(lines) and lines[number - 1].strip() == text.strip())


def options_for(observed: Observed, sources: Sources, selection: Selection) -> list[Options]:
    """List what can be tried for each finding about breaks, recompiles and CUDA graphs."""
    findings = treated_findings(observed, selection)
    changes = _changes_of_run(observed, findings)
    offered = []
    for finding in findings:
        edits, declined = _edits(finding, sources)
        settings = [
            setting_fix(fix.setting, fix.title, is_safe=fix.is_safe, targets=(finding.fingerprint,))
            for fix in finding.fixes
            if fix.setting is not None
        ]
        fixes = [*(edit for edit in edits if edit.is_safe), *changes.get(finding.fingerprint, [])]
        fixes += [*(edit for edit in edits if not edit.is_safe), *settings]
        # What keeps every line comes before what drops some.
        fixes.sort(key=lambda fix: (fix.drops_output, not fix.is_safe))
        fixes += _containing(finding, sources.root)
        offered.append(
            Options(
                finding,
                tuple(_distinct(fixes)),
                tuple(dict.fromkeys(error.reason for error in declined)),
            )
        )
    return offered


def with_declined(diagnosis: Diagnosis, folder: Path, root: Path) -> Diagnosis:
    """Add to a recording's diagnosis why ``fix`` would write no edit, where that is certain without
    a trial.

    The reasons are kept in the recording for who reads it later.
    """
    sources = Sources(Program(), root, {})
    sources.equal_sizes = None
    reasons = {}
    for finding in treated_findings(Observed(diagnosis.recording, diagnosis), Selection()):
        # Where it depends on what only trials learn, nothing is certain.
        with contextlib.suppress(UnlearnedError, RecursionError):
            candidates, declined = _edits(finding, sources, is_one_enough=True)
            if declined and not candidates and declined[0].kind != "elsewhere":
                reasons[finding.fingerprint] = declined[0].reason
    if not reasons:
        return diagnosis
    edits = DeclinedEdits(reasons=reasons)
    with contextlib.suppress(OSError):
        write_fact(edits, folder / DECLINED_FILE)
    recording = diagnosis.recording.replace(declined=edits)
    return diagnosis.replace(
        recording=recording, findings=tuple(with_verdicts(diagnosis.findings, recording))
    )


def _distinct(fixes: Sequence[Candidate]) -> list[Candidate]:
    kept: list[Candidate] = []
    for fix in fixes:
        if not any(fix.is_same(other) for other in kept):
            kept.append(fix)
    return kept


def _edits(
    finding: Finding, sources: Sources, *, is_one_enough: bool = False
) -> tuple[list[Candidate], list[DeclinedError]]:
    finding = _in_own_code(finding)
    if finding.location.origin != "user":
        package = finding.location.package or "Python itself"
        return [], [DeclinedError(f"the line belongs to {package}, whose files aren't edited")]
    try:
        source = sources.file_of(finding)
    except DeclinedError as error:
        return [], [error]
    candidates, declined = list[Candidate](), list[DeclinedError]()
    for recipe in recipes_for(finding.code):
        if candidates and is_one_enough:
            break
        try:
            edit = recipe.edit(Place(source, finding, sources.equal_sizes))
        except DeclinedError as error:
            declined += [] if error.kind == "another_line" else [error]
            continue
        except UnicodeEncodeError:
            encoding = f"{source.path.name} is encoded in {source.tree.encoding}"
            declined.append(DeclinedError(f"{encoding}, which can't encode the edit"))
            continue
        candidates.append(
            Candidate(
                **values_of(
                    edit, "title", "is_safe", "drops_output", "reached", "moved_out", "raised"
                ),
                kind="code",
                targets=(finding.fingerprint,),
                edits=(
                    FileChange(
                        source.path,
                        source.content,
                        wrapped(source.content, edit.content, source.path),
                    ),
                ),
                contains=not recipe.removes,
            )
        )
    # A recipe for something else says least of why this isn't fixed.
    return candidates, sorted(declined, key=lambda error: error.kind == "elsewhere")


def _in_own_code(finding: Finding) -> Finding:
    """Return the finding, at the user's own block if that is why a break in a package makes torch
    skip a function.

    In a function of its own, the block is all that torch skips; breaks that the user's code has
    after it then show.
    """
    if finding.code != SKIPPED_FRAME or finding.location.origin == "user":
        return finding
    block = next(
        (place for place in finding.related if place.origin == "user" and place.text is not None),
        None,
    )
    return finding if block is None else finding.replace(location=block)


def _containing(finding: Finding, root: Path) -> Iterator[Candidate]:
    if finding.code.startswith(BREAK) and len(traced_path(finding)) > 1:
        title = "Let torch break inside the called function, without breaking its callers"
        yield setting_fix(_NESTED_BREAKS, title, targets=(finding.fingerprint,), contains=True)
    if (wrapper := _wrapper(finding, root)) is not None:
        yield wrapper


def _wrapper(finding: Finding, root: Path) -> Candidate | None:
    location = finding.location
    if (
        not finding.code.startswith(BREAK)
        or location.origin != "third_party"
        or not location.package
    ):
        return None
    _, in_package, rest = location.file.replace("\\", "/").rpartition(f"/{location.package}/")
    parts = [location.package, *rest.removesuffix(".py").split("/")]
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    if not in_package or not all(part.isidentifier() for part in parts):
        return None
    if not _is_attribute(root / location.file, location.function):
        return None
    module = ".".join(parts)
    name = f"{module}.{location.function}"
    lines = f"import {module}\n{name} = torch.compiler.disable({name})"
    title = f"Keep `{location.function}` of {location.package} outside the compiled function"
    fix = call_fix("", title, RunChange(setup=(lines,)), snippet=lines)
    return replace(fix, targets=(finding.fingerprint,), contains=True)


def _is_attribute(path: Path, name: str) -> bool:
    try:
        body = ast.parse(path.read_bytes()).body
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    *classes, function = name.split(".")
    for part in classes:
        inner = next(
            (node for node in body if isinstance(node, ast.ClassDef) and node.name == part), None
        )
        if inner is None:
            return False
        body = inner.body
    return any(
        isinstance(node, ast.FunctionDef) and node.name == function and not node.decorator_list
        for node in body
    )


def _changes_of_run(observed: Observed, findings: Sequence[Finding]) -> dict[str, list[Candidate]]:
    fixes_for = {
        finding.fingerprint: list(cuda_graph_fixes(finding.cuda_graph_skip, observed.recording))
        for finding in findings
        if finding.cuda_graph_skip is not None
    }
    tried = recompile_fixes(observed.recording)
    for finding in findings:
        if tried is None or not finding.code.startswith(RECOMPILE):
            continue
        names = {change.expression for change in finding.changes}
        fitting = [fix for fix in tried.singles if names.intersection(fix.addresses)]
        if tried.dynamic is not None and finding.code in SIZE_CHANGES:
            fitting.append(tried.dynamic)
        if tried.higher_limit is not None and finding.code == RECOMPILE_LIMIT:
            fitting.append(tried.higher_limit)
        fixes_for[finding.fingerprint] = fitting
    return {
        name: [replace(fix, targets=(name,)) for fix in fixes] for name, fixes in fixes_for.items()
    }
