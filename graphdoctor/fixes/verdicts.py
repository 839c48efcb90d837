"""What a trial of a fix means: break sites, recompiles and other counts of the program before and
after it.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import (
    VERIFIED,
    WORKING,
    LeftFinding,
    Reason,
    TriedFix,
    Verdict,
    because,
)
from graphdoctor.facts.kernels import CudaGraphs
from graphdoctor.facts.stack import parsed
from graphdoctor.fixes.patch import FileChange, LineMap, changed_parts
from graphdoctor.trials.judge import Observed, Untouched, differences_of

BREAK = "GD1"
"""What codes of graph breaks begin with."""

RECOMPILE = "GD2"
"""What codes of recompiles begin with."""

SKIPPED_FRAME = "GD111"
"""A function that torch skips because of a break in it; the break has its own finding."""

RECOMPILE_LIMIT = "GD201"
"""A function over its recompile limit; the values that changed have their own findings."""


CUDA_GRAPHS = "GD504"
"""Graphs that torch doesn't record as CUDA graphs."""

_COVERAGE_NOISE = 0.005

_DECIDED: frozenset[Verdict] = frozenset({"failed", "changes results", "makes it worse"})
"""Verdicts on results and limits that no effect on a finding changes."""

Reasons = tuple[Reason, ...]


@dataclass(frozen=True)
class Judgment:
    """The verdict of a trial on one finding.

    ``if_faster`` is the verdict if the call is faster with the fix; ``instead`` has fingerprints of
    the findings that a fix put in the place of its own.
    """

    verdict: Verdict
    reasons: Reasons = ()
    gone: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    if_faster: Verdict | None = None
    instead: tuple[str, ...] = ()


