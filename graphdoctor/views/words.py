"""Phrases that all views share: counts, times and verdicts as plain text.

Comes in: parts of a diagnosis, a comparison or a check. Goes out: text without markup.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from graphdoctor.facts.command import command_line
from graphdoctor.facts.expressions import expression
from graphdoctor.facts.fixes import WORKING, TriedFix
from graphdoctor.facts.watch import CallWatch, WatchedFunction
from graphdoctor.facts.wording import (
    UNCHANGED,
    bytes_text,
    counted,
    duration,
    names,
    percent,
    percent_of_limit,
    percents,
    speed_text,
    times,
    without_middle,
)
from graphdoctor.views.parts import Figure, Note, Row, Rows, Section, Span, Tone

if TYPE_CHECKING:
    from graphdoctor.facts.bench import BenchReport
    from graphdoctor.facts.check import BaselineRun, Budget, CheckReport, TargetCheck, UnusedIgnore, WorseFinding
    from graphdoctor.facts.comparison import Side
    from graphdoctor.facts.counts import Counts, Coverage, Steadiness
    from graphdoctor.facts.cure import CureReport
    from graphdoctor.facts.ddp import DdpSplit
    from graphdoctor.facts.diagnosis import Cost, Diagnosis, Finding, Fix
    from graphdoctor.facts.export import ExportReport
    from graphdoctor.facts.fixes import PairedTime, SnippetPlace, Treatment
    from graphdoctor.facts.profile import ProfileReport
    from graphdoctor.facts.recompiles import GuardChange
    from graphdoctor.facts.recording import (
        BreakEffect,
        CaptureGap,
        CompileCall,
        Environment,
        Graph,
        GraphInput,
        Recording,
        TargetInfo,
    )

UNKNOWN = "unknown"
"""What stands in place of a number."""

SAME_SPEED = "no measurable difference"
"""What stands in place of a ratio whose interval holds 1."""

_MAX_INPUTS = 4
_MAX_SERIES = 10
_MAX_EAGER = 6
_MAX_PARAMETERS = 4


def base_name(file: str) -> str:
    """The last part of a path of any system."""
    return re.split(r"[/\\]", file)[-1]


def first_sentence(text: str) -> str:
    """A text's first paragraph on one line, without the stack that torch prints after a guard's reason."""
    paragraph = re.split(r"\n\s*\n|User stack trace:", text, maxsplit=1)[0]
    return " ".join(paragraph.split())


def bucket_texts(split: DdpSplit) -> Iterator[str]:
    """The parts of a graph that torch split at DDP's buckets, a line each."""
    for bucket in split.buckets:
        size = UNKNOWN if bucket.parameter_bytes is None else bytes_text(bucket.parameter_bytes)
        shown = [f"`{name}`" for name in bucket.parameters[:_MAX_PARAMETERS]]
        more = len(bucket.parameters) - len(shown)
        listed = ", ".join([*shown, *([f"{more} more"] if more else [])]) or "no parameters"
        yield f"{bucket.name}: {counted(bucket.op_count, 'operation')}, {size} of parameters: {listed}"


# The head: what ran, and the verdict.


def title_parts(found: Recording | Side) -> list[str]:
    """What ran: target, class, torch, backend and other arguments of ``torch.compile``."""
    target, environment = found.target, found.environment
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
    regional = [": ".join(filter(None, ("regional", ", ".join(target.regions))))] if target.is_regional else []
    return [*parts, *changes(target), *regional]


def run_title(report: BenchReport | CureReport | ExportReport | ProfileReport) -> tuple[str, ...]:
    """What a study ran, and where: target, class, torch, device."""
    target, environment = report.target, report.environment
    parts = [target.text or "a program"]
    if target.class_name and target.class_name not in parts[0]:
        parts.append(target.class_name)
    if environment is not None:
        parts += [f"torch {environment.torch or UNKNOWN}", environment.device_name or "CPU"]
    return (*parts, *changes(target))


def unknown_section(gaps: Sequence[CaptureGap]) -> Section:
    """What torch or the recording couldn't tell."""
    rows = tuple(Row(gap.code, Note(gap.message, "dim")) for gap in gaps)
    return Section("Unknown", (Rows(rows, "gap"),))


