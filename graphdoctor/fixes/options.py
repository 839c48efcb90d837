"""From a finding to what can be tried for it: edits of source, torch settings, changes of the call.

Files of other packages are never edited.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from graphdoctor.facts.base import values_of
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.fixes import DeclinedEdits
from graphdoctor.facts.reading import write_fact
from graphdoctor.fixes.moves.registry import recipes_for
from graphdoctor.fixes.patch import Candidate, FileChange, Options, compatible, with_fixes
from graphdoctor.fixes.recipe import Edit, Place, UnlearnedError, traced_path
from graphdoctor.fixes.run_changes import (
    RecompileFixes,
    cuda_graph_fixes,
    dynamo_setting,
    recompile_fixes,
    setting_fix,
)
from graphdoctor.fixes.source.tree import DeclinedError, SourceFile, decline_if
from graphdoctor.fixes.verdicts import BREAK, RECOMPILE, RECOMPILE_LIMIT, SKIPPED_FRAME
from graphdoctor.fixes.wrapping import wrapped
from graphdoctor.probe.wire import DECLINED_FILE
from graphdoctor.rules.diagnosis.selection import Selection
from graphdoctor.rules.diagnosis.verdicts import with_verdicts
from graphdoctor.trials.judge import Observed
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import EqualSizes, Way


def treated_findings(observed: Observed, selection: Selection) -> list[Finding]:
    """List the findings of a program that fixes are for and that the user selected."""
    return [
        finding
        for finding in filter(selection.keeps, observed.diagnosis.findings)
        if finding.is_treatable
    ]


class Sources:
    """The user's files as a program has them; each is read from disk once, even if it changes there
    later. ``equal_sizes`` is None if nothing was run to learn them.
    """

    def __init__(
        self,
        program: Program,
        root: Path,
        originals: dict[Path, bytes],
        equal_sizes: EqualSizes | None = {},  # noqa: B006 - never changed
    ) -> None:
        self._program = program
        self.equal_sizes, self.root = equal_sizes, root
        self._originals = originals
        self._parsed: dict[Path, SourceFile] = {}

    def file_of(self, finding: Finding) -> SourceFile:
        """Read the file that a finding is in."""
        path, place = self.root / finding.location.file, finding.location
        if path not in self._parsed:
            content = self._program.content.get(path, self._originals.get(path))
            source = SourceFile.read(path) if content is None else SourceFile.parse(path, content)
            self._originals.setdefault(path, source.content)
            self._parsed[path] = source
        # str.splitlines splits at more characters than Python does, such as a form feed.
        lines = re.split(r"\r\n|\r|\n", self._parsed[path].tree.code)[place.line - 1 :]
        is_there = place.text is None or [place.text.strip()] == [
            line.strip() for line in lines[:1]
        ]
        decline_if(not is_there, f"{path.name} changed since the run")
        return self._parsed[path]


def options_for(observed: Observed, sources: Sources, selection: Selection) -> list[Options]:
    """List what can be tried for each finding about breaks, recompiles and CUDA graphs."""
    recompiles = recompile_fixes(observed.recording)
    offered = []
    edited = [
        (finding, *_edits(finding, sources)) for finding in treated_findings(observed, selection)
    ]
    joint = _joined([edit for _, edits, _ in edited for edit in edits if edit.is_joint])
    for finding, alone, declined in edited:
        edits = [joint if joint and edit.is_joint else edit for edit in alone]
        fixes = [edit for edit in edits if edit.is_safe]
        if finding.cuda_graph_skip is not None:
            fixes += cuda_graph_fixes(finding.cuda_graph_skip, observed.recording)
        if recompiles is not None and finding.code.startswith(RECOMPILE):
            fixes += _for_recompile(finding, recompiles)
        fixes += [edit for edit in edits if not edit.is_safe]
        fixes += [
            setting_fix(fix.setting, fix.title, is_safe=fix.is_safe)
            for fix in finding.fixes
            if fix.setting is not None
        ]
        if finding.code.startswith(BREAK) and len(traced_path(finding)) > 1:
            title = "Let torch break inside the called function, without breaking its callers"
            fixes.append(setting_fix(dynamo_setting("nested_graph_breaks"), title, contains=True))
        fixes.sort(key=lambda fix: fix.rank)
        distinct = tuple(
            replace(fix, targets=(finding.fingerprint,))
            for at, fix in enumerate(fixes)
            if not any(fix.is_same(other) for other in fixes[:at])
        )
        reasons = tuple(dict.fromkeys(error.reason for error in declined))
        offered.append(Options(finding, distinct, reasons))
    return offered


def with_declined(diagnosis: Diagnosis, folder: Path, root: Path) -> Diagnosis:
    """Add to a recording's diagnosis why ``fix`` would write no edit, where that is certain without
    a trial.

    The reasons are kept in the recording for who reads it later.
    """
    sources, reasons = Sources(Program(), root, {}, equal_sizes=None), {}
    for finding in treated_findings(Observed(diagnosis.recording, diagnosis), Selection()):
        # Where it depends on what only trials learn, nothing is certain.
        with contextlib.suppress(UnlearnedError, RecursionError):
            edits, declined = _edits(finding, sources, is_one_enough=True)
            if declined and not edits and declined[0].kind != "elsewhere":
                reasons[finding.fingerprint] = declined[0].reason
    if not reasons:
        return diagnosis
    declined_edits = DeclinedEdits(reasons=reasons)
    with contextlib.suppress(OSError):
        write_fact(declined_edits, folder / DECLINED_FILE)
    recording = diagnosis.recording.replace(declined=declined_edits)
    findings = tuple(with_verdicts(diagnosis.findings, recording))
    return diagnosis.replace(recording=recording, findings=findings)


def _edits(
    finding: Finding, sources: Sources, *, is_one_enough: bool = False
) -> tuple[list[Candidate], list[DeclinedError]]:
    if finding.code == SKIPPED_FRAME and finding.location.origin != "user":
        # If the user's own block is why a break in a package makes torch skip a function: in a
        # function of its own, the block is all that torch skips; breaks after it then show.
        blocks = (place for place in finding.related if place.origin == "user" and place.text)
        finding = finding.replace(location=next(blocks, finding.location))
    if finding.location.origin != "user":
        package = finding.location.package or "Python itself"
        return [], [DeclinedError(f"the line belongs to {package}, whose files aren't edited")]
    try:
        source = sources.file_of(finding)
    except DeclinedError as error:
        return [], [error]
    candidates, declined = list[Candidate](), list[DeclinedError]()
    path, before = source.path, source.content
    for recipe in recipes_for(finding.code):
        if candidates and is_one_enough:
            break
        try:
            edit = recipe.edit(Place(source, finding, sources.equal_sizes))
        except DeclinedError as error:
            declined += [] if error.kind == "another_line" else [error]
        except UnicodeEncodeError:
            encoding = f"{path.name} is encoded in {source.tree.encoding}"
            declined.append(DeclinedError(f"{encoding}, which can't encode the edit"))
        else:
            shared = ("title", "is_safe", "drops_output", "redraws", "is_joint")
            candidates.append(
                Candidate(
                    **values_of(edit, *shared),
                    kind="code",
                    needs=tuple(_needs(edit, path)),
                    edits=(FileChange(path, before, wrapped(before, edit.content, path)),),
                )
            )
    # A recipe for something else says least of why this isn't fixed.
    return candidates, sorted(declined, key=lambda error: error.kind == "elsewhere")


def _needs(edit: Edit, path: Path) -> Iterator[tuple[Way, Path, int]]:
    yield from (("reached", path, line) for line in edit.reached)
    if edit.skipped is not None:
        yield "skipped", path, edit.skipped
    if edit.raised is not None:
        yield "raised", path, edit.raised


def _joined(fixes: list[Candidate]) -> Candidate | None:
    """Make one fix of those that are right only together; None if there are none."""
    if not fixes:
        return None
    fixes = compatible(fixes)
    before = {edit.path: edit.before for fix in fixes for edit in fix.edits}
    after = with_fixes(Program(), fixes).content
    return replace(
        fixes[0],
        title="; ".join(dict.fromkeys(fix.title for fix in fixes)),
        edits=tuple(FileChange(path, text, after[path]) for path, text in before.items()),
        needs=tuple(dict.fromkeys(need for fix in fixes for need in fix.needs)),
    )


def _for_recompile(finding: Finding, recompiles: RecompileFixes) -> Iterator[Candidate]:
    values = {change.expression for change in finding.changes}
    yield from (fix for fix in recompiles.singles if values.intersection(fix.addresses))
    if recompiles.higher_limit is not None and finding.code == RECOMPILE_LIMIT:
        yield recompiles.higher_limit
