"""What a trial of a fix means: break sites, recompiles and other counts of the program before and
after it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from graphdoctor.facts.counts import Counts
from graphdoctor.facts.diagnosis import Diagnosis, Finding
from graphdoctor.facts.fixes import WORKING, Reason, Verdict, because
from graphdoctor.facts.kernels import CudaGraphs, CudaGraphSkip
from graphdoctor.facts.stack import parsed
from graphdoctor.fixes.patch import LineMap
from graphdoctor.trials.judge import Observed, Untouched, differences_of

BREAK = "GD1"
"""What codes of graph breaks begin with."""

RECOMPILE = "GD2"
"""What codes of recompiles begin with."""

SKIPPED_FRAME = "GD111"
"""A function that torch skips because of a break in it; the break has its own finding."""

RECOMPILE_LIMIT = "GD201"
"""A function over its recompile limit; the values that changed have their own findings."""

SIZE_CHANGES = frozenset({"GD202", "GD206", "GD207"})
"""Recompiles because a size changed: dynamic shapes may help."""

CUDA_GRAPHS = "GD504"
"""Graphs that torch doesn't record as CUDA graphs."""

REPEATED_BLOCKS = "GD401"
"""Modules that repeat in one graph; about the time of compiling, which counts don't show."""


SiteKey = tuple[str, int, str]
"""File, line in the program before the fix, and cause."""


@dataclass(frozen=True)
class SiteChange:
    """Break sites of two programs, all by lines of the first."""

    before: Mapping[SiteKey, Finding]
    after: Mapping[SiteKey, Finding]
    caused: frozenset[SiteKey]
    texts: Mapping[Path, bytes]
    maps: Mapping[Path, LineMap]
    root: Path

    @classmethod
    def between(
        cls,
        before: Diagnosis,
        after: Diagnosis,
        *,
        maps: Mapping[Path, LineMap],
        texts: Mapping[Path, bytes],
        root: Path,
    ) -> SiteChange:
        """Match the sites."""
        before_sites = {_key(finding, finding.location.line): finding for finding in _sites(before)}
        after_sites: dict[SiteKey, Finding] = {}
        caused = set()
        for finding in _sites(after):
            lines = maps.get(root / finding.location.file)
            line = finding.location.line
            key = _key(finding, lines.to_before(line) if lines else line)
            if lines is not None and lines.is_changed_after(line):
                # Only the beginning of an edited range is known, so the same cause in it is the
                # same site.
                file, start, cause = key
                same = (
                    item
                    for item in before_sites
                    if (item[0], lines.range_start(item[1]), item[2]) == (file, start, cause)
                )
                key = next(same, key)
                caused.add(key)
            after_sites[key] = finding
        return cls(before_sites, after_sites, frozenset(caused), texts, maps, root)

    @property
    def new(self) -> dict[SiteKey, Finding]:
        """Sites that appeared."""
        return {key: site for key, site in self.after.items() if key not in self.before}

    def replacements(self, target: Finding) -> list[Finding]:
        """New sites that the fix for a finding put in the place of its break.

        A break from which torch resumed hid nothing in its function: torch traced what comes after
        it. A new site there, or on the call path to it, breaks because of the fix. Where torch gave
        up the rest of the function, at this break or at another that is gone, a new site may have
        been hidden; it is the fix's only in edited lines, or if it reads what the old line
        computed.
        """
        gone = [
            site
            for key, site in self.before.items()
            if key not in self.after and _is_beside(site, target)
        ]
        has_hidden = any(
            effect != "resumed" for site in (target, *gone) for effect in site.break_effects
        )
        path = {(self.root / entry.file, entry.line) for entry in target.user_stack}
        return [
            site
            for key, site in self.new.items()
            if key in self.caused
            or (self.root / key[0], key[1]) in path
            or (
                _is_beside(site, target) and not (has_hidden and not self._reads_from(site, target))
            )
        ]

    def at_same_call(self, target: Finding) -> list[Finding]:
        """New sites at the call that a finding's break was at."""
        line = (target.location.file, target.location.line)
        at = _column(target)
        return [
            site
            for key, site in self.new.items()
            if key[:2] == line and (at is None or _column(site) in (None, at))
        ]

    def _reads_from(self, site: Finding, target: Finding) -> bool:
        path = self.root / site.location.file
        if path not in self.texts:
            return False
        origins = {target.location.line}
        if (lines := self.maps.get(path)) is not None:
            every = range(1, len(self.texts[path].splitlines()) + 1)
            origins = {
                number
                for number in every
                if lines.is_changed_after(number) or lines.to_before(number) == target.location.line
            }
        return reads_from(self.texts[path], site.location.line, origins)


