"""Phrases and rows that several views share, as plain text without markup."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from graphdoctor.facts.base import grouped, sum_of_known
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.fixes import WORKING
from graphdoctor.facts.trials import TEXTS
from graphdoctor.views.parts import Block, Done, Note, Place, Row, Rows, Section, Span, Tone, View
from graphdoctor.wording import (
    UNCHANGED,
    counted,
    duration,
    factor_text,
    join_texts,
    kind_text,
    listed,
    names,
    percent,
    speed_text,
    times,
    without_middle,
)

if TYPE_CHECKING:
    from graphdoctor.facts.accuracy import AccuracyReport
    from graphdoctor.facts.bench import BenchReport, CureReport
    from graphdoctor.facts.check import Side
    from graphdoctor.facts.counts import Counts, Coverage, Steadiness
    from graphdoctor.facts.diagnosis import Cost, Diagnosis, Finding
    from graphdoctor.facts.export import ExportReport
    from graphdoctor.facts.fixes import Fix, PairedTime, SnippetPlace, Treatment
    from graphdoctor.facts.guards import GuardChange
    from graphdoctor.facts.profile import ProfileReport
    from graphdoctor.facts.recording import (
        CaptureGap,
        Environment,
        Graph,
        GraphInput,
        Recording,
        TargetInfo,
    )
    from graphdoctor.facts.stack import StackEntry
    from graphdoctor.facts.trials import Attacked, Comparison

_Finding = TypeVar("_Finding", bound="Finding")

UNKNOWN = "unknown"
"""Shown in place of a number."""

SAME_SPEED = "no measurable difference"
"""Shown in place of a ratio whose interval holds 1."""
TOO_NOISY = "too noisy to say"
"""The same, where the interval is wide."""
WIDE = 1.3
"""More between the ends of an interval is too noisy to say that there is no difference."""
INTERRUPTED = "Interrupted: this is what was measured until then."
ONE_RUN_EACH = "one run each: not compared"
"""What stands in place of the ratio of two runs' times: as much lies between two runs of the same
program."""

_COUNTS = {
    "break sites": "break_sites",
    "skipped frames": "skipped_frames",
    "graphs": "graphs",
    "compiles": "compiles",
    "recompiles": "recompiles",
    "causes of recompiles": "recompile_causes",
    "frames over the limit": "frames_over_limit",
    "CUDA graphs": "cuda_graphs",
}
_ENVIRONMENT = {
    "torch": "torch",
    "built for": "torch_build",
    "Python": "python",
    "platform": "platform",
    "device": "device_name",
    "threads": "threads",
    "interpreter": "executable",
}
_MAX_INPUTS = 4
_MOST_OF_A_SETTING = 200


def base_name(file: str) -> str:
    """Return the last part of a path of any system."""
    return re.split(r"[/\\]", file)[-1]


def short_place(entry: StackEntry) -> Place:
    """Return a line, by the name of its file."""
    return Place(entry.file, entry.line, base_name(entry.file))


def few_text(texts: Sequence[str], most: int, *, between: str = ", ", end: str = " and ") -> str:
    """Return a few of several texts, and how many more there are."""
    more = len(texts) - most
    return between.join(texts[:most]) + (f"{end}{more} more" if more > 0 else "")


def repeated_text(counts: Iterable[tuple[str, int]]) -> str:
    """Return words, each with how often it is there: ``mul ×2, add``."""
    return ", ".join(word if count == 1 else f"{word} ×{count}" for word, count in counts)


def first_sentence(text: str) -> str:
    """Return a text's first paragraph on one line, without the stack that torch prints after a
    guard's reason.
    """
    paragraph = re.split(r"\n\s*\n|User stack trace:", text, maxsplit=1)[0]
    return " ".join(paragraph.split())


# What ran, and the verdict.


def title_parts(side: Recording | Side) -> list[str]:
    """Name what ran: target, class, torch, backend and other arguments of ``torch.compile``."""
    target, torch, arguments = side.target, side.environment.torch, side.target.compile_arguments
    pieces = [*_target(target, "trace log"), *([f"torch {torch}"] if torch else [])]
    if arguments.get("backend"):
        pieces.append(f"backend {arguments['backend']}")
    others = {name: arguments.get(name) for name in ("mode", "dynamic", "fullgraph")}
    pieces += [f"{name}={value}" for name, value in others.items() if value not in (None, False)]
    pieces += _changes(target)
    if target.is_regional:
        pieces.append(join_texts(": ", "regional", ", ".join(target.regions)))
    return pieces


def diagnosis_view(
    diagnosis: Diagnosis, kind: str, pieces: Iterable[Block], then: str | Done
) -> View:
    """Return parts about a diagnosis, or a part of it, as a document, and the command to run
    next.
    """
    return View(
        tuple(title_parts(diagnosis.recording)),
        kind,
        tuple(pieces),
        diagnosis.graphdoctor_version,
        then,
    )


def run_title(
    report: AccuracyReport | BenchReport | CureReport | ExportReport | ProfileReport,
) -> tuple[str, ...]:
    """Name what a study ran, and where: target, class, torch, device."""
    environment, where = report.environment, list[str]()
    if environment is not None:
        where = [f"torch {environment.torch or UNKNOWN}", environment.device_name or "CPU"]
    return (*_target(report.target, "a program"), *where, *_changes(report.target))


def study_view(
    report: AccuracyReport | BenchReport | CureReport | ExportReport | ProfileReport,
    kind: str,
    pieces: Iterable[Block],
    then: str | Done,
) -> View:
    """Return parts about what a study found out as a document, and the command to run next."""
    return View(run_title(report), kind, tuple(pieces), report.graphdoctor_version, then)


def _target(target: TargetInfo, other: str) -> Iterator[str]:
    text = target.text or other
    yield text
    if target.class_name and target.class_name not in text:
        yield target.class_name


def _changes(target: TargetInfo) -> Iterator[str]:
    """Yield the dtype and the batch size that were asked for."""
    options = target.call_options
    if options.get("dtype") is not None:
        yield str(options["dtype"])
    if options.get("batch") is not None:
        yield f"batch {options['batch']}"


def unknown_section(gaps: Sequence[CaptureGap]) -> Section:
    """List what torch or the recording couldn't tell."""
    rows = (Row(gap.code, Note(gap.message, "dim")) for gap in gaps)
    return Section("Unknown", Rows(rows, "gap"))