class ProgramChange:
    """Effect of a change of a program on its break sites and counts.

    Args:
        before: The program without the change; all sites are named by its lines.
        after: The program with it.
        maps: By file how lines of the two programs match.
        root: The folder that paths in findings are relative to.
    """

    def __init__(
        self, before: Observed, after: Observed, maps: Mapping[Path, LineMap], root: Path
    ) -> None:
        self._before, self._after, self._maps, self._root = before, after, maps, root
        self._was, self._now = before.measures, after.measures
        self.sites = {_site(finding, finding.location.line): finding for finding in _breaks(before)}
        self._sites_after = {}
        caused = set()
        for finding in _breaks(after):
            lines = maps.get(root / finding.location.file)
            line = finding.location.line
            file, start, cause = site = _site(finding, lines.to_before(line) if lines else line)
            if lines is not None and lines.is_changed_after(line):
                # Only the beginning of an edited range is known, so the same cause in it is the
                # same site.
                same = (
                    other
                    for other in self.sites
                    if (other[0], lines.range_start(other[1]), other[2]) == (file, start, cause)
                )
                site = next(same, site)
                caused.add(site)
            self._sites_after[site] = finding
        self._caused = caused
        self._gone = [self.sites[site] for site in self.sites if site not in self._sites_after]
        self._new = {
            site: finding for site, finding in self._sites_after.items() if site not in self.sites
        }

    def replacements(
        self, target: Finding, edits: Sequence[FileChange] | None = None
    ) -> list[Finding]:
        """New sites that the fix for a finding put in the place of its break.

        Args:
            target: The finding.
            edits: The fix's own, where the change has those of other fixes, too.

        A break from which torch resumed hid nothing in its function: torch traced what comes after
        it. A new site there, or on the call path to it, breaks because of the fix. Where torch gave
        up the rest of the function, at this break or at another that is gone, a new site may have
        been hidden; it is the fix's only in edited lines, or if it reads what the old line
        computed.
        """

        def is_beside(finding: Finding) -> bool:
            place, other = finding.location, target.location
            return (place.file, place.function) == (other.file, other.function)

        has_hidden = any(
            effect != "resumed"
            for finding in (target, *filter(is_beside, self._gone))
            for effect in finding.break_effects
        )
        path = {(self._root / entry.file, entry.line) for entry in target.user_stack}
        own = {(edit.path, line) for edit in edits or () for line in changed_parts(edit)}

        def is_its(site: tuple[str, int, str], finding: Finding) -> bool:
            at = (self._root / site[0], site[1])
            if site in self._caused:
                return edits is None or at in own
            is_near = is_beside(finding)
            return at in path or (is_near and (not has_hidden or self._reads_from(finding, target)))

        return [finding for site, finding in self._new.items() if is_its(site, finding)]

    def at_same_call(self, target: Finding) -> list[Finding]:
        """New sites at the call that a finding's break was at."""

        def column(finding: Finding) -> int | None:
            place = finding.location
            return None if place.column is None else place.column - (place.indent or 0)

        line, start = (target.location.file, target.location.line), column(target)
        return [
            finding
            for site, finding in self._new.items()
            if site[:2] == line and (start is None or column(finding) in (None, start))
        ]

    def _reads_from(self, finding: Finding, target: Finding) -> bool:
        lines = self._maps.get(self._root / finding.location.file)
        if lines is None:
            return False
        changed = {
            number
            for number in range(1, len(lines.after.splitlines()) + 1)
            if lines.is_changed_after(number) or lines.to_before(number) == target.location.line
        }
        return reads_from(lines.after, finding.location.line, changed)

    # Verdicts.

    def judge(
        self,
        target: Finding,
        reference: Untouched,
        *,
        contains: bool = False,
        edits: Sequence[FileChange] | None = None,
    ) -> Judgment:
        """Judge what the change, or the fix in it that has these edits, did to a finding."""
        whole = self._judge_whole(reference)
        if whole.verdict in _DECIDED:
            return whole
        is_verified = whole.verdict in VERIFIED
        effect, reasons = self._effect(target, contains=contains, edits=edits)
        if effect not in WORKING:
            is_step = effect == "moved" and is_verified
            instead = self.replacements(target, edits) if is_step else ()
            fingerprints = tuple(finding.fingerprint for finding in instead)
            return replace(whole, verdict=effect, reasons=reasons, instead=fingerprints)
        verdict = effect if whole.verdict == "verified" else whole.verdict
        if (loss := lost(self._was, self._now)) is not None:
            worse = replace(whole, verdict="makes it worse", reasons=(because("gone_but", loss),))
            return replace(worse, if_faster=verdict) if is_verified else worse
        return replace(whole, verdict=verdict, reasons=(*reasons, *whole.reasons))

    def judge_patch(self, reference: Untouched) -> Judgment:
        """Judge what the change did to the program as a whole, whatever finding it is for."""
        whole = self.judge_program(reference)
        if_faster = whole.verdict
        if if_faster not in VERIFIED or score(self._now) < score(self._was):
            return whole
        why = because("breaks_instead", *whole.new) if whole.new else because("nothing_better")
        verdict: Verdict = "moved" if whole.new else "no effect"
        reasons = (why, *whole.reasons)
        return replace(whole, verdict=verdict, reasons=reasons, if_faster=if_faster)

    def judge_program(self, reference: Untouched) -> Judgment:
        """Judge results, limits and how much is compiled, whatever became of findings."""
        whole = self._judge_whole(reference)
        loss = lost(self._was, self._now) if whole.verdict in VERIFIED else None
        if loss is None:
            return whole
        worse = replace(whole, verdict="makes it worse", reasons=(loss,))
        return replace(worse, if_faster=whole.verdict)

    def _judge_whole(self, reference: Untouched) -> Judgment:
        """Judge results and limits: ``VERIFIED`` if results are the same."""
        if not self._after.is_finished:
            return Judgment("failed", (self._after.failure,))
        expected = differences_of(self._before.recording)
        verdict, reasons = reference.judge(self._after.recording, expected=expected)
        gone = tuple(finding.site for finding in self._gone)
        new = tuple(finding.site for finding in self._new.values())
        is_over = self._now.frames_over_limit > self._was.frames_over_limit
        if verdict != "changes results" and is_over:
            return Judgment("makes it worse", (because("over_limit"),), gone, new)
        return Judgment(verdict, reasons, gone, new)

    def _effect(
        self, target: Finding, *, contains: bool, edits: Sequence[FileChange] | None
    ) -> tuple[Verdict, Reasons]:
        """Judge what became of the finding, whatever that costs and whatever the results are."""
        was, now = self._was, self._now
        if target.code.startswith(RECOMPILE):
            return self._effect_on_recompiles(target)
        if target.code == CUDA_GRAPHS:
            return self._effect_on_cuda_graphs(target)
        progress = _progress(was, now)
        if target.code == SKIPPED_FRAME or contains:
            is_skipped = target.code == SKIPPED_FRAME
            if is_skipped and now.skipped_frames < was.skipped_frames:
                return "verified", ()
            left = because("still_skipped" if is_skipped else "break_stays")
            if _is_more(now.coverage, was.coverage) or (
                now.coverage == was.coverage
                and now.graphs < was.graphs
                and now.break_sites <= was.break_sites
            ):
                return "contained", (because("but", left, progress),)
            nothing = left if is_skipped else because("and", left, because("nothing_improves"))
            return "no effect", (nothing,)
        if _site(target, target.location.line) in self._sites_after:
            return "no effect", (because("break_is_there"),)
        if not (replacements := self.replacements(target, edits)):
            return "verified", ()
        left = because("breaks_instead", *(finding.site for finding in replacements))
        # Coverage doesn't tell: it rises when torch captures the operation that broke, even if the
        # next line breaks for it.
        fewer, more = (
            (counts.skipped_frames, counts.break_sites, counts.graphs) for counts in (now, was)
        )
        if fewer != more and all(map(int.__le__, fewer, more)):
            return "contained", (because("but", left, progress),)
        return "moved", (left,)

    def _effect_on_recompiles(self, target: Finding) -> tuple[Verdict, Reasons]:
        was, now = self._was, self._now
        if target.code == RECOMPILE_LIMIT:
            is_gone = now.frames_over_limit < was.frames_over_limit
            reasons = (because("limit_stays"),) if now.frames_over_limit else ()
            return "verified" if is_gone else "no effect", reasons
        progress = because("recompiles", was.recompiles, now.recompiles)
        if (now.frames_over_limit, now.recompiles) >= (was.frames_over_limit, was.recompiles):
            return "no effect", (progress,)
        findings = self._after.diagnosis.findings
        counts = [other.count for other in findings if is_still_there(target, other)]
        if max(counts, default=0) >= target.count:
            return "no effect", (because("but", progress, because("cause_stays")),)
        return "verified", (progress,) if now.recompiles else ()

    def _effect_on_cuda_graphs(self, target: Finding) -> tuple[Verdict, Reasons]:
        """Judge by what torch says: it records more of the program, and skips or leaves out less
        for that reason.
        """
        was, now = self._before.recording.cuda_graphs, self._after.recording.cuda_graphs
        skip = target.cuda_graph_skip
        unknown = None in (was and was.captured, now and now.captured)
        if was is None or now is None or skip is None or unknown:
            return "unproven", (because("unknown_recording"),)
        recompiles = self._was.recompiles, self._now.recompiles
        if recompiles[1] > recompiles[0]:
            return "makes it worse", (because("recompiles", *recompiles),)
        if now.rerecordings > was.rerecordings:
            return "makes it worse", (because("rerecorded", now.rerecordings),)

        def count_skips(graphs: CudaGraphs) -> int:
            skips = (*graphs.skipped, *graphs.left_out)
            return sum(other.kind == skip.kind for other in skips)

        before, after = was.captured or 0, now.captured or 0
        is_recorded = (
            after > (before if len(now.skipped) < len(was.skipped) else 0)
            and (len(now.skipped), len(now.left_out)) < (len(was.skipped), len(was.left_out))
            and count_skips(now) < count_skips(was)
        )
        return "verified" if is_recorded else "no effect", (because("recorded", after, before),)


