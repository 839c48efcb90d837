"""A bench: the answer, what compiling gains and costs, what runs, what holds variants back, how it
was measured.

Comes in: a ``BenchReport``. Goes out: a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphdoctor.facts.base import grouped
from graphdoctor.facts.bench import (
    EAGER,
    BenchPart,
    BenchReport,
    Correctness,
    Stages,
    Sweep,
    Variant,
    VariantStatus,
)
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.facts.kernels import KernelShare
from graphdoctor.facts.trials import ResultError
from graphdoctor.views import measures
from graphdoctor.views.finding_cards import finding_rows
from graphdoctor.views.html.bench import payoff_drawing, speed_drawing, sweep_drawing
from graphdoctor.views.measures import (
    EMPTY,
    bytes_text,
    call_cell,
    interval_text,
    rate_text,
    seconds_text,
    time_text,
)
from graphdoctor.views.next_step import after_bench
from graphdoctor.views.parts import (
    Block,
    Cell,
    Code,
    Column,
    Drawing,
    Figure,
    Figures,
    Note,
    Row,
    Rows,
    Section,
    Span,
    Table,
    TableRow,
    Tone,
    Verdict,
    View,
    plain_text,
)
from graphdoctor.views.words import (
    SAME_SPEED,
    TOO_NOISY,
    UNKNOWN,
    about_count,
    setting_rows,
    study_view,
    unknown_section,
)
from graphdoctor.wording import counted, factor_text, join_texts, kind_text, listed, shortened

_REASON = 300
"""Characters of a reason that is shortened."""
_ENDED: dict[VariantStatus, Tone] = {"wrong": "bad", "failed": "bad", "skipped": "warning"}
_GAINS = {
    "results": "Outputs, gradients and state beside eager mode's: identical, correct but for rounding, or wrong.",
    "compile": "What compiling adds to the first calls: with an empty cache on disk, and warm, after a restart; or "
    "with the caches as they are.",
    "call": "The median of steady calls in a row, as in a loop, with their quartiles.",
    "call alone": "The same of calls that are each waited for until the device is done.",
    "best call": "The median of the second shortest round, which the speed-up is of where calls wait for their host.",
    "kernels": "The part of a call in a row in which the GPU works, by torch.profiler.",
    "speed-up": "How many times as fast as eager mode, with the 95% interval.",
    "pays off after": "Calls until the time spent compiling is won back: after a cold start, and warm.",
}
_RUNS = {
    "graphs": "Graphs that torch compiled.",
    "breaks": "Lines that break the graph.",
    "recompiles": "How often torch compiled a function again.",
    "launches": "Kernels that one call launches, those inside CUDA graphs included.",
    "CUDA graphs": "Graphs that torch recorded as CUDA graphs, and those that it skipped.",
}
_MEMORY = {
    True: ("peak memory", "The most of torch's allocator during steady calls."),
    False: (
        "process memory",
        "The most that the whole process held during steady calls, torch itself included.",
    ),
}
"""By whether it is a GPU's."""
_HOW = (
    "Each variant has a process of its own. Eager mode has two where the difference is small: what these differ by is "
    "the noise.",
    "Calls are timed in rounds: in each, every process has its turn, so that drift of the machine hits all. A speed-up "
    "is the median of the rounds' ratios.",
    "Compile times are what the first calls take longer than later ones, less what eager mode's do. Cold: in a process "
    "with an empty cache on disk; warm: in a second process with what the first left there. Without these, the caches "
    "are the user's, and the first variant's compile is recorded.",
)
_PARTS: dict[BenchPart, str] = {
    "cold": "an empty cache (--cold)",
    "results": "results (--check-results)",
    "causes": "kernels and guards (--why)",
}


def bench_view(report: BenchReport) -> View:
    """The bench as a tree."""
    return study_view(report, "bench", _parts(report), after_bench(report))