def setting_rows(target: TargetInfo, environment: Environment | None) -> Iterator[Row]:
    """What ran, how, and where."""
    given = {"target": target.text, "file": target.file, "inputs from": target.inputs_from}
    if environment is not None:
        given |= {"built for": environment.torch_build, "Python": environment.python, "platform": environment.platform}
        given["interpreter"] = environment.executable
    settings = {**given, **target.compile_arguments, **target.call_options}
    yield from (Row(name, Span(str(value))) for name, value in settings.items() if value not in (None, False, {}))


def read_more(codes: Iterable[str]) -> Iterator[Note]:
    """Where the first of the rules is explained."""
    if found := sorted(set(codes)):
        yield Note(("Read more: ", Span(f"graphdoctor rule {found[0]}", "code")), "dim")


def changes(target: TargetInfo) -> Iterator[str]:
    """The dtype and the batch size that were asked for."""
    options = target.call_options
    if options.get("dtype") is not None:
        yield str(options["dtype"])
    if options.get("batch") is not None:
        yield f"batch {options['batch']}"


def sentence(diagnosis: Diagnosis) -> tuple[str, Tone]:
    """The verdict in one sentence, and its tone."""
    if (empty := nothing_compiled(diagnosis)) is not None:
        return empty.message, "warning"
    summary = diagnosis.summary
    if (said := _plain_verdict(summary, is_partial=diagnosis.recording.is_partial)) is not None:
        return said
    parts = []
    if summary.coverage is not None:
        parts.append(f"{percent(summary.coverage)} of operations compiled")
    if summary.graphs_per_call is not None:
        parts.append(f"{counted(summary.graphs_per_call, 'graph')} per call")
    elif summary.graphs:
        parts.append(counted(summary.graphs, "graph"))
    if summary.break_sites:
        verb = "breaks" if summary.break_sites == 1 else "break"
        parts.append(f"{counted(summary.break_sites, 'line')} {verb} the graph")
    if summary.skipped_frames:
        parts.append(f"{counted(summary.skipped_frames, 'function')} skipped")
    if summary.recompiles:
        parts.append(_recompiles_text(diagnosis))
    is_bad = bool(summary.skipped_frames or summary.frames_over_limit)
    return " · ".join(parts) or "Nothing was compiled.", "bad" if is_bad else "warning"


def _recompiles_text(diagnosis: Diagnosis) -> str:
    """How many recompiles there were, and their share of the compile time."""
    total = diagnosis.summary.compile_time_s
    costs = [report.cost_s for report in diagnosis.recompiles if report.cost_s is not None]
    share = f", {percent(sum(costs) / total)} of compile time" if costs and total else ""
    return f"{counted(diagnosis.summary.recompiles, 'recompile')}{share}"


def _plain_verdict(summary: Counts, *, is_partial: bool) -> tuple[str, Tone] | None:
    """What to say in place of shares: it never settles, nothing compiled, or nothing is wrong; None otherwise.

    Half a run can't show that nothing is wrong.
    """
    if summary.steadiness is not None and (unsettled := unsettled_text(summary.steadiness)) is not None:
        return unsettled, "bad"
    detail = summary.coverage_detail
    if detail is not None and summary.coverage == 0:
        total = detail.graph_ops + detail.eager_ops
        return f"Not compiled: 0 of {total} tensor operations ran in a compiled graph.", "bad"
    # A script's calls have no numbers; a graph break shows that torch compiled, and was called.
    if detail is None and (summary.calls or summary.break_records) and not summary.graphs and not is_partial:
        return "Not compiled: no graph reached the backend.", "bad"
    is_clean = not (summary.break_sites or summary.skipped_frames or summary.frames_over_limit or is_partial)
    if is_clean and summary.graphs:
        recompiled = f", {counted(summary.recompiles, 'recompile')}" if summary.recompiles else ""
        return f"No graph breaks{recompiled}.", "warning" if recompiled else "good"
    return None


def nothing_to_do(summary: Counts) -> str:
    """What is good about a run without findings, and what it cost."""
    if summary.hidden_findings:
        return "Nothing: no findings are shown."
    parts = []
    detail = summary.coverage_detail
    if detail is not None and detail.graph_ops and not detail.eager_ops:
        graphs = f" in {counted(summary.graphs_per_call, 'graph')}" if summary.graphs_per_call else ""
        parts.append(f"all {counted(detail.graph_ops, 'tensor operation')} of a call run compiled{graphs}")
    if summary.compiles and not summary.recompiles:
        parts.append("nothing recompiled")
    good = f": {', and '.join(parts)}" if parts else ""
    seconds = summary.compile_time_s
    cost = f" Compiling took {seconds:.2f} s." if seconds else ""
    return f"Nothing{good}.{cost}"