def settings(target: TargetInfo, environment: Environment | None) -> dict[str, str]:
    """Describe what ran, how, and where."""
    described: dict[str, object] = {}
    if environment is not None:
        described |= {name: getattr(environment, field) for name, field in _ENVIRONMENT.items()}
    described |= {"target": target.text, "file": target.file, "inputs from": target.inputs_from}
    described |= {"regional": ", ".join(target.regions)}
    options = dict(target.call_options)
    # How often to make the calls, not how many there are.
    if (count := options.pop("calls", 1)) != 1:
        options["--calls"] = count
    described |= target.compile_arguments | options | target.config
    return {
        name: without_middle(str(value), _MOST_OF_A_SETTING)
        for name, value in described.items()
        if value not in (None, "", False, {})
    }


def setting_rows(target: TargetInfo, environment: Environment | None) -> Iterator[Row]:
    """Yield a row for each of ``settings``."""
    for name, value in settings(target, environment).items():
        yield Row(name, Span(value))


def verdict(diagnosis: Diagnosis) -> tuple[str, Tone, Collection[str]]:
    """Return the verdict in one sentence, its tone, and the fields of ``Counts`` whose numbers it
    has.
    """
    summary, empty = diagnosis.summary, nothing_compiled(diagnosis)
    plain = _plain_verdict(summary, is_partial=diagnosis.recording.is_partial)
    if empty is not None:
        plain = (empty.message, "warning")
    failed_count = sum(item.outcome == "failed" for item in diagnosis.recording.compiles)
    if plain is not None and plain[1] == "good" and failed_count:
        # A script can catch what torch.compile raises, and go on.
        plain = (f"{counted(failed_count, 'compile')} failed.", "bad")
    if plain is not None:
        fields = {"recompiles"} if summary.frames_over_limit else {"recompiles", "eager_calls"}
        if summary.coverage == 0:
            fields = {"coverage"}
        elif summary.break_records:
            fields = set()
        return *plain, fields
    pieces = {}
    if summary.coverage is not None:
        pieces["coverage"] = f"{percent(summary.coverage)} of operations compiled"
    if summary.graphs_per_call is not None:
        # One graph can run several times in a call.
        is_repeated = summary.graphs_per_call > summary.graphs
        noun = "graph run" if is_repeated else "graph"
        field = "graphs" if summary.graphs_per_call == summary.graphs else "graphs_per_call"
        pieces[field] = f"{counted(summary.graphs_per_call, noun)} per call"
    elif summary.graphs:
        pieces["graphs"] = counted(summary.graphs, "graph")
    if summary.break_sites:
        verb = "breaks" if summary.break_sites == 1 else "break"
        pieces["break_sites"] = f"{counted(summary.break_sites, 'line')} {verb} the graph"
    if summary.skipped_frames:
        pieces["skipped_frames"] = f"{counted(summary.skipped_frames, 'function')} skipped"
    if summary.recompiles:
        total_s, share = summary.compile_time_s, ""
        cost_s = sum_of_known(report.cost_s for report in diagnosis.recompiles)
        if cost_s is not None and total_s:
            share = f", {percent(min(cost_s / total_s, 1.0))} of compile time"
        pieces["recompiles"] = f"{counted(summary.recompiles, 'recompile')}{share}"
    is_bad = bool(summary.skipped_frames or summary.frames_over_limit)
    text = " · ".join(pieces.values()) or "Nothing was compiled."
    return text, "bad" if is_bad else "warning", pieces


