"""What a trial means: break sites and recompiles before and after, and results compared with the untouched program.

Pure: recordings and diagnoses come in, a verdict goes out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.fixes import WORKING, Measures, Verdict
from graphdoctor.facts.kernels import CudaGraphs, CudaGraphSkip
from graphdoctor.facts.wording import counted, percents
from graphdoctor.fixes.rule_codes import CUDA_GRAPHS, RECOMPILE, RECOMPILE_LIMIT, SKIPPED_FRAME
from graphdoctor.fixes.sites import SiteChange, site_text
from graphdoctor.trials.judge import Observed, Untouched, clause, differences_of

_COVERAGE_NOISE = 0.005


@dataclass(frozen=True)
class Judgment:
    """What a trial of one fix means for one finding.

    Args:
        verdict: The verdict.
        reason: Why, as a clause; None if the verdict says it all.
        gone: Break sites that went away.
        new: Break sites that appeared.
        if_faster: The verdict if the call is faster although less of it is compiled; None if time can't change it.
        instead: Fingerprints of the breaks that took the place of the finding's, if more fixes can build on that.
    """

    verdict: Verdict
    reason: str | None
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
    """Judge what a fix did to a finding.

    Args:
        target: The finding of the program before.
        before: The program before.
        after: The program with the fix.
        reference: What is known about the untouched program's results.
        sites: The break sites of both programs.
        contains: Whether the fix is meant to contain the break, not to remove it.
        drops_output: Whether the fix makes the program print less on purpose.
    """
    if after.recording.exit.reason != "finished":
        return Judgment("failed", clause(after.recording.exit.message))
    known = differences_of(before.recording)
    verdict, reason = reference.judge(after.recording, drops_output=drops_output, known=known)
    if after.is_stopped:
        return Judgment(verdict, reason)
    gone, new = sites.gone_text, tuple(map(site_text, sites.new.values()))
    if verdict == "changes results":
        return Judgment(verdict, reason, gone, new)
    was, now = before.measures, after.measures
    if now.frames_over_limit > was.frames_over_limit:
        return Judgment("makes it worse", "a function hits its recompile limit with it", gone, new)
    effect, left = _effect(target, before, after, sites, contains=contains)
    if effect not in WORKING:
        is_step = effect == "moved" and verdict == "verified"
        instead = tuple(found.fingerprint for found in sites.replacements(target)) if is_step else ()
        return Judgment(effect, left, gone, new, instead=instead)
    if (loss := lost(was, now)) is not None:
        if_faster = effect if verdict == "verified" else None
        return Judgment("makes it worse", f"the finding is gone, but {loss}", gone, new, if_faster)
    reasons = [text for text in (left, reason) if text]
    return Judgment(effect if verdict == "verified" else verdict, "; ".join(reasons) or None, gone, new)


def _effect(
    target: Finding, before: Observed, after: Observed, sites: SiteChange, *, contains: bool
) -> tuple[Verdict, str | None]:
    """What a fix did to the finding, whatever it costs and whatever the results are, and a clause about it."""
    was, now = before.measures, after.measures
    if target.code.startswith(RECOMPILE):
        return _effect_on_recompiles(target, before, after)
    if target.code == CUDA_GRAPHS:
        return _effect_on_cuda_graphs(target, before, after)
    is_better = _is_more(now.coverage, was.coverage) or (
        now.coverage == was.coverage and now.graphs < was.graphs and now.break_sites <= was.break_sites
    )
    progress = _progress(was, now)
    if target.code == SKIPPED_FRAME:
        if now.skipped_frames < was.skipped_frames:
            return "verified", None
        left = f"a function is still skipped{', but ' + progress if is_better else ''}"
        return ("contained" if is_better else "no effect"), left
    if contains:
        left = f"the break stays, {'but ' + progress if is_better else 'and nothing else improves'}"
        return ("contained" if is_better else "no effect"), left
    if sites.is_left(target):
        return "no effect", "the break is still there"
    if replacements := sites.replacements(target):
        left = f"it breaks at {', '.join(map(site_text, replacements))} instead"
        return ("contained", f"{left}, but {progress}") if _has_fewer_breaks(was, now) else ("moved", left)
    return "verified", None


def _has_fewer_breaks(was: Measures, now: Measures) -> bool:
    """Whether the program returns to Python less often, or skips less.

    Coverage doesn't tell: it rises when torch captures the operation that broke, even if the next line breaks for it.
    """
    counts, earlier = ((one.skipped_frames, one.break_sites, one.graphs) for one in (now, was))
    return counts != earlier and all(count <= other for count, other in zip(counts, earlier, strict=True))


def lost(was: Measures, now: Measures) -> str | None:
    """How less of a program is compiled than before, as a clause; None if it isn't so.

    When one break goes, the next one in the function may be one that torch can't resume from: torch then skips the
    function until that one is gone too. More fixes have to show whether that is worth it.
    """
    if now.skipped_frames:
        return None
    if _is_more(was.coverage, now.coverage):
        return _progress(was, now)
    is_redeemed = _is_more(now.coverage, was.coverage) or now.skipped_frames < was.skipped_frames
    return _progress(was, now) if now.graphs > was.graphs and not is_redeemed else None


def _effect_on_recompiles(target: Finding, before: Observed, after: Observed) -> tuple[Verdict, str | None]:
    was, now = before.measures, after.measures
    if target.code == RECOMPILE_LIMIT:
        is_gone = now.frames_over_limit < was.frames_over_limit
        return ("verified" if is_gone else "no effect"), "the limit is still hit" if now.frames_over_limit else None
    counts = Counter({finding.fingerprint: finding.count for finding in after.diagnosis.findings})
    is_less = (now.frames_over_limit, now.recompiles) < (was.frames_over_limit, was.recompiles)
    progress = f"{counted(was.recompiles, 'recompile')} → {now.recompiles}"
    if not is_less:
        return "no effect", progress
    if counts[target.fingerprint] >= target.count:
        return "no effect", f"{progress}, but the cause is still there"
    return "verified", progress if now.recompiles else None


def _effect_on_cuda_graphs(target: Finding, before: Observed, after: Observed) -> tuple[Verdict, str | None]:
    """What torch itself says: it records more of the program, and skips or leaves out less for that reason."""
    was, now, skip = before.recording.cuda_graphs, after.recording.cuda_graphs, target.cuda_graph_skip
    if was is None or now is None or now.captured is None or was.captured is None or skip is None:
        return "unproven", "torch doesn't say which CUDA graphs it records"
    if after.measures.recompiles > before.measures.recompiles:
        return "makes it worse", f"{counted(before.measures.recompiles, 'recompile')} → {after.measures.recompiles}"
    if now.rerecordings > was.rerecordings:
        return "makes it worse", f"torch records {counted(now.rerecordings, 'CUDA graph')} again"
    recorded = f"torch records {counted(now.captured, 'CUDA graph')} with it, {was.captured} without"
    is_whole = len(now.skipped) < len(was.skipped)
    is_less = (len(now.skipped), len(now.left_out)) < (len(was.skipped), len(was.left_out))
    is_reason_less = _for_reason(now, skip) < _for_reason(was, skip)
    if not now.captured or not is_less or not is_reason_less or (is_whole and now.captured <= was.captured):
        return "no effect", recorded
    return "verified", recorded


def _for_reason(graphs: CudaGraphs, skip: CudaGraphSkip) -> int:
    """Graphs that aren't recorded for the reason of one of them, and operations that are left out for it."""
    return sum(each.kind == skip.kind for each in (*graphs.skipped, *graphs.left_out))


def _is_more(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and one > other + _COVERAGE_NOISE


def _progress(was: Measures, now: Measures) -> str:
    if was.coverage is not None and now.coverage is not None and abs(was.coverage - now.coverage) > _COVERAGE_NOISE:
        return "coverage goes from {} to {}".format(*percents(was.coverage, now.coverage))
    return f"{counted(was.graphs, 'graph')} → {now.graphs}"