def _column(finding: Finding) -> int | None:
    column = finding.location.column
    return None if column is None else column - (finding.location.indent or 0)


def _is_beside(site: Finding, target: Finding) -> bool:
    return (site.location.file, site.location.function) == (
        target.location.file,
        target.location.function,
    )


def _sites(diagnosis: Diagnosis) -> list[Finding]:
    return [
        finding
        for finding in diagnosis.findings
        if finding.code.startswith(BREAK) and finding.code != SKIPPED_FRAME
    ]


def _key(finding: Finding, line: int) -> SiteKey:
    cause = finding.reasons[0].gb_type if finding.reasons else finding.code
    return finding.location.file, line, finding.torch_id or cause


def reads_from(source: bytes, line: int, origins: Collection[int]) -> bool:
    """Tell if a line reads what other lines of its function computed, directly or through names in
    between.
    """
    if (tree := parsed(source)) is None:
        return False
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.lineno <= line <= (node.end_lineno or 0)
    ]
    function = max(around, key=lambda node: node.lineno, default=tree)
    parts = [_parts(node) for node in ast.walk(function) if isinstance(node, ast.stmt)]
    names = {name for lines, _, bound in parts if lines.intersection(origins) for name in bound}
    before = None
    while before != names:
        before = set(names)
        names.update(*(bound for _, read, bound in parts if before & read))
    return any(names & read for lines, read, _ in parts if line in lines)


def _parts(statement: ast.stmt) -> tuple[set[int], set[str], set[str]]:
    """Return a statement's own lines, and the names and attributes that it reads and binds; an item
    binds its container.

    The lines of a compound statement are those of its head.
    """
    lines = {statement.lineno}
    names: dict[type[ast.expr_context], set[str]] = {
        ast.Load: set(),
        ast.Store: set(),
        ast.Del: set(),
    }
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        waiting += [
            child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)
        ]
        if isinstance(node, ast.expr):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript)):
            names[type(node.ctx)].add(
                ast.unparse(node.value if isinstance(node, ast.Subscript) else node)
            )
    if isinstance(statement, ast.AugAssign):
        names[ast.Load].add(ast.unparse(statement.target))
        names[ast.Store].add(ast.unparse(statement.target))
    return lines, names[ast.Load], names[ast.Store]


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


def judge(
    target: Finding,
    before: Observed,
    after: Observed,
    reference: Untouched,
    *,
    sites: SiteChange,
    contains: bool,
    drops_output: bool,
) -> Judgment:
    """Judge what a fix did to a finding."""
    whole = _judge_whole(before, after, reference, sites=sites, drops_output=drops_output)
    if whole.verdict in _DECIDED:
        return whole
    effect, reasons = _effect(target, before, after, sites, contains=contains)
    is_verified = whole.verdict == "verified"
    if effect not in WORKING:
        is_step = effect == "moved" and is_verified
        instead = sites.replacements(target) if is_step else ()
        return replace(
            whole,
            verdict=effect,
            reasons=reasons,
            instead=tuple(finding.fingerprint for finding in instead),
        )
    if (loss := lost(before.measures, after.measures)) is not None:
        return replace(
            whole,
            verdict="makes it worse",
            reasons=(because("gone_but", loss),),
            if_faster=effect if is_verified else None,
        )
    verdict = effect if is_verified else whole.verdict
    return replace(whole, verdict=verdict, reasons=(*reasons, *whole.reasons))


