"""Words for why something was judged as it was, and for how results differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from graphdoctor.facts.fixes import (
    LOSSY,
    VERIFIED,
    LeftFinding,
    Outcome,
    PairedTime,
    Reason,
    ReasonKind,
    UntriedCause,
)
from graphdoctor.facts.trials import THE_CALL, Difference, ResultKind
from graphdoctor.views.verdicts import outcome_words
from graphdoctor.views.words import percents
from graphdoctor.wording import counted, duration, join_texts, kind_text, listed, speed_text

UNTRIED: dict[UntriedCause, str] = {
    "unsafe": "it's unsafe; --unsafe-fixes tries it",
    "unfinished_run": "the run didn't finish",
    "not_requested": "trials are off",
    "not_repeatable": "the run couldn't be repeated",
    "budget": "time was up; the same command goes on",
}
"""Why a fix wasn't tried."""

_LINES: dict[ResultKind, tuple[str, str]] = {
    "stdout": ("print", "printed lines"),
    "logs": ("log line", "log lines"),
    "stderr": ("line of standard error", "lines of standard error"),
}
"""A line of a text, and several."""


def reasons_text(reasons: Iterable[Reason]) -> str | None:
    """Write reasons as a clause; None for none."""
    return "; ".join(map(reason_text, reasons)) or None


def verdict_text(outcome: Outcome | LeftFinding) -> str:
    """Write a verdict; of one with a loss, what is lost."""
    words = outcome_words(outcome)
    return f"{words}, but {loss_text(outcome)}" if outcome.verdict == LOSSY else words


def loss_text(outcome: Outcome | LeftFinding) -> str:
    """Say what is lost with a fix that drops output."""
    losses = map(_lost, outcome.reasons)
    lost = listed(list(dict.fromkeys(text for text in losses if text))) or "output is lost"
    return f"{lost} when compiled"


def _lost(reason: Reason) -> str | None:
    if reason.kind == "drops_lines" and reason.difference is not None:
        return "prints are lost" if reason.difference.kind == "stdout" else "log lines are lost"
    other = {"exceptions": "another exception is raised", "not_kept": "a value isn't kept"}
    return other.get(reason.kind) or next(filter(None, map(_lost, reason.parts)), None)


def why_text(outcome: Outcome) -> str | None:
    """Say why a change has its verdict, or wasn't tried; None if nothing is to be said."""
    if outcome.untried_cause is not None:
        return UNTRIED[outcome.untried_cause]
    return reasons_text(outcome.reasons)


def reason_text(reason: Reason) -> str:
    """Write a reason as a clause; one from elsewhere may lack the values that its words need."""
    try:
        words = _WORDS[reason.kind]
        if not isinstance(words, str):
            return words(reason)
        named = {}
        if reason.difference is not None:
            named["difference"] = difference_text(reason.difference)
        if reason.times is not None:
            named["times"] = _times_text(reason.times)
        if "{parts}" in words:
            named["parts"] = reasons_text(reason.parts) or ""
        return words.format(*reason.values, *map(reason_text, reason.parts), **named)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return " ".join(map(str, (reason.kind.replace("_", " "), *reason.values)))


def left_text(left: LeftFinding) -> str:
    """Say why a finding is still there, or how much less of it there is."""
    if left.verdict in VERIFIED:
        why = reasons_text(left.reasons)
        alone = f'"{left.title}" works alone, but not beside the other fixes'
        return f'with "{left.title}": {why}' if why else alone
    best = None
    if left.untried_cause is not None:
        best = f'"{left.title}" wasn\'t tried: {UNTRIED[left.untried_cause]}'
    elif left.title is not None:
        said = None if left.verdict == "contained" and left.reasons else verdict_text(left)
        best = f'"{left.title}": {join_texts(", ", said, reasons_text(left.reasons))}'
    declined = f"no {'other ' * bool(best)}edit: {left.declined}" if left.declined else None
    if tried := join_texts("; ", best, declined):
        return tried
    if not left.suggestions:
        return "no fix is known"
    return f"no edit is written for it. By hand: {left.suggestions[0]}"