def _plain_verdict(summary: Counts, *, is_partial: bool) -> tuple[str, Tone] | None:
    """What to say in place of shares: it never settles, nothing compiled, or nothing is wrong; None
    otherwise.

    Half a run can't show that nothing is wrong.
    """
    if unsettled := _unsettled_text(summary.steadiness):
        return unsettled, "bad"
    uncompiled = uncompiled_text(summary)
    if uncompiled is not None and (summary.coverage_detail is not None or not is_partial):
        return uncompiled, "bad"
    eager_count = summary.skipped_frames + summary.frames_over_limit
    if is_partial or summary.break_sites or eager_count or not summary.graphs:
        return None
    pieces = ["No graph breaks"]
    pieces += [counted(summary.recompiles, "recompile")] if summary.recompiles else []
    pieces += eager_calls_texts(summary)
    return f"{', '.join(pieces)}.", "warning" if len(pieces) > 1 else "good"


def eager_calls_texts(summary: Counts) -> list[str]:
    """Say how many calls ran code eagerly without a record of torch's; empty for none."""
    counts = summary.eager_calls or {}
    whys = ["over the recompile limit" if why == "limit" else f"stance {why}" for why in counts]
    calls = counted(sum(counts.values()), "call")
    return [f"{calls} ran code eagerly ({', '.join(whys)})"] if counts else []


def uncompiled_text(summary: Counts) -> str | None:
    """Say that nothing of the calls was compiled; None if something was, or nobody knows."""
    if not summary.is_uncompiled:
        return None
    if (detail := summary.coverage_detail) is None:
        return "Not compiled: no graph reached the backend."
    where = " in the measured call" if summary.graphs and summary.eager_calls else ""
    return f"Not compiled{where}: 0 of {detail.op_count} tensor operations ran in a compiled graph."