def unsettled_text(steadiness: Steadiness) -> str | None:
    """That the program never settles, or what took it over the recompile limit; None if neither is so."""
    name = f"`{steadiness.function}`" if steadiness.function else "a function"
    compiles = steadiness.compiles_to_limit
    if steadiness.state == "never":
        end = "recompiles each time" if compiles is None else f"runs eagerly after {counted(compiles, 'compile')}"
        return f"Never settles: {_because(steadiness.changing)}{name} {end}."
    if steadiness.state == "over_limit":
        since = "" if steadiness.limit_call is None else f" from call {steadiness.limit_call} on"
        end = f"torch stopped compiling {name} after {counted(compiles or 0, 'compile')}"
        return f"Over the recompile limit{since}: {_because(steadiness.changing)}{end}."
    return None


def _because(changing: Sequence[str]) -> str:
    if not changing:
        return ""
    return f"{names(changing)} {'differs' if len(changing) == 1 else 'differ'} in every call, and "


def compiles_text(steadiness: Steadiness) -> str | None:
    """How many compiles each call made, for a program that has not settled at once; None for one that has."""
    if steadiness.compiling_calls is not None:
        return f"the last {counted(steadiness.compiling_calls, 'call')} of `{steadiness.function}` all compiled"
    if not steadiness.compiles_per_call:
        return None
    if steadiness.state in (None, "settled") and not any(steadiness.compiles_repeated or ()):
        return None
    text = f"compiles per call {_series(steadiness.compiles_per_call)}"
    repeated = steadiness.compiles_repeated
    return f"{text}; repeating the last one {_series(repeated)}" if repeated else text


def _series(numbers: Sequence[int]) -> str:
    shown = [str(number) for number in numbers]
    if len(shown) > _MAX_SERIES:
        shown = [*shown[: _MAX_SERIES - 1], "…", shown[-1]]
    return ", ".join(shown)


def coverage_text(summary: Counts) -> str:
    """Coverage with its counts."""
    detail = summary.coverage_detail
    if detail is None:
        return "coverage unknown"
    total = detail.graph_ops + detail.eager_ops
    if summary.coverage is None:
        return "no tensor operations"
    return f"coverage {percent(summary.coverage)} ({detail.graph_ops} of {total} operations)"


def count_texts(summary: Counts, watch: CallWatch | None) -> list[str]:
    """The counts and times of a run, each with its noun; ``watch`` is None if it isn't a script, or wasn't watched."""
    parts = [counted(summary.calls, "call")] if summary.calls else []
    parts += [
        counted(summary.graphs, "graph"),
        counted(summary.break_sites, "break site"),
        counted(summary.skipped_frames, "skipped frame"),
    ]
    if summary.recompiles:
        parts.append(counted(summary.recompiles, "recompile"))
    if summary.frames_over_limit:
        parts.append(f"{counted(summary.frames_over_limit, 'frame')} over the recompile limit")
    parts.append(coverage_text(summary))
    if watch is not None and (steady := steady_time_text(summary.steady_call_us, watch)) is not None:
        parts.append(steady)
    if summary.compile_time_s is not None:
        parts.append(f"{summary.compile_time_s:.2f} s compiling")
    if summary.steadiness is not None and (compiles := compiles_text(summary.steadiness)) is not None:
        parts.append(compiles)
    return parts


def figures(diagnosis: Diagnosis) -> Iterator[Figure]:
    """The counts and times of a run, in the order people look for them."""
    summary, watch = diagnosis.summary, diagnosis.recording.watch
    findings = "findings" if diagnosis.findings else None
    if watch is not None:
        watched = f"{sum(found.watched_calls for found in watch.functions)} watched"
        yield Figure("calls", UNKNOWN if watch.calls is None else f"{watch.calls:,}", watched)
    else:
        failed = f"{summary.calls_failed} failed" if summary.calls_failed else ""
        yield Figure("calls", str(summary.calls), failed, "bad" if failed else None, "calls")
    yield Figure("graphs", str(summary.graphs), link="graphs")
    reported = f"reported {times(summary.break_records)}" if summary.break_records else ""
    yield Figure("break sites", str(summary.break_sites), reported, "warning" if reported else None, findings)
    eager = summary.skipped_frames + summary.frames_over_limit
    kinds = {"skipped": summary.skipped_frames, "over the limit": summary.frames_over_limit}
    why = ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)
    yield Figure("functions running eagerly", str(eager), why, "bad" if eager else None, findings)
    causes = f"for {counted(summary.recompile_causes, 'cause')}" if summary.recompiles else ""
    yield Figure("recompiles", str(summary.recompiles), causes, "warning" if causes else None, "recompiles")
    seconds = summary.compile_time_s
    took = UNKNOWN if seconds is None else f"{seconds:.2f} s"
    yield Figure("compile time", took, counted(summary.compiles, "compile"), link="time")
    if watch is not None and summary.steady_call_us is not None:
        each = f"{len(watch.own)} functions" if len(watch.own) > 1 else ""
        yield Figure("steady call", duration(summary.steady_call_us), each)


