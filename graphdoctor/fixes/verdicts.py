"""What a trial means: break sites and recompiles before and after, and results compared with the untouched program.

Pure: recordings and diagnoses come in, a verdict goes out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from graphdoctor.fixes.rule_codes import RECOMPILE, RECOMPILE_LIMIT, SKIPPED_FRAME
from graphdoctor.fixes.sites import SiteChange, site_text
from graphdoctor.model.diagnosis import Diagnosis, Finding
from graphdoctor.model.fixes import WORKING, Measures, Verdict
from graphdoctor.model.recording import Recording
from graphdoctor.model.trials import Comparison, Difference, ResultKind
from graphdoctor.model.wording import counted, percents

_COVERAGE_NOISE = 0.005


@dataclass(frozen=True)
class Observed:
    """What one replay showed.

    Args:
        recording: The facts.
        diagnosis: What they mean.
        name: The replay's name; None for the recorded run.
    """

    recording: Recording
    diagnosis: Diagnosis
    name: str | None = None

    @property
    def measures(self) -> Measures:
        """The counts."""
        summary = self.diagnosis.summary
        return Measures(
            break_sites=summary.break_sites,
            skipped_frames=summary.skipped_frames,
            graphs=summary.graphs,
            compiles=summary.compiles,
            recompiles=summary.recompiles,
            frames_over_limit=summary.frames_over_limit,
            coverage=summary.coverage,
            compile_time_s=summary.compile_time_s,
        )


@dataclass(frozen=True)
class Reference:
    """What is known about the untouched program's results.

    Args:
        unstable: Kinds of results that differ between two runs without torch.compile.
        compiled_differs: Kinds that torch.compile changes without any fix.
        is_known: Whether the program ran twice without torch.compile.
    """

    unstable: frozenset[ResultKind] = frozenset()
    compiled_differs: frozenset[ResultKind] = frozenset()
    is_known: bool = True


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
    reference: Reference,
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
        return Judgment("failed", _failure(after))
    gone, new = sites.gone_text, tuple(map(site_text, sites.new.values()))
    verdict, reason = judge_results(after.recording, reference, drops_output=drops_output)
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
    if now.skipped_frames > was.skipped_frames:
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


def _is_more(one: float | None, other: float | None) -> bool:
    return one is not None and other is not None and one > other + _COVERAGE_NOISE


def _progress(was: Measures, now: Measures) -> str:
    if was.coverage is not None and now.coverage is not None and abs(was.coverage - now.coverage) > _COVERAGE_NOISE:
        return "coverage goes from {} to {}".format(*percents(was.coverage, now.coverage))
    return f"{counted(was.graphs, 'graph')} → {now.graphs}"


def judge_results(recording: Recording, reference: Reference, *, drops_output: bool) -> tuple[Verdict, str | None]:
    """Whether a finished trial computed what the untouched program computes.

    Args:
        recording: The trial.
        reference: What is known about the untouched program's results.
        drops_output: Whether the fix makes the program print less on purpose.

    Returns:
        ``verified``, ``changes results`` or ``unproven``, and why.
    """
    compared = recording.replay.compared if recording.replay else {}
    eager = compared.get("eager")
    if eager is None or not reference.is_known:
        return "unproven", "the program didn't return results in two runs without torch.compile"
    untouched = (
        {difference.kind for difference in compared["untouched"].differences} if "untouched" in compared else set()
    )
    doubts: list[str] = []
    for difference in eager.differences:
        if difference.kind in reference.unstable:
            continue
        if difference.kind == "stdout" and drops_output:
            continue
        if difference.kind not in reference.compiled_differs:
            return "changes results", described(difference)
        if difference.kind in untouched:
            doubts.append(
                f"torch.compile changes {_kind(difference.kind)} even without the fix; with it, {described(difference)}"
            )
    if reference.unstable:
        kinds = " and ".join(_kind(kind) for kind in sorted(reference.unstable))
        doubts.insert(0, f"{kinds} differ from run to run without torch.compile")
    if doubts:
        return "unproven", "; ".join(doubts)
    return "verified", _note(eager, drops_output=drops_output)


def _note(compared: Comparison, *, drops_output: bool) -> str | None:
    dropped = next((d for d in compared.differences if d.kind == "stdout"), None)
    notes = [compared.note] if compared.note else []
    if dropped is not None and drops_output:
        notes.append(f"the compiled program prints {dropped.detail}")
    return "; ".join(notes) or None


def described(difference: Difference) -> str:
    """A difference in words, such as ``gradient of x in call 1 differs by 0.3``."""
    if difference.largest is not None:
        return f"{difference.where} differs by {difference.largest:.3g}"
    return f"{difference.where}: {difference.detail or 'differs'}"


def _kind(kind: ResultKind) -> str:
    return "printed text" if kind == "stdout" else kind


def _failure(after: Observed) -> str:
    return (after.recording.exit.message or "the trial didn't finish").rstrip(".")


def differing_kinds(comparisons: Sequence[Comparison | None]) -> frozenset[ResultKind]:
    """Kinds of results that differ in at least one of several comparisons."""
    return frozenset(
        difference.kind for compared in comparisons if compared is not None for difference in compared.differences
    )