def _unsettled_text(steadiness: Steadiness | None) -> str | None:
    if steadiness is None or steadiness.state not in ("never", "over_limit"):
        return None
    name = f"`{steadiness.function}`" if steadiness.function else "a function"
    compiles, changing = steadiness.compiles_to_limit, steadiness.changing
    differs = "differs" if len(changing) == 1 else "differ"
    why = f"{names(changing)} {differs} in every call, and " if changing else ""
    after = f"after {counted(compiles or 0, 'compile')}"
    if steadiness.state == "never":
        end = "recompiles each time" if compiles is None else f"runs eagerly {after}"
        return f"Never settles: {why}{name} {end}."
    since = "" if steadiness.limit_call is None else f" from call {steadiness.limit_call} on"
    return f"Over the recompile limit{since}: {why}torch stopped compiling {name} {after}."


def nothing_compiled(diagnosis: Diagnosis) -> CaptureGap | None:
    """Return why a recording without calls is empty: the verdict. Beside calls it is one gap of
    several.
    """
    return None if diagnosis.recording.calls else diagnosis.recording.gap("nothing_compiled")


def other_gaps(diagnosis: Diagnosis) -> list[CaptureGap]:
    """Return the gaps, without the one that is the verdict."""
    verdict = nothing_compiled(diagnosis)
    return [gap for gap in diagnosis.recording.gaps if gap is not verdict]


def calls_text(summary: Counts) -> str:
    """Count the calls, and what was added to them where that compiled something."""
    return join_texts(", ", counted(summary.calls, "call"), repeats_text(summary))


def repeats_text(summary: Counts) -> str | None:
    """Say how often the last call was repeated where that compiled something; None elsewhere."""
    repeated = summary.steadiness.compiles_repeated if summary.steadiness else None
    return f"the last one repeated {times(len(repeated))}" if repeated and any(repeated) else None


def coverage_text(summary: Counts) -> str:
    """Coverage with its counts."""
    detail = summary.coverage_detail
    if detail is None or summary.coverage is None:
        return "coverage unknown" if detail is None else "no tensor operations"
    counts = f"{detail.graph_ops} of {detail.op_count} operations"
    return join_texts(
        ", ", f"coverage {percent(summary.coverage)} ({counts})", uncounted_text(detail)
    )


def uncounted_text(detail: Coverage) -> str | None:
    """Say how many operations count neither as compiled nor as eager; None for none."""
    if not detail.text_ops:
        return None
    operations = counted(detail.text_ops, "operation")
    verb = "isn't" if detail.text_ops == 1 else "aren't"
    return f"{operations} of printing tensors {verb} counted"


# Findings and fixes.


def clusters(findings: Sequence[_Finding]) -> Iterator[list[_Finding]]:
    """Yield findings on one line with one cause, shown as one card: a break and the skipped frame
    it caused.
    """
    order = grouped(
        (
            (
                finding.location.file,
                finding.location.line,
                finding.torch_id if finding.reasons else finding.fingerprint,
            ),
            finding,
        )
        for finding in findings
    )
    # The cause comes before its effect, whatever their severities.
    yield from (sorted(cluster, key=lambda finding: finding.code) for cluster in order.values())


def cost_text(cost: Cost) -> str:
    """Say what a finding costs; empty for what rounds to nothing."""
    call_us, seconds = cost.call_us or 0.0, f"{cost.compile_s or 0.0:.2f}"
    call, pieces = duration(abs(call_us)), []
    if call != duration(0.0):
        share = ""
        if cost.share is not None and abs(cost.share) <= 1:
            share = f" ({percent(abs(cost.share))})"
        said = {"host_gap": f"host gap of {call} per call", "profile": f"{call} per call{share}"}
        pieces.append(said.get(str(cost.call_from), f"{call} per call outside the graphs{share}"))
    if seconds != "0.00":
        pieces.append(f"{seconds} s compiling")
    return ", ".join(pieces)


def fix_text(fix: Fix) -> str:
    """Return a suggestion, and when it holds."""
    return join_texts(", ", fix.title, fix.condition)


def worth_trying(fixes: Sequence[Fix]) -> list[Fix]:
    """Return the suggestions that no trial has ruled out, in their order."""
    return [
        fix for fix in fixes if fix.verdict in WORKING or fix.verdict in ("unproven", "not tried")
    ]