def difference_text(difference: Difference) -> str:
    """Write a difference, such as ``gradient of x in call 1 differs by 0.3``."""
    where, value, reference = difference.where, difference.value, difference.reference
    if difference.largest is not None:
        return f"{where} differs by {difference.largest:.3g}"
    if where != THE_CALL:
        return f"{where}: {detail_text(difference) or 'differs'}"
    if value is None:
        return f"{where} doesn't raise {reference}"
    return f"{where} raises {value}{f' instead of {reference}' if reference else ''}"


def detail_text(difference: Difference) -> str | None:
    """Say how a value differs, if not by a number."""
    if difference.presence is not None:
        return {"missing": "is missing", "new": "is new"}[difference.presence]
    if (lines := difference.lines) is not None:
        count = f"{lines.count} of {lines.reference_count} lines"
        return f"{count}; the first missing one: {lines.first}"
    if difference.value is None:
        return None if difference.is_finite else "NaN or infinity"
    return f"{difference.value} instead of {difference.reference}"


def _times_text(times: PairedTime) -> str:
    ratio = times.shown_ratio or times.ratio
    return f"{speed_text(ratio, times.ratio_low, times.ratio_high)} under {times.backend}"


def _slower(reason: Reason, which: str) -> str:
    times = cast("PairedTime", reason.times)
    longer_us = times.after_us - times.before_us
    by = "" if times.shown_ratio is None else f", by {duration(longer_us)}"
    return f"with {which}, the steady call is {_times_text(times)}{by}"


def _kinds(kinds: Sequence[Any]) -> str:
    return " and ".join(map(kind_text, kinds))


def _dropped(reason: Reason) -> str:
    difference = cast("Difference", reason.difference)
    singular, plural = _LINES[difference.kind]
    dropped = plural
    if (lines := difference.lines) is not None:
        count = lines.reference_count - lines.count
        dropped = f"{count} {singular if count == 1 else plural} ({lines.first})"
    return f"drops {dropped} while compiling"


def _exceptions(reason: Reason) -> str:
    """Name the exceptions that are raised in place of the program's."""
    changes = []
    for part in reason.parts:
        was, now = (str(text).partition(": ")[0] for text in part.values[:2])
        changes += [f"{was} → {now}"] if was != now else []
    named = ", ".join(dict.fromkeys(changes))
    return f"changes the exception: {named}" if named else "changes the exception's message"


def _change(noun: str) -> Callable[[Reason], str]:
    return lambda reason: f"{counted(reason.values[0], noun)} → {reason.values[1]}"  # type: ignore[arg-type]


def _coverage(words: str) -> Callable[[Reason], str]:
    return lambda reason: words.format(*percents(*cast("tuple[float, float]", reason.values)))


def _counts(words: str, *nouns: str) -> Callable[[Reason], str]:
    """Return words with counts of nouns; an empty noun leaves a value as it is."""

    def text(reason: Reason) -> str:
        pairs = zip(reason.values, nouns, strict=False)
        values = [counted(cast("int", value), noun) if noun else value for value, noun in pairs]
        return words.format(*values, *map(reason_text, reason.parts))

    return text


