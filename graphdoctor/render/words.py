"""Phrases that every view of a diagnosis shares: counts, times, verdicts in plain text.

Comes in: parts of a diagnosis. Goes out: text, never markup of any kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from graphdoctor.model.check import Budget
from graphdoctor.model.comparison import CountPair, DiagnosisComparison, Numbers, SameFinding, Side, TimePair
from graphdoctor.model.diagnosis import Cost, Diagnosis, Finding, Fix, GraphReport, Summary
from graphdoctor.model.expressions import expression
from graphdoctor.model.fixes import Measures
from graphdoctor.model.recording import CaptureGap, CompileCall, GraphInput
from graphdoctor.model.wording import counted as counted  # noqa: PLC0414 - the views take it from here

Tone = Literal["good", "warning", "bad"]
"""How a sentence is meant."""

UNKNOWN = "not known"
"""What stands where a number would."""

_NOTHING_COMPILED = "GD905"
_MAX_INPUTS = 4


def times(number: int) -> str:
    """``once``, ``2 times``."""
    return "once" if number == 1 else f"{number} times"


def percent(share: float) -> str:
    """Whole percent, but never 0 or 100 for what is neither."""
    if 0 < share < 0.01:
        return "<1 %"
    if 0.99 < share < 1:
        return ">99 %"
    return f"{share:.0%}".replace("%", " %")


def duration(us: float) -> str:
    """A time in the unit that suits it."""
    if us < 1000:
        return f"{us:.0f} µs"
    return f"{us / 1000:.2f} ms" if us < 1e6 else f"{us / 1e6:.2f} s"


def base_name(file: str) -> str:
    """A path's last part, on every system."""
    return re.split(r"[/\\]", file)[-1]


def first_sentence(text: str) -> str:
    """A text's first paragraph, in one line, without the stack that torch prints behind a guard's reason."""
    paragraph = re.split(r"\n\s*\n|\s*User stack trace:", text, maxsplit=1)[0]
    return " ".join(paragraph.split())


# The head: what ran, and the verdict.


def title_parts(diagnosis: Diagnosis) -> list[str]:
    """What ran: target, class, torch, backend and what else ``torch.compile`` was given."""
    target, environment = diagnosis.target, diagnosis.environment
    parts = [target.text or "trace log"]
    if target.class_name and target.class_name not in parts[0]:
        parts.append(target.class_name)
    if environment.torch:
        parts.append(f"torch {environment.torch}")
    arguments = target.compile_arguments
    if arguments.get("backend"):
        parts.append(f"backend {arguments['backend']}")
    parts += [
        f"{name}={arguments[name]}"
        for name in ("mode", "dynamic", "fullgraph")
        if arguments.get(name) not in (None, False)
    ]
    return parts


def headline(summary: Summary, *, is_partial: bool) -> tuple[str, Tone] | None:
    """What must be said first: nothing compiled, or nothing wrong (which half a run cannot tell)."""
    detail = summary.coverage_detail
    if detail is not None and summary.coverage == 0:
        total = detail.graph_ops + detail.eager_ops
        return f"Not compiled: 0 of {total} tensor operations ran in a compiled graph.", "bad"
    if detail is None and summary.calls and not summary.graphs and not is_partial:
        return "Not compiled: no graph reached the backend.", "bad"
    is_clean = not (summary.break_sites or summary.skipped_frames or summary.frames_over_limit or is_partial)
    if is_clean and summary.graphs:
        recompiled = f", compiled again {times(summary.recompiles)}" if summary.recompiles else ""
        return f"No graph break{recompiled}.", "warning" if recompiled else "good"
    return None


def coverage_text(summary: Summary) -> str:
    """Coverage with the counts behind it."""
    detail = summary.coverage_detail
    if detail is None:
        return "coverage not known"
    total = detail.graph_ops + detail.eager_ops
    if summary.coverage is None:
        return "no tensor operation"
    return f"coverage {percent(summary.coverage)} ({detail.graph_ops} of {total} operations)"


def nothing_compiled(diagnosis: Diagnosis) -> CaptureGap | None:
    """Why a script's recording is empty, if it is: the verdict rather than something not known."""
    return next((gap for gap in diagnosis.gaps if gap.code == _NOTHING_COMPILED), None)


def gaps_not_told(diagnosis: Diagnosis) -> list[CaptureGap]:
    """The gaps, less the one that is the verdict."""
    return [gap for gap in diagnosis.gaps if gap.code != _NOTHING_COMPILED]