def coverage_sentence(diagnosis: Diagnosis) -> str:
    """How many tensor operations of a steady call ran in graphs, and which ones didn't."""
    detail, watch = diagnosis.summary.coverage_detail, diagnosis.recording.watch
    if detail is None or diagnosis.summary.coverage is None:
        return f"Coverage is unknown{': the steady call has no tensor operations' if detail else ''}."
    of = "one steady call of each compiled function" if watch and len(watch.own) > 1 else "a steady call"
    total = counted(detail.graph_ops + detail.eager_ops, "tensor operation")
    counts = list(detail.eager_op_names.items())
    shown = ", ".join(f"{name} ×{count}" if count > 1 else name for name, count in counts[:_MAX_EAGER])
    named = f": {shown}{' …' if len(counts) > _MAX_EAGER else ''}" if shown else ""
    share = percent(diagnosis.summary.coverage)
    return (
        f"{share} compiled: {detail.graph_ops} of {total} of {of} ran in graphs, {detail.eager_ops} ran eagerly{named}."
    )


def watched_texts(watch: CallWatch) -> list[str]:
    """What watching showed of each compiled function, if there are several; those of one line together."""
    lines: dict[tuple[str, str | None, int | None, str | None], list[WatchedFunction]] = {}
    for found in watch.functions:
        if found.not_covered != "nested":
            lines.setdefault((found.compiled, found.file, found.line, found.process), []).append(found)
    texts = [_watched_text(CallWatch(functions=tuple(found), cost_s=0.0)) for found in lines.values()]
    return texts if len(texts) > 1 else []


def _watched_text(watch: CallWatch) -> str:
    first = watch.functions[0]
    process = "" if first.process is None else f" in {first.process}"
    place = "" if first.file is None else f" ({base_name(first.file)}:{first.line})"
    several = f", compiled {times(len(watch.functions))}" if len(watch.functions) > 1 else ""
    parts = [f"{first.compiled}{place}{process}{several}: {_share_of(watch.coverage)}"]
    if watch.graph_runs is not None:
        parts.append(f"{counted(watch.graph_runs, 'graph')} per call")
    parts.append(steady_time_text(watch.steady_us, watch) or "steady time unknown")
    if (calls := watch.calls) is not None:
        parts.append("1 call" if calls == 1 else f"{calls:,} calls")
    return " · ".join(parts)


def steady_time_text(steady_us: float | None, watch: CallWatch) -> str | None:
    """The time of a steady call, or of one of each compiled function; None if unknown."""
    if steady_us is None:
        return None
    return f"{duration(steady_us)} {'for a call of each' if len(watch.own) > 1 else 'per steady call'}"


def _share_of(coverage: Coverage | None) -> str:
    if coverage is None:
        return "coverage unknown"
    if coverage.share is None:
        return "no tensor operations"
    return f"{percent(coverage.share)} of {counted(coverage.graph_ops + coverage.eager_ops, 'operation')} compiled"


def watching_text(watch: CallWatch) -> str:
    """How many of a script's calls were watched, and what that cost it."""
    watched = sum(found.watched_calls for found in watch.functions)
    calls = watch.calls
    of = f"{watched:,} of {calls:,} calls" if calls is not None else counted(watched, "call")
    cost = f"{watch.cost_s:.1f} s" if watch.cost_s >= 1 else f"{math.ceil(watch.cost_s * 1e3)} ms"
    return f"Watched {of}; watching added about {cost}."


def nothing_compiled(diagnosis: Diagnosis) -> CaptureGap | None:
    """Why a recording without calls is empty, if it is: it's the verdict. Beside calls it's one gap of several."""
    return None if diagnosis.recording.calls else diagnosis.recording.gap("nothing_compiled")