def same_text(compared: Comparison | None, attacked: Attacked | None) -> str | None:
    """Say what stayed the same, and on how many inputs; None if no other inputs were tried."""
    if compared is None or attacked is None or not attacked.count:
        return None
    differing = {difference.kind for difference in (*compared.differences, *attacked.dropped)}
    if compared.retyped is not None:
        differing.add(compared.retyped.kind)
    kinds = [kind for kind in compared.kinds if kind not in differing]
    computed = [kind_text(kind) for kind in kinds if kind not in TEXTS]
    computed += ["text"] * TEXTS.issubset(kinds)
    torchs = listed([kind_text(kind) for kind in attacked.torch_kinds])
    torch_changes = f"; on some, torch.compile itself changes {torchs}" if torchs else ""
    inputs = counted(attacked.count, "other input")
    return f"same {listed(computed, 6)} on {inputs}{torch_changes}" if computed else None


def applied_snippets(treatment: Treatment, *, is_by_hand: bool = False) -> list[tuple[str, str]]:
    """Return the settings and changes of the call among the fixes that were applied, together by
    where they go.

    ``is_by_hand``: without what the edits write.
    """
    settings = () if is_by_hand and treatment.settings_file is not None else treatment.settings
    places = {fix.snippet: fix.place for fix in treatment.tried if fix.is_applied}
    by_place = grouped(
        (place_text(place) if (place := places.get(snippet)) else "", snippet)
        for snippet in (*settings, *treatment.calls)
    )
    return [(place, "\n".join(snippets)) for place, snippets in by_place.items()]


def place_text(place: SnippetPlace) -> str:
    """Say where a snippet goes, as a phrase to begin a line with."""
    called = f"`{place.function}`" if place.function else "the compiled function"
    at = "" if place.file is None else f" at {base_name(place.file)}:{place.line}"
    arguments = " and ".join(f"`{name}`" for name in place.arguments)
    passed = f", with what is passed as {arguments}" if arguments else ""
    return {
        "start": "At the start of the program, after `import torch`",
        "compile": f"In the call to `torch.compile`{at}",
        "compile_call": f"In place of the call to `torch.compile`{at}",
        "first_call": f"Where {called} is called, before the first call{passed}",
        "each_call": f"Where {called} is called, before each call{passed}",
    }[place.where]


def measured_speed(measured: PairedTime, *, has_ends: bool = True) -> str:
    """Say how much faster or slower the call became, or that the measurements don't tell."""
    ratio = measured.shown_ratio
    if measured.is_clear and ratio is None:
        return TOO_NOISY
    if not measured.is_clear or ratio is None or speed_text(ratio) == UNCHANGED:
        low, high = measured.ratio_low, measured.ratio_high
        if not low <= 1 <= high:
            return SAME_SPEED
        text = TOO_NOISY if high > WIDE * low else SAME_SPEED
        ends = f" ({factor_text(low)} to {factor_text(high)} the time)" if has_ends else ""
        return f"{text}{ends}"
    return speed_text(ratio, measured.ratio_low, measured.ratio_high, has_ends=has_ends)


def count_changes(before: Counts, after: Counts) -> Iterator[tuple[str, str, str, str]]:
    """Label, before, after and change of each count that is known and isn't 0 on both sides, then
    of coverage.
    """
    for label, name in _COUNTS.items():
        was, now = getattr(before, name), getattr(after, name)
        if None not in (was, now) and (was or now):
            yield label, str(was), str(now), f"{now - was:+d}" if was != now else ""
    yield "coverage", *percents(before.coverage, after.coverage), ""


def time_changes(treatment: Treatment) -> Iterator[tuple[str, str, str, str]]:
    """Yield the times that they change together: label, before, after, and by how much."""
    for timed in treatment.times:
        label, change = f"steady call, {timed.backend}", measured_speed(timed)
        yield label, duration(timed.before_us), duration(timed.after_us), change


