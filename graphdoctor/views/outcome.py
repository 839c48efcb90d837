"""What the fixes that were tried changed, in one sentence that all views share.

Comes in: a treatment. Goes out: text without markup. Whatever wasn't measured isn't claimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from graphdoctor.facts.fixes import deciding
from graphdoctor.facts.wording import speed_text
from graphdoctor.views.words import SAME_SPEED, measured_speed, share_changes

if TYPE_CHECKING:
    from graphdoctor.facts.counts import Counts
    from graphdoctor.facts.fixes import Treatment, TriedFix, UntriedCause
    from graphdoctor.facts.recording import TargetInfo

_UNTRIED: dict[UntriedCause, str] = {
    "unfinished_run": "the run didn't finish, so nothing was tried",
    "not_requested": "trials are off",
    "not_repeatable": "the run couldn't be repeated, so nothing was tried",
}
"""Why nothing was tried, as a clause; all fixes of a treatment have the same cause, but for the unsafe ones."""


def outcome(treatment: Treatment, target: TargetInfo) -> str:
    """What changed with all verified fixes, or why nothing did, in one sentence.

    Args:
        treatment: What was tried.
        target: What was run, and how.
    """
    if treatment.after is None and treatment.is_interrupted:
        tried = _tried_text(treatment)
        return f"Interrupted before {f'fixes were put together: {tried}' if tried else 'a fix was tried'}."
    if treatment.after is None:
        return f"Nothing changed: {_why_nothing(treatment)}."
    changes = [*_counts(treatment.before, treatment.after)]
    if treatment.before.coverage is not None and treatment.after.coverage is not None:
        before, after = share_changes(treatment.before.coverage, treatment.after.coverage)
        changes += [f"{before} → {after} compiled"] if before != after else []
    if (cold := treatment.cold_compile) is not None:
        changes.append(f"{cold.before_s:.1f} → {cold.after_s:.1f} s of compiling")
    speed = _speed(treatment, target)
    text = ", ".join([*(changes or ["no count changed"]), *([speed] if speed else [])])
    count = len(applied_fixes(treatment))
    subject = {1: "the fix", 2: "both fixes"}.get(count, f"all {count} fixes")
    untimed = "" if speed else "; the call wasn't timed"
    interrupted = "; interrupted before everything was tried" if treatment.is_interrupted else ""
    return f"With {subject}: {text}{untimed}{interrupted}."


def _counts(before: Counts, after: Counts) -> Iterator[str]:
    for was, now, noun in (
        (before.break_sites, after.break_sites, "break sites"),
        (before.skipped_frames, after.skipped_frames, "skipped frames"),
        (before.graphs, after.graphs, "graphs"),
        (before.recompiles, after.recompiles, "recompiles"),
        (before.frames_over_limit, after.frames_over_limit, "frames over the limit"),
    ):
        if was != now:
            yield f"{was} → {now} {noun}"
    if None not in (before.cuda_graphs, after.cuda_graphs) and before.cuda_graphs != after.cuda_graphs:
        yield f"{before.cuda_graphs} → {after.cuda_graphs} CUDA graphs"


def _speed(treatment: Treatment, target: TargetInfo) -> str | None:
    """How much faster or slower the call is, under the backend that decides; None if it wasn't timed."""
    times = deciding(treatment.times)
    if times is None:
        return None
    said = measured_speed(times)
    if said == SAME_SPEED:
        return f"{SAME_SPEED} in speed"
    is_asked = times.backend == target.compile_arguments.get("backend")
    return speed_text(times.ratio) + ("" if is_asked else f" under {times.backend}")


def _why_nothing(treatment: Treatment) -> str:
    if tried := _tried_text(treatment):
        return f"{tried}, none kept"
    causes = {fix.untried_cause for fix in treatment.tried if fix.untried_cause is not None}
    for cause, words in _UNTRIED.items():
        if cause in causes:
            return words
    if causes == {"unsafe"}:
        return "no safe fix is known; --unsafe-fixes tries the others"
    if treatment.tried:
        return "nothing was tried"
    return "no fix is known" if treatment.left else "there is nothing to fix"


def _tried_text(treatment: Treatment) -> str:
    """How many fixes were tried, and what each kind of verdict says; empty for none."""
    tried = [fix for fix in distinct_fixes(treatment.tried) if fix.verdict != "not tried"]
    if not tried:
        return ""
    verdicts = Counter(fix.verdict for fix in tried)
    counts = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items())
    return f"{'1 fix' if len(tried) == 1 else f'{len(tried)} fixes'} tried ({counts})"


def applied_fixes(treatment: Treatment) -> list[TriedFix]:
    """The fixes that were applied together at the end, each once."""
    return distinct_fixes([fix for fix in treatment.tried if fix.is_applied])


def distinct_fixes(fixes: Sequence[TriedFix]) -> list[TriedFix]:
    """Each fix once: one trial can serve several findings, and a fix that didn't help is tried again with others."""
    last = {(fix.title, fix.fingerprint): fix for fix in fixes}
    kept = [fix for fix in fixes if fix.is_applied or fix is last[fix.title, fix.fingerprint]]
    return list({(fix.round, fix.title, fix.snippet, fix.diff): fix for fix in kept}.values())