_WORDS: Mapping[ReasonKind, str | Callable[[Reason], str]] = {
    "message": "{}",
    "and": "{}, and {}",
    "but": "{}, but {}",
    "under": "under {0}: {parts}",
    "beside_others": "with the others, {parts}",
    "until_others": "{parts}, until other fixes are applied too",
    "gone_but": "the finding is gone, but {}",
    "no_helping_fix": "with it, {}, and no fix that was tried helps",
    "declined": "no edit: {}",
    "replayed": lambda reason: (
        f"replayed: {_change('compile')(reason)}"
        f"{', over the recompile limit' if reason.values[2] else ''}"
    ),
    "differs": "{difference}",
    "differs_on": "{difference} when {0}",
    "may_be_rounding": "{difference}, which may be rounding",
    "not_returned": "the program didn't return results in two runs without torch.compile",
    "not_compared": "its results weren't compared",
    "too_large": "its outputs are too large to compare",
    "unstable": lambda reason: (
        f"{_kinds(reason.values)} differ from run to run without torch.compile"
    ),
    "unstable_in_eager": lambda reason: (
        f"{_kinds(reason.values)} differ from run to run in eager mode too"
    ),
    "differs_without_fix": lambda reason: (
        f"torch.compile changes {_kinds(reason.values)} even without the fix "
        f"({difference_text(cast('Difference', reason.difference))})"
    ),
    "zero_gradients": lambda reason: (
        f"{listed([str(value).removeprefix('gradient of ') for value in reason.values])} get a"
        " gradient of 0 where they had none"
    ),
    "retyped": "a tensor is kept in place of a number ({difference})",
    "redraws": "more random numbers are drawn, so they are others when {}",
    "redraws_own": "more random numbers are drawn, so they are others",
    "drops_lines": _dropped,
    "not_kept": "{} isn't kept",
    "exceptions": _exceptions,
    "over_limit": "a function hits its recompile limit with it",
    "limit_stays": "the limit is still hit",
    "break_stays": "the break stays",
    "break_is_there": "the break is still there",
    "breaks_instead": lambda reason: f"it breaks at {', '.join(map(str, reason.values))} instead",
    "cause_stays": "the cause is still there",
    "nothing_improves": "nothing else improves",
    "nothing_better": "nothing that torch compiles is better",
    "still_skipped": "a function is still skipped",
    "skipped_by_next": "`{}` is skipped because of the next break, at line {}",
    "coverage": _coverage("coverage goes from {} to {}"),
    "graphs": _change("graph"),
    "sites_and_graphs": _counts("{} → {}, {} → {}", "", "break site", "", "graph"),
    "recompiles": _change("recompile"),
    "rerecorded": _counts("torch records {} again", "CUDA graph"),
    "recorded": _counts("torch records {} with it, {} without", "CUDA graph", ""),
    "unknown_recording": "torch doesn't say which CUDA graphs it records",
    "needless": "the others do the same without it",
    "call": "the steady call is {times}",
    "call_with_it": lambda reason: _slower(reason, "it"),
    "call_with_all": lambda reason: _slower(reason, "all of them"),
    "call_all_the_same": "the call is {times} all the same",
    "call_untimed": "the call wasn't timed",
    "call_not_faster": "a break stays, and the call isn't faster",
    "not_run_there": "it wasn't run there",
    "runs_elsewhere": "it works under {}, but wasn't run under {}",
    "fails_there": "the program fails there without fixes: {}",
    "unreached": "no input that was tried reaches line {}",
    "not_attacked": "no other inputs were tried",
    "not_raised": "no input that was tried raises at line {}",
    "not_skipped": "no input that was tried skips the lines under line {}",
    "not_run": "no input that was tried runs {}",
    "stops_there": "torch stops there all the same",
    "stops_at": "torch then stops at {}",
    "not_timed": "not timed under {}: {}",
    "never_steady": "the calls never stop compiling",
    "too_short": "the call is too short to time",
    "probe_ended": "the probe ended during timing",
    "bounded": "time was up: the same command goes on, --budget SECONDS gives it more",
    "interrupted": "interrupted, so some fixes weren't tried",
    "unfinished": "the recorded run didn't finish, so nothing was tried",
    "unfinished_without": "the run without it didn't finish",
    "not_repeatable": "the run couldn't be repeated: {}",
    "fails_in_eager": "the program fails without torch.compile: {}",
    "fails_in_second_eager": "the program fails in a second run without torch.compile: {}",
    "unprovable": lambda reason: (
        "two runs without torch.compile differ in"
        f" {', '.join(map(kind_text, cast('Any', reason.values)))}, so no fix can be proven"
    ),
    "no_float64": (
        "differences can't be told from rounding, because the program doesn't run in float64: {}"
    ),
}