def other_gaps(diagnosis: Diagnosis) -> list[CaptureGap]:
    """The gaps, without the one that is the verdict."""
    verdict = nothing_compiled(diagnosis)
    return [gap for gap in diagnosis.recording.gaps if gap is not verdict]


def compile_calls_text(calls: Sequence[CompileCall]) -> list[str]:
    """Where a script called torch.compile and with which arguments, each place once."""
    counts: dict[str, int] = {}
    for call in calls:
        arguments = "".join(f", {name}={value}" for name, value in call.arguments.items())
        text = f"torch.compile({call.compiled}{arguments}) at {call.file}:{call.line}"
        counts[text] = counts.get(text, 0) + 1
    return [f"{text}, {times(count)}" if count > 1 else text for text, count in counts.items()]


# Findings.


def clusters(findings: Sequence[Finding]) -> Iterator[list[Finding]]:
    """Findings on one line with one cause, shown as one card: a break and the skipped frame it caused."""
    order: dict[tuple[str, int, str | None], list[Finding]] = {}
    for finding in findings:
        key = (finding.location.file, finding.location.line, finding.torch_id)
        if not finding.reasons:
            key = (*key[:2], finding.fingerprint)
        order.setdefault(key, []).append(finding)
    for cluster in order.values():
        # The cause comes before its effect, whatever their severities.
        yield sorted(cluster, key=lambda finding: finding.code)


def caused_text(finding: Finding) -> str:
    """What a break caused, on one line; empty for other findings."""
    effects = finding.effects
    parts = [f"broke {times(finding.count)}"] if finding.break_effects else []
    if "raised" in finding.break_effects:
        parts.append("raised an error because of fullgraph=True")
    parts += [f"`{name}` skipped: all of it runs eagerly" for name in effects.skipped_frames]
    parts += [f"the rest of `{name}` runs eagerly" for name in effects.rest_eager_frames]
    if effects.graphs:
        parts.append(counted(len(effects.graphs), "graph"))
    if effects.resume_functions:
        parts.append(counted(len(effects.resume_functions), "resume function"))
    return ", ".join(parts)


def cost_text(cost: Cost) -> str:
    """What a finding costs; empty for what rounds to nothing."""
    parts = []
    share = f" ({percent(abs(cost.share))})" if cost.share is not None else ""
    call = duration(abs(cost.call_us or 0.0))
    if call != duration(0.0) and cost.call_us is not None:
        if cost.call_from == "fix":
            change = "saves" if cost.call_us >= 0 else "adds"
            parts.append(f"fixing it {change} {call} per call{share}, timed with the verified fix")
        elif cost.call_from == "host_gap":
            parts.append(f"host gap of {call} per call")
        elif cost.call_from == "profile":
            parts.append(f"{call} per call{share}")
        else:
            parts.append(f"{call} per call outside the graphs{share}")
    seconds = f"{cost.compile_s or 0.0:.2f}"
    if seconds != "0.00":
        parts.append(f"{seconds} s compiling")
    return ", ".join(parts)


def apply_command(treatment: Treatment, target: TargetInfo) -> str | None:
    """The command that writes the verified edits, for a shell; None if the run was not one of a target."""
    choices = treatment.choices
    if choices is None:
        is_unsafe = any(fix.is_applied and not fix.is_safe for fix in treatment.tried)
        return command_line(target, "fix", *(["--unsafe-fixes"] if is_unsafe else []), "--apply")
    flags = [flag for code in choices.select for flag in ("--select", code)]
    flags += [flag for code in choices.ignore for flag in ("--ignore", code)]
    flags += ["--own-code"] if choices.is_own_code_only else []
    flags += ["--unsafe-fixes"] if choices.is_unsafe_tried else []
    flags += {"none": ["--no-timing"], "each": ["--timing", "each"]}.get(choices.timing, [])
    return command_line(target, "fix", *flags, "--apply")


def host_gap_note(findings: Sequence[Finding]) -> str | None:
    """What a host gap leaves out; None if no finding's cost is one."""
    if all(finding.cost is None or finding.cost.call_from != "host_gap" for finding in findings):
        return None
    return (
        "A host gap is the time that the host takes between two graphs. Lost fusion and time on the device aren't in "
        "it; only a verified fix measures them (--try)."
    )