def compile_calls_text(calls: Sequence[CompileCall]) -> list[str]:
    """Where a script called torch.compile and with what, each place once."""
    counts: dict[str, int] = {}
    for call in calls:
        arguments = "".join(f", {name}={value}" for name, value in call.arguments.items())
        text = f"torch.compile({call.compiled}{arguments}) at {call.file}:{call.line}"
        counts[text] = counts.get(text, 0) + 1
    return [f"{text}, {times(count)}" if count > 1 else text for text, count in counts.items()]


# Findings.


def clusters(findings: Sequence[Finding]) -> Iterator[list[Finding]]:
    """Findings at one line with one cause are one card: a break and the skipped frame that it made."""
    order: dict[tuple[str, int, str | None], list[Finding]] = {}
    for finding in findings:
        key = (finding.location.file, finding.location.line, finding.torch_id)
        if not finding.reasons:
            key = (*key[:2], finding.fingerprint)
        order.setdefault(key, []).append(finding)
    for cluster in order.values():
        # The cause comes before its consequence, whatever their severities.
        yield sorted(cluster, key=lambda finding: finding.code)


def caused_text(finding: Finding) -> str:
    """What a break led to, in a line; empty for another finding."""
    effects = finding.effects
    parts = [f"fired {times(finding.count)}"] if finding.break_effects else []
    if "raised" in finding.break_effects:
        parts.append("raised: fullgraph allows no break")
    parts += [f"`{name}` skipped: it runs eagerly as a whole" for name in effects.skipped_frames]
    parts += [f"the rest of `{name}` runs eagerly" for name in effects.rest_eager_frames]
    if effects.graphs:
        parts.append(counted(len(effects.graphs), "graph"))
    if effects.resume_functions:
        parts.append(counted(len(effects.resume_functions), "resume function"))
    return ", ".join(parts)


def cost_text(cost: Cost) -> str:
    """What a finding costs."""
    parts = []
    share = f" ({abs(cost.share):.0%})" if cost.share is not None else ""
    if cost.call_us is not None and cost.call_from == "fix":
        less = "less" if cost.call_us >= 0 else "more"
        parts.append(f"a steady call takes {duration(abs(cost.call_us))} {less} with it fixed{share}")
    elif cost.call_us is not None:
        parts.append(f"{duration(cost.call_us)} of a steady call outside the graphs{share}")
    if cost.compile_s is not None:
        parts.append(f"{cost.compile_s:.2f} s of compiling")
    return ", ".join(parts)


def worth_trying(fixes: Sequence[Fix]) -> list[Fix]:
    """The suggestions that no trial has refuted, in their order."""
    return [fix for fix in fixes if fix.verdict in ("verified", "unproven", "not tried")]


def suggested(fix: Fix, title: str | None = None) -> str:
    """A suggestion with its verdict.

    Args:
        fix: The suggestion.
        title: Its title as the view writes it; None for as it is.
    """
    shown = fix.title if title is None else title
    return shown if fix.verdict == "not tried" else f"{shown} ({fix.verdict})"


# Graphs.


def inputs_text(graph: GraphReport) -> str:
    """Arguments one by one, parameters and buffers as a count."""
    inputs = graph.inputs
    if inputs is None:
        return "not recorded"
    arguments = [item for item in inputs if not item.is_parameter]
    parts = [_input_text(item, graph.resumes_at) for item in arguments[:_MAX_INPUTS]]
    if len(arguments) > _MAX_INPUTS:
        parts.append(f"{len(arguments) - _MAX_INPUTS} more")
    parameters = len(inputs) - len(arguments)
    if parameters:
        parts.append(counted(parameters, "parameter"))
    return ", ".join(parts) or "none"


def _input_text(item: GraphInput, resumes_at: int | None) -> str:
    name = expression(item.source, resumes_at) if item.source else item.name
    if item.kind == "tensor":
        device = "" if item.device in (None, "cpu") else f" {item.device}"
        return f"{name} {item.dtype}[{', '.join(map(str, item.shape or ()))}]{device}"
    return f"{name} (dynamic)" if item.kind == "symbol" else name


# Fixes together.


def measured_rows(before: Measures, after: Measures) -> Iterator[tuple[str, str, str]]:
    """What all verified fixes change: label, before, after."""
    yield "break sites", str(before.break_sites), str(after.break_sites)
    yield "skipped frames", str(before.skipped_frames), str(after.skipped_frames)
    yield "graphs", str(before.graphs), str(after.graphs)
    yield "compiles", str(before.compiles), str(after.compiles)
    yield "recompiles", str(before.recompiles), str(after.recompiles)
    if before.frames_over_limit or after.frames_over_limit:
        yield "frames over the limit", str(before.frames_over_limit), str(after.frames_over_limit)
    yield "coverage", _share(before.coverage), _share(after.coverage)