def share_text(share: float | None) -> str:
    """Return a share in percent, or that it's unknown."""
    return UNKNOWN if share is None else percent(share)


def step(change: GuardChange) -> str | None:
    """Return the value that a changed one was compiled for, and the new one, with that of the
    function's last call unless it's the same.

    None if no value is known.
    """
    if change.old is None and change.new is None:
        return None
    old, previous = change.old or change.previous or "?", change.previous
    last = f" (last call: {without_middle(previous)})" if previous not in (None, old) else ""
    return f"{without_middle(old)} → {without_middle(change.new or '?')}{last}"


def inputs_text(graph: Graph) -> str:
    """Return the arguments of a graph, those of one dtype and shape together, and how many
    parameters and buffers it takes.

    A dynamic size of an argument is in its shape, and isn't named again.
    """
    if graph.inputs is None:
        return "not recorded"
    inputs = [item for item in graph.inputs if not item.is_parameter]
    tensors = [item.source for item in inputs if item.kind == "tensor"]
    sizes = tuple(f"{source}.{size}()" for source in tensors for size in ("size", "stride"))
    arguments = [
        item
        for item in inputs
        if item.kind != "symbol" or not (item.source or "").startswith(sizes)
    ]

    def described(item: GraphInput) -> str:
        if item.kind == "tensor":
            device = "" if item.device in (None, "cpu") else f" {item.device}"
            return f"{item.dtype}[{', '.join(map(str, item.shape or ()))}]{device}"
        return "(dynamic)" if item.kind == "symbol" else ""

    named = grouped(
        (described(item), expression(item.source, graph.resumes_at) if item.source else item.name)
        for item in arguments[:_MAX_INPUTS]
    )
    pieces = [f"{', '.join(names)} {kind}".rstrip() for kind, names in named.items()]
    if len(arguments) > _MAX_INPUTS:
        pieces.append(f"{len(arguments) - _MAX_INPUTS} more")
    if parameters := sum(item.is_parameter is True for item in graph.inputs):
        pieces.append(counted(parameters, "parameter"))
    return "; ".join(pieces) or "none"


# Numbers.


def percent_of_limit(share: float, limit: float) -> str:
    """Return a share in whole percent, or in as many digits as it takes to show that it's below a
    limit.

    With a limit of ``0.9``, ``0.9004`` is ``90%`` but ``0.8996`` is ``89.96%``. The limit itself is
    shown exactly.
    """
    from decimal import Decimal

    exact, bound = 100 * Decimal(repr(share)), 100 * Decimal(repr(limit))
    for digits in range(-min(int(exact.as_tuple().exponent), 0)):
        rounded = round(exact, digits)
        is_right = rounded >= bound if exact > bound else rounded == bound
        if exact < bound:
            is_right = rounded < bound
        if is_right:
            return f"{rounded:f}%"
    return f"{exact.normalize():f}%"


def percents(before: float | None, after: float | None) -> tuple[str, str]:
    """Return two shares in percent, or that they're unknown, in as many digits as show that they
    differ.
    """
    texts, digits = (share_text(before), share_text(after)), 0
    while texts[0] == texts[1] and before != after:
        digits += 1
        texts = f"{before:.{digits}%}", f"{after:.{digits}%}"
    return texts


def about_count(number: int) -> str:
    """Return a large number as it is said, with two digits that count: ``94``, ``2,100``, ``2.1
    million``.
    """
    if number >= 100:
        number = int(float(f"{number:.1e}"))
    for size, name in ((10**12, "trillion"), (10**9, "billion"), (10**6, "million")):
        if number >= size:
            return f"{number / size:,.1f}".removesuffix(".0") + f" {name}"
    return f"{number:,}"


def about_time(seconds: float) -> str:
    """Return a long time as it is said: ``50 seconds``, ``12 minutes``, ``3 hours``, ``4 days``."""
    for size, noun in ((365 * 86400, "year"), (86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= 1.5 * size:
            return f"{round(seconds / size):,} {noun}s"
    return counted(round(seconds), "second")