def hidden_text(diagnosis: Diagnosis) -> str | None:
    """How many findings were left out; None for none."""
    count = diagnosis.summary.hidden_findings
    return f"{counted(count, 'finding')} hidden by --own-code, --select or --ignore." if count else None


def snippet_place(fix: Fix | TriedFix) -> SnippetPlace | None:
    """Where a fix's snippet goes; None if it has none, or if that isn't known."""
    return fix.snippet_place if isinstance(fix, TriedFix) else fix.place


def applied_snippets(treatment: Treatment) -> list[tuple[str, str]]:
    """The settings and changes of the call among the fixes that were applied, together by where they go."""
    places = {fix.snippet: fix.snippet_place for fix in treatment.tried if fix.is_applied and fix.snippet is not None}
    found: dict[str, list[str]] = {}
    for snippet in (*treatment.settings, *treatment.calls):
        place = places.get(snippet)
        found.setdefault("" if place is None else place_text(place), []).append(snippet)
    return [(place, "\n".join(snippets)) for place, snippets in found.items()]


def place_text(place: SnippetPlace) -> str:
    """Where a snippet goes, as a phrase to begin a line with."""
    called = f"`{place.function}`" if place.function else "the compiled function"
    match place.where:
        case "start":
            return "At the start of the program, after `import torch`"
        case "compile":
            at = "" if place.file is None else f" at {base_name(place.file)}:{place.line}"
            return f"In the call to `torch.compile`{at}"
        case "compile_call":
            at = "" if place.file is None else f" at {base_name(place.file)}:{place.line}"
            return f"In place of the call to `torch.compile`{at}"
        case "first_call":
            return f"Where {called} is called, before the first call{_passed(place)}"
        case "each_call":
            return f"Where {called} is called, before each call{_passed(place)}"
    line, end = place.line, place.end_line
    lines = f"lines {line} to {end}" if end is not None and end != line else f"line {line}"
    return f"In {called}, {'before' if place.where == 'before' else 'in place of'} {lines}"


def written_lines(fix: Fix) -> list[str]:
    """A suggestion's edit, or its code with a line above it that says where it goes; empty if it has neither."""
    if fix.diff:
        return fix.diff.splitlines()
    if fix.snippet is None:
        return []
    above = [] if fix.place is None else [f"{place_text(fix.place)}:"]
    return [*above, *fix.snippet.splitlines()]


def _passed(place: SnippetPlace) -> str:
    names = " and ".join(f"`{name}`" for name in place.arguments)
    return f", with what is passed as {names}" if names else ""


def worth_trying(fixes: Sequence[Fix]) -> list[Fix]:
    """The suggestions that no trial has ruled out, in their order."""
    return [fix for fix in fixes if fix.verdict in WORKING or fix.verdict in ("unproven", "not tried")]


def suggested(fix: Fix, title: str | None = None) -> str:
    """A suggestion with its verdict; ``title`` is in the view's own markup, None for plain text."""
    shown = fix.title if title is None else title
    return shown if fix.verdict == "not tried" else f"{shown} ({fix.verdict})"


# Graphs.


def inputs_text(graph: Graph) -> str:
    """The arguments of a graph, those of one dtype and shape together, and how many parameters and buffers it takes.

    A dynamic size of an argument is in its shape, and isn't named again.
    """
    inputs = graph.inputs
    if inputs is None:
        return "not recorded"
    parameters = sum(item.is_parameter is True for item in inputs)
    tensors = [item.source for item in inputs if item.kind == "tensor" and item.source]
    arguments = [item for item in inputs if not item.is_parameter and not _is_size(item, tensors)]
    names: dict[str, list[str]] = {}
    for item in arguments[:_MAX_INPUTS]:
        names.setdefault(_described(item), []).append(
            expression(item.source, graph.resumes_at) if item.source else item.name
        )
    parts = [f"{', '.join(named)} {described}".rstrip() for described, named in names.items()]
    if len(arguments) > _MAX_INPUTS:
        parts.append(f"{len(arguments) - _MAX_INPUTS} more")
    if parameters:
        parts.append(counted(parameters, "parameter"))
    return "; ".join(parts) or "none"


def _is_size(item: GraphInput, tensors: Sequence[str]) -> bool:
    """Whether it is a size or stride of one of these tensors."""
    source = item.source or ""
    return item.kind == "symbol" and any(source.startswith((f"{one}.size()", f"{one}.stride()")) for one in tensors)