def _parts(report: BenchReport) -> Iterator[Block]:
    best, variants = report.verdict.best, report.variants
    yield Verdict(
        report.verdict.text, "bad" if best is None else "warning" if best == EAGER else "good"
    )
    sizes: list[Block] = []
    if report.sweep is not None:
        name = " and ".join(report.sweep.sources)
        sizes.append(
            Section("Sizes", (*sweep_drawing(report.sweep, name), _sizes(report.sweep, name)))
        )
        # Of a sweep, the largest size that eager mode ran with is shown in full.
        ran = [
            one for one in report.sweep.points if one.variants and one.variants[0].status == "ok"
        ]
        if ran:
            shown = max(ran, key=lambda one: one.size)
            variants = shown.variants
            sizes.append(Note(("With ", Span(name, "code"), f" = {shown.size:,}")))
    if measured := _measured_text(report, variants):
        yield Note(Span(measured), "dim")
    if report.noise is not None and report.noise.is_noisy:
        yield Note(measures.noise_text(report.noise), "warning")
    if left := [text for part, text in _PARTS.items() if part not in report.measured]:
        yield Note(
            Span(f"Not measured: {listed(left)}{'; --thorough: all' if len(left) > 1 else ''}."),
            "dim",
        )
    yield from sizes
    gains = _gains_table(report, variants)
    if figures := tuple(_figures(gains, best)):
        yield Figures(figures, show="long")
    yield Section("Variants", (gains, _runs_table(report, variants), *speed_drawing(variants)))
    yield Section("When compiling pays", payoff_drawing(variants, best), "Payoff")
    held = tuple(
        row for finding, names in _findings(variants) for row in finding_rows(finding, names)
    )
    yield Section("What holds variants back", Rows(held, "finding"), "Reasons")
    ended = (*(row for one in variants for row in _ended(one)), *_ended_sizes(report, variants))
    yield Section("Failed, wrong or skipped", Rows(ended, "variant"), "Ended")
    yield Section("Results", Rows(_notes(variants), "note"))
    yield unknown_section(report.gaps)
    kernels = tuple(
        part
        for one in variants
        if one.kernels is not None
        for part in _kernels(one.name, one.kernels)
    )
    yield Section("Where the time goes", kernels, "Kernels", show="long")
    yield Section(
        "How it was measured",
        (*_HOW, Rows(_details(report, variants), "figure")),
        "Measured",
        show="long",
    )


def _measured_text(report: BenchReport, variants: Sequence[Variant]) -> str:
    """Which call was timed, how often, and how steady the machine was."""
    rounds, works_on = (
        max((one.speedup.rounds for one in variants if one.speedup is not None), default=0),
        report.throughput,
    )
    return join_texts(
        " · ",
        f"call: {report.call}" if report.call else None,
        None if works_on is None else counted(works_on.items, works_on.unit.removesuffix("s")),
        counted(rounds, "round") if rounds else None,
        None
        if report.noise is None or report.noise.is_noisy
        else measures.noise_text(report.noise),
    )


def _figures(gains: Table, best: str | None) -> Iterator[Figure]:
    """What the table says of the best variant; nothing if it is eager mode."""
    for row in gains.rows if best != EAGER else ():
        if plain_text(row[0].text) == best:
            for column, cell in zip(gains.columns[1:], row[1:], strict=True):
                yield Figure(
                    plain_text(column.heading),
                    plain_text(cell.text),
                    plain_text(cell.detail),
                    cell.tone,
                )


# The tables.


def _sizes(sweep: Sweep, name: str) -> Table:
    """A row for each size, with each variant's speed-up and call."""
    named = list(
        dict.fromkeys(variant.name for point in sweep.points for variant in point.variants)
    )
    rows = []
    for point in sweep.points:
        found = {variant.name: _size(variant) for variant in point.variants}
        rows.append((Cell(f"{point.size:,}"), *(found.get(one, EMPTY) for one in named)))
    headings = tuple(Column(Span(one)) for one in (name, *named))
    return Table(headings, rows, "size", label="Speed-up and call of each size")


def _size(variant: Variant) -> Cell:
    """A variant with one size: its speed-up, and as its detail, its call; of eager mode, the call
    alone.
    """
    if variant.status != "ok" and variant.call_us is None:
        return _result(variant)
    call = plain_text(call_cell(variant.call_us).text)
    if variant.name == EAGER:
        return Cell(call)
    found = _speedup(variant)
    text = (
        factor_text(variant.speedup.ratio)
        if variant.speedup is not None
        else plain_text(found.text)
    )
    return (
        Cell(f"{text} wrong", call, "bad")
        if variant.status == "wrong"
        else Cell(text, call, found.tone)
    )


def _table(
    variants: Sequence[Variant],
    best: str | None,
    headings: Mapping[str, str],
    cells: list[list[Cell]],
    label: str,
) -> Table:
    """A row for each variant: its name with the blocks that it compiles, and its cells."""
    rows: list[TableRow] = []
    for one, own in zip(variants, cells, strict=True):
        if any(cell.text for cell in own):
            regions = Span(", ".join(one.regions)) if one.regions else ""
            tone: Tone | None = "good" if one.name == best != EAGER else None
            rows.append((Cell(Span(one.name, "code"), regions, tone), *own))
    found = (Column(heading, meaning=meaning) for heading, meaning in headings.items())
    return Table((Column("variant"), *found), rows, "variant", label=label)