def is_break(finding: Finding | TriedFix | LeftFinding) -> bool:
    """Tell if it is about a site at which torch breaks."""
    return finding.code.startswith(BREAK) and finding.code != SKIPPED_FRAME


def is_still_there(finding: Finding, other: Finding) -> bool:
    """Tell if another program's finding is the same, also under the code of another rule: of
    recompiles, one of the same function for the same value.
    """
    if other.fingerprint == finding.fingerprint:
        return True
    return not _recompiled_values(finding).isdisjoint(_recompiled_values(other))


def _recompiled_values(finding: Finding) -> set[tuple[str | None, ...]]:
    """Collect the values that made torch recompile a function; empty for other findings."""
    # A class before the function's name is known only while the file is as it was.
    place, is_recompile = finding.location, finding.code.startswith(RECOMPILE)
    function = place.function.rpartition(".")[2]
    return {
        (place.file, function, change.kind, change.source, change.expression)
        for change in (finding.changes if is_recompile else ())
    }


def _breaks(observed: Observed) -> Iterator[Finding]:
    return filter(is_break, observed.diagnosis.findings)


def _site(finding: Finding, line: int) -> tuple[str, int, str]:
    """Name a break site by its file, its line in the program before the change, and its cause."""
    cause = finding.reasons[0].gb_type if finding.reasons else finding.code
    return finding.location.file, line, finding.torch_id or cause