def judge_patch(
    before: Observed, after: Observed, reference: Untouched, *, sites: SiteChange
) -> Judgment:
    """Judge what an edit did to a program as a whole, whatever finding it is for."""
    whole = _judge_whole(before, after, reference, sites=sites, drops_output=False)
    if whole.verdict != "verified":
        return whole
    was, now = before.measures, after.measures
    if (loss := lost(was, now)) is not None:
        return replace(whole, verdict="makes it worse", reasons=(loss,), if_faster="verified")
    scores = [score(counts, mended_count=0, is_outweighed=False) for counts in (was, now)]
    if scores[1] < scores[0]:
        return whole
    why = because("breaks_instead", *whole.new) if whole.new else because("nothing_better")
    return replace(
        whole,
        verdict="moved" if whole.new else "no effect",
        reasons=(why, *whole.reasons),
        if_faster="verified",
    )


def _judge_whole(
    before: Observed,
    after: Observed,
    reference: Untouched,
    *,
    sites: SiteChange,
    drops_output: bool,
) -> Judgment:
    """Judge a trial whatever its edit is for: ``verified`` if the results are the same."""
    if not after.is_finished:
        return Judgment("failed", (after.failure,))
    differences = differences_of(before.recording)
    verdict, reasons = reference.judge(
        after.recording, drops_output=drops_output, expected=differences
    )
    gone = tuple(finding.site for key, finding in sites.before.items() if key not in sites.after)
    new = tuple(finding.site for finding in sites.new.values())
    is_over = after.measures.frames_over_limit > before.measures.frames_over_limit
    if verdict != "changes results" and is_over:
        return Judgment("makes it worse", (because("over_limit"),), gone, new)
    return Judgment(verdict, reasons, gone, new)


def _effect(
    target: Finding, before: Observed, after: Observed, sites: SiteChange, *, contains: bool
) -> tuple[Verdict, Reasons]:
    """Judge what a fix did to the finding, whatever it costs and whatever the results are."""
    was, now = before.measures, after.measures
    if target.code.startswith(RECOMPILE):
        return _effect_on_recompiles(target, before, after)
    if target.code == CUDA_GRAPHS:
        return _effect_on_cuda_graphs(target, before, after)
    is_better = _is_more(now.coverage, was.coverage) or (
        now.coverage == was.coverage
        and now.graphs < was.graphs
        and now.break_sites <= was.break_sites
    )
    better: Verdict = "contained" if is_better else "no effect"
    if target.code == SKIPPED_FRAME:
        if now.skipped_frames < was.skipped_frames:
            return "verified", ()
        left = because("still_skipped")
        return better, (_but(left, _progress(was, now)) if is_better else left,)
    if contains:
        left = because("break_stays")
        nothing = because("and", left, because("nothing_improves"))
        return better, (_but(left, _progress(was, now)) if is_better else nothing,)
    if _key(target, target.location.line) in sites.after:
        return "no effect", (because("break_is_there"),)
    if replacements := sites.replacements(target):
        left = because("breaks_instead", *(finding.site for finding in replacements))
        if _has_fewer_breaks(was, now):
            return "contained", (_but(left, _progress(was, now)),)
        return "moved", (left,)
    return "verified", ()


def _but(left: Reason, right: Reason) -> Reason:
    return because("but", left, right)


def _has_fewer_breaks(was: Counts, now: Counts) -> bool:
    """Tell if the program returns to Python less often, or skips less.

    Coverage doesn't tell: it rises when torch captures the operation that broke, even if the next
    line breaks for it.
    """
    fewer, more = (
        (counts.skipped_frames, counts.break_sites, counts.graphs) for counts in (now, was)
    )
    return fewer != more and all(map(int.__le__, fewer, more))


def lost(was: Counts, now: Counts) -> Reason | None:
    """Say how less of a program is compiled than before; None if no less is.

    When one break goes, the next one in the function may be one that torch can't resume from: torch
    then skips the function until that one is gone too. More fixes have to show whether that is
    worth it.
    """
    if now.skipped_frames:
        return None
    if _is_more(was.coverage, now.coverage):
        return _progress(was, now)
    is_redeemed = _is_more(now.coverage, was.coverage) or now.skipped_frames < was.skipped_frames
    return _progress(was, now) if now.graphs > was.graphs and not is_redeemed else None