def _gains_table(report: BenchReport, variants: Sequence[Variant]) -> Table:
    """What compiling costs and what it gains."""
    cells = []
    has_results = "results" in report.measured
    for one in variants:
        has_run, is_eager = one.status in ("ok", "wrong"), one.name == EAGER
        result = _result(one) if has_results or one.status != "ok" else EMPTY
        compiled = _compile(one) if has_run and not is_eager else EMPTY
        times = [call_cell(one.alone_us), _time(one.best_us), _time(one.device_us)]
        won = [_speedup(one), _pays_off(one)] if has_run else [EMPTY, EMPTY]
        cells.append([result, compiled, call_cell(one.call_us), *times, *won])
    return _table(variants, report.verdict.best, _GAINS, cells, "What compiling gains and costs")


def _time(us: float | None) -> Cell:
    return EMPTY if us is None else Cell(time_text(us))


def _runs_table(report: BenchReport, variants: Sequence[Variant]) -> Table:
    """What torch made of each variant, and what a call needs."""
    ran = [one for one in variants if one.status in ("ok", "wrong")]
    per_second = "items/s" if report.throughput is None else f"{report.throughput.unit}/s"
    cells = [
        [
            *(
                EMPTY if number is None else Cell(f"{number:,}")
                for number in (one.graphs, one.break_sites, one.recompiles, one.launches)
            ),
            _cuda_graphs(one),
            Cell(bytes_text(one.peak_memory_bytes) or ""),
            Cell(rate_text(one.throughput) or ""),
        ]
        for one in ran
    ]
    memory, meaning = _MEMORY[
        report.environment is not None and report.environment.device_name is not None
    ]
    headings = {**_RUNS, memory: meaning, per_second: ""}
    return _table(ran, report.verdict.best, headings, cells, "What torch made of each variant")


def _result(variant: Variant) -> Cell:
    """Whether the results are right."""
    if variant.status != "ok":
        return Cell(variant.status, tone=_ENDED[variant.status])
    if variant.name == EAGER:
        return Cell("reference")
    if variant.correct is None:
        return Cell("not compared" if variant.correctness is None else UNKNOWN, tone="warning")
    is_same = variant.correctness is not None and variant.correctness.is_bitwise_equal
    return Cell("identical" if is_same else "correct", tone="good")


def _compile(variant: Variant) -> Cell:
    """Compiling with an empty cache on disk; as its detail, after a restart. Or with the caches as
    they are.
    """
    warm = variant.compile_warm_s
    if variant.compile_cold_s is None:
        cache = variant.cache
        # Inductor counts a graph's forward and backward, so they can be more than the graphs.
        found = (
            ""
            if cache is None
            else f"{cache.hits} of {cache.hits + cache.misses + cache.bypasses} from the cache"
        )
        return Cell(seconds_text(warm), found)
    return Cell(
        seconds_text(variant.compile_cold_s), "" if warm is None else f"{seconds_text(warm)} warm"
    )


def _speedup(variant: Variant) -> Cell:
    """The ratio; as its detail, its interval."""
    speedup = variant.speedup
    if variant.name == EAGER:
        return EMPTY if variant.call_us is None else Cell("1×")
    if speedup is None:
        return Cell("not timed")
    interval = interval_text(speedup.low, speedup.high)
    if variant.judgement == "same":
        return Cell(
            TOO_NOISY if measures.is_too_noisy(speedup, variant.judgement) else SAME_SPEED, interval
        )
    is_good = variant.judgement == "faster" and variant.status == "ok"
    tone: Tone | None = "good" if is_good else "bad" if variant.judgement == "slower" else None
    return Cell(factor_text(speedup.ratio), interval, tone)


def _pays_off(variant: Variant) -> Cell:
    """Calls until a cold start is won back; as its detail, a restart."""
    calls, warm = variant.break_even_calls, variant.break_even_warm
    if variant.name != EAGER and variant.judgement == "slower":
        return Cell("never", tone="bad")
    if variant.name == EAGER or variant.status == "wrong":
        return EMPTY
    if calls is None:
        return Cell(UNKNOWN)
    is_cold = variant.break_even_cold is not None
    return Cell(
        measures.calls_text(calls),
        f"{about_count(warm.calls)} warm" if warm is not None and is_cold else "",
    )