def _described(item: GraphInput) -> str:
    """What torch knows about an input besides its name."""
    if item.kind == "tensor":
        device = "" if item.device in (None, "cpu") else f" {item.device}"
        return f"{item.dtype}[{', '.join(map(str, item.shape or ()))}]{device}"
    return "(dynamic)" if item.kind == "symbol" else ""


# Fixes together.


def uncovered_fixes(treatment: Treatment, findings: Sequence[Finding]) -> list[TriedFix]:
    """Fixes of breaks and recompiles that only showed once other fixes were applied, in the order of their trials."""
    shown = {finding.fingerprint for finding in findings}
    return [fix for fix in treatment.tried if not fix.is_on_untouched and fix.fingerprint not in shown]


def measured_speed(measured: PairedTime) -> str:
    """How much faster or slower the call became, if the measurements tell; otherwise that they don't."""
    if measured.ratio_low <= 1 <= measured.ratio_high or speed_text(measured.ratio) == UNCHANGED:
        return SAME_SPEED
    return speed_text(measured.ratio, measured.ratio_low, measured.ratio_high)


def measured_rows(before: Counts, after: Counts) -> Iterator[tuple[str, str, str]]:
    """What all verified fixes change together: label, before, after."""
    yield "break sites", str(before.break_sites), str(after.break_sites)
    yield "skipped frames", str(before.skipped_frames), str(after.skipped_frames)
    yield "graphs", str(before.graphs), str(after.graphs)
    yield "compiles", str(before.compiles), str(after.compiles)
    yield "recompiles", str(before.recompiles), str(after.recompiles)
    if before.frames_over_limit or after.frames_over_limit:
        yield "frames over the limit", str(before.frames_over_limit), str(after.frames_over_limit)
    if before.cuda_graphs is not None and after.cuda_graphs is not None:
        yield "CUDA graphs", str(before.cuda_graphs), str(after.cuda_graphs)
    yield "coverage", *share_changes(before.coverage, after.coverage)


def timed_rows(treatment: Treatment) -> Iterator[tuple[str, str, str, str]]:
    """The times that all verified fixes change together: label, before, after, and by how much."""
    if (cold := treatment.cold_compile) is not None:
        change = speed_text(cold.after_s / cold.before_s) if cold.before_s else ""
        yield f"compiling, {cold.backend}", f"{cold.before_s:.1f} s", f"{cold.after_s:.1f} s", change
    for timed in treatment.times:
        label, change = f"steady call, {timed.backend}", measured_speed(timed)
        yield label, duration(timed.before_us), duration(timed.after_us), change


# The gate.


def finding_line(finding: Finding, text: str | None = None) -> str:
    """A finding on one line: code, place, and its message unless another text is given."""
    return f"{finding.code} {finding.location.shown_file}:{finding.location.line}  {text or finding.message}"


def unused_text(ignore: UnusedIgnore) -> str:
    """An ignore that matches nothing, on one line."""
    place = ignore.file if ignore.line is None else f"{ignore.file}:{ignore.line}"
    what = f"ignore[{','.join(ignore.codes)}]" if ignore.codes else "ignore"
    return f"{place}  {what} matches no finding{f': {ignore.why}' if ignore.why else ''}"


def budget_value(budget: Budget) -> str:
    """What was measured."""
    return UNKNOWN if budget.value is None else _budget_number(budget, budget.value)


def budget_limit(budget: Budget) -> str:
    """What is allowed: ``must be at most 1``."""
    return f"must be at {'least' if budget.name == 'min-coverage' else 'most'} {_budget_number(budget, budget.limit)}"


def _budget_number(budget: Budget, number: float) -> str:
    return percent_of_limit(number, budget.limit) if budget.name == "min-coverage" else f"{number:g}"


def worse_text(worse: WorseFinding) -> str:
    """What a known finding does now and what it did in the baseline, as a clause."""
    now, before = worse.finding, worse.before
    return (
        f"torch {_done(now.break_effects, now.effects.skipped_frames, now.effects.rest_eager_frames)}; in the baseline "
        f"it {_done(before.break_effects or (), before.skipped_frames, before.rest_eager_frames)}"
    )


def _done(effects: Sequence[BreakEffect], skipped: Sequence[str], rest_eager: Sequence[str]) -> str:
    parts = [f"skips {_named(skipped)}"] if skipped else []
    parts += [f"runs the rest of {_named(rest_eager)} eagerly"] if rest_eager else []
    parts += ["raises an error"] if "raised" in effects else []
    return ", and ".join(parts) or "resumes after the break"


