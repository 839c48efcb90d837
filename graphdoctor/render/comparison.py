"""Two diagnoses side by side: what keeps them apart, the numbers, then the findings that are new, gone and the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from graphdoctor.model.comparison import CountPair, DiagnosisComparison, Numbers, SameFinding, Side, TimePair
from graphdoctor.model.diagnosis import Finding
from graphdoctor.render.cards import clean, finding_card, labelled_rows, write
from graphdoctor.render.words import clusters, counted, duration, percent, times

_UNKNOWN = "not known"


def render_comparison(comparison: DiagnosisComparison, console: Console, *, is_verbose: bool = False) -> None:
    """Write a comparison to a terminal.

    Args:
        comparison: What to show.
        console: Where to.
        is_verbose: Show the whole of each finding, and every finding that is the same.
    """
    for renderable in _sections(comparison, is_verbose=is_verbose):
        write(console, renderable)


def _sections(comparison: DiagnosisComparison, *, is_verbose: bool) -> Iterator[RenderableType]:
    yield _sides(comparison)
    if comparison.mismatches:
        yield Text()
        yield Text("Differences in how they were made", style="bold yellow")
        yield labelled_rows([("note", clean(mismatch.message)) for mismatch in comparison.mismatches])
    yield Text()
    yield _headline(comparison)
    yield Text()
    yield _number_table(comparison.numbers)
    yield from _new(comparison.new, is_verbose=is_verbose)
    yield from _gone(comparison.gone, is_verbose=is_verbose)
    yield from _same(comparison.same, is_verbose=is_verbose)
    yield from _closing(comparison)


# The head.


def _sides(comparison: DiagnosisComparison) -> RenderableType:
    return labelled_rows([("before", _side(comparison.before)), ("after", _side(comparison.after))])


def _side(side: Side) -> Text:
    parts = [side.target.text or "trace log"]
    if side.target.class_name and side.target.class_name not in parts[0]:
        parts.append(side.target.class_name)
    if side.environment.torch:
        parts.append(f"torch {side.environment.torch}")
    if side.target.compile_arguments.get("backend"):
        parts.append(f"backend {side.target.compile_arguments['backend']}")
    text = Text().append_text(clean(parts[0], "bold"))
    for part in parts[1:]:
        text.append(" · ", "dim").append_text(clean(part, "dim"))
    if side.name:
        text.append("\n").append_text(clean(side.name, "dim"))
    return text


def _headline(comparison: DiagnosisComparison) -> Text:
    new, gone, same = (len(findings) for findings in (comparison.new, comparison.gone, comparison.same))
    if not (new or gone or same):
        return Text("No finding on either side.", style="bold")
    style = "bold red" if new else "bold green" if gone else "bold"
    return Text(f"{counted(new, 'new finding')}, {gone} gone, {same} the same.", style=style)


def _number_table(numbers: Numbers) -> Padding:
    """All numbers, those that did not change dimmed; counts that are 0 on both sides left out."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("")
    for heading in ("before", "after", "after/before"):
        table.add_column(heading, justify="right", no_wrap=True)
    for label, pair in _counts(numbers):
        if pair.before or pair.after:
            _add_row(table, label, _count(pair.before), _count(pair.after))
    coverage = numbers.coverage
    _add_row(table, "coverage", _share(coverage.before), _share(coverage.after))
    seconds, call = numbers.compile_time_s, numbers.steady_call_us
    _add_row(table, "compiling", _seconds(seconds.before), _seconds(seconds.after), seconds.ratio)
    _add_row(table, "steady call", _microseconds(call.before), _microseconds(call.after), call.ratio)
    return Padding(table, (0, 0, 0, 2))


def _add_row(table: Table, label: str, before: str, after: str, ratio: float | None = None) -> None:
    shown = "" if ratio is None else f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.2g}"
    table.add_row(label, before, after, shown, style="dim" if before == after else "")


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
    return _UNKNOWN if number is None else str(number)


def _share(share: float | None) -> str:
    return _UNKNOWN if share is None else percent(share)


def _seconds(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else f"{seconds:.2f} s"


def _microseconds(us: float | None) -> str:
    return _UNKNOWN if us is None else duration(us)


def _is_timed(pair: TimePair) -> bool:
    return pair.before is not None and pair.after is not None


# Findings.


def _new(findings: Sequence[Finding], *, is_verbose: bool) -> Iterator[RenderableType]:
    if findings:
        yield Text()
        yield Text("New", style="bold red")
        yield from _cards(findings, is_verbose=is_verbose)


def _gone(findings: Sequence[Finding], *, is_verbose: bool) -> Iterator[RenderableType]:
    """A line each: what is gone needs no suggestion."""
    if not findings:
        return
    yield Text()
    yield Text("Gone", style="bold green")
    if is_verbose:
        yield from _cards(findings, is_verbose=True)
        return
    for finding in findings:
        yield _line(finding, f"{finding.location.shown_file}:{finding.location.line}")


def _cards(findings: Sequence[Finding], *, is_verbose: bool) -> Iterator[RenderableType]:
    for number, cluster in enumerate(clusters(findings)):
        if number:
            yield Text()
        yield from finding_card(cluster, is_verbose=is_verbose)


def _line(finding: Finding, place: str) -> Padding:
    line = Text().append(f"{finding.code} ", "bold yellow").append_text(clean(place))
    return Padding(line.append_text(clean(f"  {finding.message}", "dim")), (0, 0, 0, 2))


def _same(findings: Sequence[SameFinding], *, is_verbose: bool) -> Iterator[RenderableType]:
    """Those that are worse or better, or struck more or less often; all of them when verbose."""
    if not findings:
        return
    shown = [pair for pair in findings if is_verbose or {"severity", "count"} & set(pair.changes)]
    heading = Text("Same", style="bold")
    if len(shown) < len(findings):
        differing = f", severity or count changed in {len(shown)}" if shown else ""
        heading.append(f"  {counted(len(findings), 'finding')}{differing}; -v shows all", "not bold dim")
    yield Text()
    yield heading
    for pair in shown:
        yield _line(pair.after, _moved(pair))
        if changed := _changed(pair, is_verbose=is_verbose):
            yield Padding(clean(changed), (0, 0, 0, 8))


def _moved(pair: SameFinding) -> str:
    line, place = pair.before.location.line, f"{pair.after.location.shown_file}:{pair.after.location.line}"
    return f"{place} (was {line})" if "line" in pair.changes else place


def _changed(pair: SameFinding, *, is_verbose: bool) -> str:
    before, after = pair.before, pair.after
    parts = []
    if "severity" in pair.changes:
        parts.append(f"{before.severity} → {after.severity}")
    if "count" in pair.changes:
        parts.append(f"{times(before.count)} → {times(after.count)}")
    if is_verbose and before.cost and after.cost:
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


def _closing(comparison: DiagnosisComparison) -> Iterator[Text]:
    numbers = comparison.numbers
    hidden = comparison.before.hidden_findings, comparison.after.hidden_findings
    if any(hidden):
        yield Text()
        yield Text(f"Hidden by --own-code, --select or --ignore: {hidden[0]} before, {hidden[1]} after.", style="dim")
    if _is_timed(numbers.compile_time_s) or _is_timed(numbers.steady_call_us):
        yield Text()
        yield Text("Times are one measurement a side, in two processes: runs of one program differ too.", style="dim")