def _cuda_graphs(variant: Variant) -> Cell:
    """How many were captured, and how many graphs weren't."""
    found = variant.cuda_graphs
    if found is None:
        return EMPTY
    captured = UNKNOWN if found.captured is None else f"{found.captured:,}"
    return (
        Cell(captured, f"{len(found.skipped)} skipped", "bad") if found.skipped else Cell(captured)
    )


# Below the tables.


def _findings(variants: Sequence[Variant]) -> list[tuple[Finding, list[str]]]:
    """Each finding once, with the variants that have it, in the order of what it costs one of
    them.
    """
    groups = grouped(
        ((finding.code, finding.message), (place, finding, variant.name))
        for variant in variants
        for place, finding in enumerate(variant.findings)
    )
    ordered = sorted(groups.values(), key=lambda own: min(place for place, *_ in own))
    return [(own[0][1], [name for *_, name in own]) for own in ordered]


def _ended(variant: Variant) -> Iterator[Row]:
    """How a variant ended that isn't right, and where it goes wrong."""
    if variant.status == "ok":
        return
    yield from _reason(variant.status, variant.name, variant.reason, _ENDED[variant.status])
    if variant.stages is not None:
        yield from _stages(variant.stages, variant.reason)


def _reason(label: str, name: str, reason: str | None, tone: Tone | None = None) -> Iterator[Row]:
    """What something ended with, of which a terminal shows the first paragraph."""
    short, whole = (
        f"{name}: {text}" if text else name for text in (shortened(reason or "", _REASON), reason)
    )
    yield Row(label, Note(Span(short), tone), show="always" if short == whole else "short")
    if short != whole:
        yield Row(label, Code(whole, "text"), show="long")


def _stages(stages: Stages, reason: str | None) -> Iterator[Row]:
    """Where a variant goes wrong; ``reason``, why it isn't ``ok``, isn't said again."""
    plain = [one for one in stages.results if not one.without]
    if plain:
        yield Row("", Span(" → ".join(f"{one.name} {one.outcome}" for one in plain)))
    for one in plain:
        if one.reason and one.outcome != "ok" and one.reason != reason:
            yield from _reason("", one.name, one.reason)
    if stages.results and stages.first is None:
        yield Row("", "No stage fails on its own.")
    if stages.part:
        ways = []
        if (found := stages.workaround) is not None:
            ways = [
                f"pass `{name}={value!r}` to torch.compile"
                for name, value in found.arguments.items()
            ]
            ways += (
                [f"write `{'; '.join(found.lines)}` before torch.compile"] if found.lines else []
            )
        how = f": {' and '.join(ways)}" if stages.workaround is not None else ""
        yield Row("", Span(f"It is right without {stages.part}{how}."))
    if stages.note:
        yield Row("", Span(stages.note))


def _ended_sizes(report: BenchReport, shown: Sequence[Variant]) -> Iterator[Row]:
    """What became of the variants that failed, are wrong or were skipped with other sizes of a
    sweep.
    """
    if report.sweep is None:
        return
    sizes = " and ".join(report.sweep.sources)
    for point in report.sweep.points:
        others = point.variants if point.variants is not shown else ()
        groups = grouped(
            ((one.status, one.reason), one.name) for one in others if one.status != "ok"
        )
        for (status, reason), names in groups.items():
            which = "all" if len(names) == len(point.variants) > 1 else ", ".join(names)
            why = f": {shortened(reason, _REASON)}" if reason else ""
            yield Row(status, Span(f"{which} with {sizes} = {point.size:,}{why}"))


def _notes(variants: Sequence[Variant]) -> Iterator[Row]:
    for variant in variants:
        for skip in () if variant.cuda_graphs is None else variant.cuda_graphs.skipped:
            yield Row("CUDA graphs", Span(f"{variant.name}: {measures.skip_text(skip)}"))
    groups = grouped(("; ".join(_result_texts(one)), one.name) for one in variants[1:])
    yield from (
        Row("results", Span(f"{', '.join(names)}: {text}"))
        for text, names in groups.items()
        if text
    )
    for variant in variants:
        is_restart = variant.compile_cold_s is not None
        if is_restart and (cache := variant.cache) is not None and (cache.misses or cache.bypasses):
            total = counted(cache.hits + cache.misses + cache.bypasses, "graph")
            kept = f"; {cache.bypasses} can't be kept there" if cache.bypasses else ""
            why = f" ({'; '.join(cache.bypass_reasons)})" if cache.bypass_reasons else ""
            yield Row(
                "cache",
                Span(f"{variant.name}: a restart finds {cache.hits} of {total} on disk{kept}{why}"),
            )