def _named(functions: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in sorted(functions))


def more_eager_texts(target: TargetCheck) -> Iterator[str]:
    """What runs eagerly and didn't in the baseline, whichever finding is to blame."""
    if target.newly_eager:
        names = ", ".join(f"`{name}`" for name in target.newly_eager)
        yield f"{names} {'runs' if len(target.newly_eager) == 1 else 'run'} eagerly, but not in the baseline"
    if target.has_lost_coverage and target.diagnosis is not None and target.baseline_run is not None:
        before, now = target.baseline_run, target.diagnosis.summary
        known = f"in the baseline it is {share_text(before.coverage)} ({before.eager_ops} of {before.op_count})"
        if now.coverage is None or now.coverage_detail is None:
            yield f"coverage is unknown; {known}"
        else:
            total = now.coverage_detail.graph_ops + now.coverage_detail.eager_ops
            eager = f"{now.coverage_detail.eager_ops} of {total} operations run eagerly"
            yield f"coverage is {percent(now.coverage)} ({eager}); {known}"


def run_changes(before: BaselineRun | None, now: BaselineRun) -> Iterator[str]:
    """How a run differs from the baseline's before, which None stands in for if it had none."""
    if before is None:
        return
    if before.calls != now.calls:
        yield f"calls: {before.calls} → {now.calls}"
    if before.graphs != now.graphs:
        yield f"graphs: {before.graphs} → {now.graphs}"
    if before.coverage != now.coverage:
        old, new = share_changes(before.coverage, now.coverage)
        yield f"coverage: {old} → {new}"
    yield from (f"now eager: {name}" for name in now.eager_functions if name not in before.eager_functions)


def baseline_notes(target: TargetCheck) -> Iterator[str]:
    """What limits the comparison with the baseline, in sentences."""
    run = target.baseline_run
    if target.lacks_run:
        yield (
            "The baseline has findings alone: an older graphdoctor wrote it, so graphs, coverage and effects weren't "
            "compared. graphdoctor baseline --update adds them."
        )
    elif run is not None and target.diagnosis is not None and run.calls != target.diagnosis.summary.calls:
        now = target.diagnosis.summary.calls
        yield f"This run made {counted(now, 'call')}, the baseline's {run.calls}, so findings can differ for that."


def check_verdict(report: CheckReport) -> str:
    """How many targets failed and crashed, without a period."""
    states = [target.state for target in report.targets]
    if not states:
        return f"No targets ran: {counted(len(report.skipped), 'target')} skipped"
    targets = counted(len(states), "target")
    counts = [(states.count("failed"), "failed"), (states.count("crashed"), "crashed (results unknown)")]
    (number, outcome), *rest = [pair for pair in counts if pair[0]] or [(len(states), "passed")]
    subject = targets if number == len(states) else f"{number} of {targets}"
    return ", ".join([f"{subject} {outcome}", *(f"{number} {outcome}" for number, outcome in rest)])


def share_text(share: float | None) -> str:
    """A share in percent, or that it's unknown."""
    return UNKNOWN if share is None else percent(share)


def share_changes(before: float | None, after: float | None) -> tuple[str, str]:
    """Two shares in percent, or that they're unknown, in as many digits as show that they differ."""
    return (share_text(before), share_text(after)) if before is None or after is None else percents(before, after)


def cost_changes(before: Finding, after: Finding) -> Iterator[str]:
    """How the costs of a finding changed, as far as both were measured."""
    old, new = before.cost, after.cost
    if old is None or new is None:
        return
    if old.call_us is not None and new.call_us is not None and old.call_from == new.call_from:
        yield f"{duration(old.call_us)} → {duration(new.call_us)} per call"
    if old.compile_s is not None and new.compile_s is not None:
        yield f"{old.compile_s:.2f} s → {new.compile_s:.2f} s compiling"


def step(change: GuardChange) -> str | None:
    """A changed value in the function's last call and now, with what the entry was compiled for unless it's the same.

    None if no value is known.
    """
    if change.old is None and change.new is None:
        return None
    new = without_middle(change.new or "?")
    if change.old is None or change.previous == change.old:
        return f"{without_middle(change.previous or '?')} → {new}"
    before = "" if change.previous is None else f"{without_middle(change.previous)} → "
    return f"{before}{new}, compiled for {without_middle(change.old)}"