def reads_from(source: bytes, line: int, origins: Collection[int]) -> bool:
    """Tell if a line reads what other lines of its function computed, directly or through names in
    between.
    """
    if (tree := parsed(source)) is None:
        return False
    function = innermost_function(tree, line) or tree
    parts = [_parts(node) for node in ast.walk(function) if isinstance(node, ast.stmt)]
    names = {name for lines, _, bound in parts if lines.intersection(origins) for name in bound}
    before = None
    while before != names:
        before = set(names)
        names.update(*(bound for _, read, bound in parts if before & read))
    return any(names & read for lines, read, _ in parts if line in lines)


def innermost_function(tree: ast.AST, line: int) -> ast.AST | None:
    """Find the innermost function around a line; None outside of functions."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno, default=None)


def _parts(statement: ast.stmt) -> tuple[set[int], set[str], set[str]]:
    """Return a statement's own lines, and the names and attributes that it reads and binds; an item
    binds its container.

    The lines of a compound statement are those of its head.
    """
    lines, read, bound = {statement.lineno}, set[str](), set[str]()
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        waiting += [
            child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)
        ]
        if isinstance(node, ast.expr):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            name = ast.unparse(node.value if isinstance(node, ast.Subscript) else node)
            if isinstance(node.ctx, ast.Load):
                read.add(name)
            elif isinstance(node.ctx, ast.Store):
                bound.add(name)
    if isinstance(statement, ast.AugAssign):
        target = ast.unparse(statement.target)
        read.add(target)
        bound.add(target)
    return lines, read, bound


def lost(was: Counts, now: Counts) -> Reason | None:
    """Say how less of a program is compiled than before; None if no less is.

    When one break goes, the next one in the function may be one that torch can't resume from: torch
    then skips the function until that one is gone too. More fixes have to show whether that is
    worth it.
    """
    if now.skipped_frames:
        return None
    is_redeemed = _is_more(now.coverage, was.coverage) or now.skipped_frames < was.skipped_frames
    has_more_graphs = now.graphs > was.graphs and not is_redeemed
    is_lost = has_more_graphs or _is_more(was.coverage, now.coverage)
    return _progress(was, now) if is_lost else None


def breaks_more(was: Counts, now: Counts) -> bool:
    """Tell if a program breaks at more lines or into more graphs, and torch doesn't trace for it
    what it had given up.
    """
    is_traced = now.skipped_frames < was.skipped_frames or now.break_sites < was.break_sites
    is_more = now.break_sites > was.break_sites or now.graphs > was.graphs
    return is_more and not (is_traced and _is_more(now.coverage, was.coverage))


def _is_more(share: float | None, other: float | None) -> bool:
    return share is not None and other is not None and share > other + _COVERAGE_NOISE


def _progress(was: Counts, now: Counts) -> Reason:
    if _is_more(was.coverage, now.coverage) or _is_more(now.coverage, was.coverage):
        return because("coverage", was.coverage, now.coverage)
    return because("graphs", was.graphs, now.graphs)


Score = tuple[int, int, int, int, int, int, int]
"""Lower is better: functions over their limit, percent outside graphs, skipped frames, less what
was mended, then the other counts."""


def score(measures: Counts, *, mended_count: int = 0) -> Score:
    """Score a program."""
    return (
        measures.frames_over_limit,
        round(100 * (1 - (measures.coverage or 0.0))),
        measures.skipped_frames,
        -mended_count,
        measures.break_sites,
        measures.recompiles,
        measures.graphs,
    )


def made_worse(best: Observed, last: Observed) -> Reason:
    """Say how a program is worse than the best one."""
    was, now = best.measures, last.measures
    for finding in last.diagnosis.findings if now.skipped_frames > was.skipped_frames else ():
        if names := finding.effects.skipped_frames:
            return because("skipped_by_next", names[0], finding.location.line)
    if _is_more(was.coverage, now.coverage):
        return _progress(was, now)
    counts = was.break_sites, now.break_sites, was.graphs, now.graphs
    return because("sites_and_graphs", *counts)