def _share(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.0%}"


# The gate.


def budget_text(budget: Budget) -> str:
    """What was measured and what is allowed, in a clause."""
    bound = "least" if budget.name == "min-coverage" else "most"
    return f"{_budget_number(budget, budget.value)}, at {bound} {_budget_number(budget, budget.limit)}"


def _budget_number(budget: Budget, number: float | None) -> str:
    if number is None:
        return UNKNOWN
    # Digits enough to tell a share from the limit that it missed.
    return f"{100 * number:.6g} %" if budget.name == "min-coverage" else f"{number:g}"


# Two diagnoses side by side.


def comparison_verdict(comparison: DiagnosisComparison) -> str:
    """How many findings are new, gone and the same."""
    new, gone, same = (len(findings) for findings in (comparison.new, comparison.gone, comparison.same))
    if not (new or gone or same):
        return "No finding on either side."
    return f"{counted(new, 'new finding')}, {gone} gone, {same} the same."


def side_parts(side: Side) -> list[str]:
    """What ran on one side: target, class, torch, backend."""
    parts = [side.target.text or "trace log"]
    if side.target.class_name and side.target.class_name not in parts[0]:
        parts.append(side.target.class_name)
    if side.environment.torch:
        parts.append(f"torch {side.environment.torch}")
    if side.target.compile_arguments.get("backend"):
        parts.append(f"backend {side.target.compile_arguments['backend']}")
    return parts


def compared_rows(numbers: Numbers) -> Iterator[tuple[str, str, str, str]]:
    """The numbers of both sides: label, before, after, after over before for a time; no count that is 0 on both."""
    for label, pair in _counts(numbers):
        if pair.before or pair.after:
            yield label, _count(pair.before), _count(pair.after), ""
    coverage, seconds, call = numbers.coverage, numbers.compile_time_s, numbers.steady_call_us
    yield "coverage", known_share(coverage.before), known_share(coverage.after), ""
    yield "compiling", _seconds(seconds.before), _seconds(seconds.after), _ratio(seconds)
    yield "steady call", _microseconds(call.before), _microseconds(call.after), _ratio(call)


def _counts(numbers: Numbers) -> Iterator[tuple[str, CountPair]]:
    yield "calls", numbers.calls
    yield "graphs", numbers.graphs
    yield "break sites", numbers.break_sites
    yield "skipped frames", numbers.skipped_frames
    yield "compiles", numbers.compiles
    yield "recompiles", numbers.recompiles
    yield "causes of recompiles", numbers.recompile_causes
    yield "frames over the limit", numbers.frames_over_limit


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


def known_share(share: float | None) -> str:
    """A share, or that it is not known."""
    return UNKNOWN if share is None else percent(share)


def _seconds(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{seconds:.2f} s"


def _microseconds(us: float | None) -> str:
    return UNKNOWN if us is None else duration(us)


def _ratio(pair: TimePair) -> str:
    if pair.ratio is None:
        return ""
    return f"{pair.ratio:.2f}" if pair.ratio >= 0.1 else f"{pair.ratio:.2g}"


def moved_place(pair: SameFinding) -> str:
    """Where a finding of both sides is, and the line that it was on."""
    line, place = pair.before.location.line, f"{pair.after.location.shown_file}:{pair.after.location.line}"
    return f"{place} (was {line})" if "line" in pair.changes else place


def changed_text(pair: SameFinding, *, has_costs: bool) -> str:
    """What else differs of a finding of both sides; empty for nothing."""
    before, after = pair.before, pair.after
    parts = []
    if "severity" in pair.changes:
        parts.append(f"{before.severity} → {after.severity}")
    if "count" in pair.changes:
        parts.append(f"{times(before.count)} → {times(after.count)}")
    if has_costs:
        parts += _costs(before, after)
    return ", ".join(parts)


def _costs(before: Finding, after: Finding) -> Iterator[str]:
    old, new = before.cost, after.cost
    if old is None or new is None:
        return
    if old.call_us is not None and new.call_us is not None and old.call_from == new.call_from:
        yield f"{duration(old.call_us)} → {duration(new.call_us)} of a steady call"
    if old.compile_s is not None and new.compile_s is not None:
        yield f"{old.compile_s:.2f} s → {new.compile_s:.2f} s of compiling"