def _result_texts(variant: Variant) -> Iterator[str]:
    if variant.status == "ok" and variant.correct is None and variant.reason:
        yield f"unknown whether they are right: {variant.reason}"
    if variant.correctness is not None:
        yield _correctness_text(variant.correctness)


def _correctness_text(found: Correctness) -> str:
    """How results were compared, and how far they are from those in float64, beside eager mode's
    own distance.
    """
    parts = []
    if found.is_bitwise_equal:
        parts.append("identical to eager mode, bit by bit")
    elif found.where is not None:
        by = "" if found.largest is None else f" by up to {found.largest:.3g}"
        parts.append(f"{found.where} differs from eager mode's{by}")
    if not found.is_eager_repeatable:
        parts.append("eager mode itself gives other bits each time")
    if found.note:
        parts.append(found.note)
    if not found.is_bitwise_equal:
        parts += [
            f"{kind_text(one.kind)} {_distance(one.variant)} off float64 (eager {_distance(one.eager)})"
            for one in _distances(found)
        ]
    return "; ".join(parts) or "not compared"


def _distances(found: Correctness) -> list[ResultError]:
    """Distances from float64, without those of results that are exact in every run."""
    return [one for one in found.errors if one.variant or one.eager] or list(found.errors)


def _distance(relative: float) -> str:
    return "0" if relative == 0 else f"{relative:.1e}"


def _kernels(name: str, kernels: KernelShare) -> Iterator[Block]:
    """Where the time of one variant's call goes."""
    rest_us, copied_us = kernels.rest_us, kernels.graph_input_copy_us
    inputs = f", {time_text(copied_us)} of that into CUDA graphs," if copied_us else ""
    named = (
        ("library kernels", "library", kernels.library_us),
        ("generated kernels", "generated", kernels.generated_us),
        (f"copies{inputs}", "copies", kernels.copy_us),
        ("communication", "communication", kernels.communication_us),
        ("outside of kernels", "outside", max(rest_us or 0.0, 0.0)),
    )
    parts = [] if rest_us is None else measures.parts_of_call(kernels.call_us, named)
    texts = [part.text for part in parts] or [UNKNOWN]
    if kernels.graph_launches:
        texts.append(
            f"{kernels.graph_launches} launch{'es' * (kernels.graph_launches != 1)} of CUDA graphs"
        )
    yield Note(
        Span(f"{name}: {', '.join(texts)}; {time_text(kernels.call_us)} in all under the profiler")
    )
    if parts:
        yield Drawing("bench_shares.html.j2", {"parts": parts}, styles=("bench.css",))
    rows = (
        (Span(one.name, "code"), one.kind, Cell(time_text(one.us), value=one.us), f"{one.count:,}")
        for one in kernels.largest
    )
    yield Table(
        ("#kernel", "of", "#time", "#runs"), rows, "kernel", label=f"Largest kernels of {name}"
    )


def _details(report: BenchReport, variants: Sequence[Variant]) -> Iterator[Row]:
    for one in variants:
        if (times := one.call_us) is not None:
            least, mean, most = map(time_text, (times.min, times.mean, times.max))
            yield Row(
                "calls", Span(f"{one.name}: {times.count:,} calls, {least} to {most}, mean {mean}")
            )
    for one in variants:
        for start, _, found in measures.starts(one):
            if found is None:
                continue
            low, high = (
                about_count(found.low),
                "never" if found.high is None else about_count(found.high),
            )
            interval = "" if low == high else f" ({low} to {high})"
            yield Row(
                "pays off",
                Span(f"{one.name}, {start}: after {measures.calls_text(found.calls)}{interval}"),
            )
    for one in variants[1:]:
        if one.correctness is not None and not one.correctness.is_bitwise_equal:
            far = (
                f"{kind_text(each.kind)} {_distance(each.variant)}"
                for each in _distances(one.correctness)
            )
            yield Row("off float64", Span(f"{one.name}: {', '.join(far) or 'not compared'}"))
    yield from setting_rows(report.target, report.environment)
    yield from (
        Row("recording", Note(Span(f"{name}: {folder}"), "dim"))
        for name, folder in report.recordings.items()
    )