def _effect_on_recompiles(
    target: Finding, before: Observed, after: Observed
) -> tuple[Verdict, Reasons]:
    was, now = before.measures, after.measures
    if target.code == RECOMPILE_LIMIT:
        is_gone = now.frames_over_limit < was.frames_over_limit
        reasons = (because("limit_stays"),) if now.frames_over_limit else ()
        return "verified" if is_gone else "no effect", reasons
    counts = Counter({finding.fingerprint: finding.count for finding in after.diagnosis.findings})
    is_less = (now.frames_over_limit, now.recompiles) < (was.frames_over_limit, was.recompiles)
    progress = because("recompiles", was.recompiles, now.recompiles)
    if not is_less:
        return "no effect", (progress,)
    if counts[target.fingerprint] >= target.count:
        return "no effect", (_but(progress, because("cause_stays")),)
    return "verified", (progress,) if now.recompiles else ()


def _effect_on_cuda_graphs(
    target: Finding, before: Observed, after: Observed
) -> tuple[Verdict, Reasons]:
    """Judge by what torch says: it records more of the program, and skips or leaves out less for
    that reason.
    """
    was, now = before.recording.cuda_graphs, after.recording.cuda_graphs
    skip = target.cuda_graph_skip
    if was is None or now is None or now.captured is None or was.captured is None or skip is None:
        return "unproven", (because("unknown_recording"),)
    recompiles = before.measures.recompiles, after.measures.recompiles
    if recompiles[1] > recompiles[0]:
        return "makes it worse", (because("recompiles", *recompiles),)
    if now.rerecordings > was.rerecordings:
        return "makes it worse", (because("rerecorded", now.rerecordings),)
    is_whole = len(now.skipped) < len(was.skipped)
    is_less = (len(now.skipped), len(now.left_out)) < (len(was.skipped), len(was.left_out))
    is_recorded = (
        now.captured > 0
        and is_less
        and _count_of(now, skip) < _count_of(was, skip)
        and not (is_whole and now.captured <= was.captured)
    )
    recorded = because("recorded", now.captured, was.captured)
    return "verified" if is_recorded else "no effect", (recorded,)


def _count_of(graphs: CudaGraphs, skip: CudaGraphSkip) -> int:
    return sum(item.kind == skip.kind for item in (*graphs.skipped, *graphs.left_out))


def _is_more(share: float | None, other: float | None) -> bool:
    return share is not None and other is not None and share > other + _COVERAGE_NOISE


def _progress(was: Counts, now: Counts) -> Reason:
    if (
        was.coverage is not None
        and now.coverage is not None
        and abs(was.coverage - now.coverage) > _COVERAGE_NOISE
    ):
        return because("coverage", was.coverage, now.coverage)
    return because("graphs", was.graphs, now.graphs)


Score = tuple[int, int, int, int, int, int, int]
"""Lower is better: functions over their limit, percent outside graphs, skipped frames, less what
was mended, then the other counts."""


def score(measures: Counts, *, mended_count: int, is_outweighed: bool) -> Score:
    """Score a program."""
    coverage = 1.0 if is_outweighed else measures.coverage or 0.0
    return (
        measures.frames_over_limit,
        round(100 * (1 - coverage)),
        measures.skipped_frames,
        -mended_count,
        measures.break_sites,
        measures.recompiles,
        measures.graphs,
    )


def is_less_compiled(now: Score, was: Score) -> bool:
    """Tell if one score is worse in what is compiled, whatever it counts of breaks."""
    return now[:3] > was[:3]


def made_worse(best: Observed, last: Observed) -> Reason:
    """Say how a program is worse than the best one."""
    was, now = best.measures, last.measures
    if now.skipped_frames > was.skipped_frames:
        findings = last.diagnosis.findings
        finding = next((item for item in findings if item.effects.skipped_frames), None)
        if finding is None:
            return because("skipped")
        values = finding.effects.skipped_frames[0], finding.location.line
        return because("skipped_by_next", *values)
    if was.coverage is not None and now.coverage is not None and now.coverage < was.coverage:
        return because("coverage_drops", was.coverage, now.coverage)
    if (now.break_sites, now.graphs) == (was.break_sites, was.graphs):
        return because("another_break", now.break_sites, now.graphs)
    counts = was.break_sites, now.break_sites, was.graphs, now.graphs
    return because("sites_and_graphs", *counts)
