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
    tone: Tone = "bad" if best is None else "warning" if best == EAGER else "good"
    yield Verdict(report.verdict.text, tone)
    sizes: list[Block] = []
    if report.sweep is not None:
        name = " and ".join(report.sweep.sources)
        drawn = sweep_drawing(report.sweep, name)
        sizes.append(Section("Sizes", (*drawn, _sizes(report.sweep, name))))
        # Of a sweep, the largest size that eager mode ran with is shown in full.
        points = [
            point
            for point in report.sweep.points
            if point.variants and point.variants[0].status == "ok"
        ]
        if points:
            shown = max(points, key=lambda point: point.size)
            variants = shown.variants
            sizes.append(Note(("With ", Span(name, "code"), f" = {shown.size:,}")))
    if measured := _measured_text(report, variants):
        yield Note(Span(measured), "dim")
    if report.noise is not None and report.noise.is_noisy:
        yield Note(measures.noise_text(report.noise), "warning")
    if left := [text for part, text in _PARTS.items() if part not in report.measured]:
        everything = "; --thorough: all" if len(left) > 1 else ""
        yield Note(Span(f"Not measured: {listed(left)}{everything}."), "dim")
    yield from sizes
    gains = _gains_table(report, variants)
    if figures := tuple(_figures(gains, best)):
        yield Figures(figures, show="long")
    yield Section("Variants", (gains, _runs_table(report, variants), *speed_drawing(variants)))
    yield Section("When compiling pays", payoff_drawing(variants, best), "Payoff")
    held = [row for finding, names in _findings(variants) for row in finding_rows(finding, names)]
    yield Section("What holds variants back", Rows(held, "finding"), "Reasons")
    ended = [row for variant in variants for row in _ended(variant)]
    ended += _ended_sizes(report, variants)
    yield Section("Failed, wrong or skipped", Rows(ended, "variant"), "Ended")
    yield Section("Results", Rows(_notes(variants), "note"))
    yield unknown_section(report.gaps)
    kernels = [
        part
        for variant in variants
        if variant.kernels is not None
        for part in _kernels(variant.name, variant.kernels)
    ]
    yield Section("Where the time goes", kernels, "Kernels", show="long")
    details = Rows(_details(report, variants), "figure")
    yield Section("How it was measured", (*_HOW, details), "Measured", show="long")


def _measured_text(report: BenchReport, variants: Sequence[Variant]) -> str:
    """The call that was timed, how often, and how steady the machine was."""
    rounds = max((variant.speedup.rounds for variant in variants if variant.speedup), default=0)
    works_on, noise = report.throughput, report.noise
    return join_texts(
        " · ",
        f"call: {report.call}" if report.call else None,
        None if works_on is None else counted(works_on.items, works_on.unit.removesuffix("s")),
        counted(rounds, "round") if rounds else None,
        None if noise is None or noise.is_noisy else measures.noise_text(noise),
    )


def _figures(gains: Table, best: str | None) -> Iterator[Figure]:
    """The table's cells of the best variant; nothing if it is eager mode."""
    for row in gains.rows if best != EAGER else ():
        if plain_text(row[0].text) == best:
            for column, cell in zip(gains.columns[1:], row[1:], strict=True):
                heading, text = plain_text(column.heading), plain_text(cell.text)
                yield Figure(heading, text, plain_text(cell.detail), cell.tone)


# The tables.


def _sizes(sweep: Sweep, name: str) -> Table:
    """A row for each size, with each variant's speed-up and call."""
    variants = [variant.name for point in sweep.points for variant in point.variants]
    names = list(dict.fromkeys(variants))
    rows = []
    for point in sweep.points:
        cells = {variant.name: _size(variant) for variant in point.variants}
        rows.append((Cell(f"{point.size:,}"), *(cells.get(name, EMPTY) for name in names)))
    headings = tuple(Column(Span(heading)) for heading in (name, *names))
    return Table(headings, rows, "size", label="Speed-up and call of each size")


def _size(variant: Variant) -> Cell:
    """The speed-up with one size, and as its detail the call; of eager mode, the call alone."""
    if variant.status != "ok" and variant.call_us is None:
        return _result(variant)
    call = plain_text(call_cell(variant.call_us).text)
    if variant.name == EAGER:
        return Cell(call)
    cell, speedup = _speedup(variant), variant.speedup
    text = plain_text(cell.text) if speedup is None else factor_text(speedup.ratio)
    is_wrong = variant.status == "wrong"
    return Cell(f"{text} wrong", call, "bad") if is_wrong else Cell(text, call, cell.tone)


def _table(
    variants: Sequence[Variant],
    best: str | None,
    headings: Mapping[str, str],
    cells: list[list[Cell]],
    label: str,
) -> Table:
    """A row for each variant: its name with the blocks that it compiles, and its cells."""
    rows: list[TableRow] = []
    for variant, row in zip(variants, cells, strict=True):
        if any(cell.text for cell in row):
            regions = Span(", ".join(variant.regions)) if variant.regions else ""
            tone: Tone | None = "good" if variant.name == best != EAGER else None
            rows.append((Cell(Span(variant.name, "code"), regions, tone), *row))
    columns = (Column(heading, meaning=meaning) for heading, meaning in headings.items())
    return Table((Column("variant"), *columns), rows, "variant", label=label)


def _gains_table(report: BenchReport, variants: Sequence[Variant]) -> Table:
    """The costs of compiling, and what it gains."""
    cells = []
    for variant in variants:
        has_run = variant.status in ("ok", "wrong")
        has_result = "results" in report.measured or variant.status != "ok"
        cells.append(
            [
                _result(variant) if has_result else EMPTY,
                _compile(variant) if has_run and variant.name != EAGER else EMPTY,
                call_cell(variant.call_us),
                call_cell(variant.alone_us),
                _time(variant.best_us),
                _time(variant.device_us),
                _speedup(variant) if has_run else EMPTY,
                _pays_off(variant) if has_run else EMPTY,
            ]
        )
    return _table(variants, report.verdict.best, _GAINS, cells, "What compiling gains and costs")


def _time(us: float | None) -> Cell:
    return EMPTY if us is None else Cell(time_text(us))


def _runs_table(report: BenchReport, variants: Sequence[Variant]) -> Table:
    """Each variant's graphs, and what a call needs."""
    timed = [variant for variant in variants if variant.status in ("ok", "wrong")]
    per_second = "items/s" if report.throughput is None else f"{report.throughput.unit}/s"
    cells = []
    for variant in timed:
        counts = (variant.graphs, variant.break_sites, variant.recompiles, variant.launches)
        cells.append(
            [
                *(EMPTY if count is None else Cell(f"{count:,}") for count in counts),
                _cuda_graphs(variant),
                Cell(bytes_text(variant.peak_memory_bytes) or ""),
                Cell(rate_text(variant.throughput) or ""),
            ]
        )
    has_device = report.environment is not None and report.environment.device_name is not None
    memory, meaning = _MEMORY[has_device]
    headings = {**_RUNS, memory: meaning, per_second: ""}
    return _table(timed, report.verdict.best, headings, cells, "What torch made of each variant")


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
    cold_s, warm_s, cache = variant.compile_cold_s, variant.compile_warm_s, variant.cache
    if cold_s is not None:
        return Cell(seconds_text(cold_s), "" if warm_s is None else f"{seconds_text(warm_s)} warm")
    if cache is None:
        return Cell(seconds_text(warm_s))
    # Inductor counts a graph's forward and backward, so they can be more than the graphs.
    count = cache.hits + cache.misses + cache.bypasses
    return Cell(seconds_text(warm_s), f"{cache.hits} of {count} from the cache")


def _speedup(variant: Variant) -> Cell:
    """The ratio; as its detail, its interval."""
    speedup = variant.speedup
    if variant.name == EAGER:
        return EMPTY if variant.call_us is None else Cell("1×")
    if speedup is None:
        return Cell("not timed")
    interval = interval_text(speedup.low, speedup.high)
    if variant.judgement == "same":
        is_unclear = measures.is_too_noisy(speedup, variant.judgement)
        return Cell(TOO_NOISY if is_unclear else SAME_SPEED, interval)
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
    has_both = warm is not None and variant.break_even_cold is not None
    detail = f"{about_count(warm.calls)} warm" if has_both and warm else ""
    return Cell(measures.calls_text(calls), detail)


def _cuda_graphs(variant: Variant) -> Cell:
    """Graphs that were captured, and as a detail those that weren't."""
    graphs = variant.cuda_graphs
    if graphs is None:
        return EMPTY
    captured = UNKNOWN if graphs.captured is None else f"{graphs.captured:,}"
    skipped = len(graphs.skipped)
    return Cell(captured, f"{skipped} skipped", "bad") if skipped else Cell(captured)


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
    ordered = sorted(groups.values(), key=lambda group: min(place for place, *_ in group))
    return [(group[0][1], [name for *_, name in group]) for group in ordered]


def _ended(variant: Variant) -> Iterator[Row]:
    """The end of a variant that isn't right, and where it goes wrong."""
    if variant.status != "ok":
        yield from _reason(variant.status, variant.name, variant.reason, _ENDED[variant.status])
        if variant.stages is not None:
            yield from _stages(variant.stages, variant.reason)


def _reason(label: str, name: str, reason: str | None, tone: Tone | None = None) -> Iterator[Row]:
    """A reason, of which a terminal shows the first paragraph."""
    short = join_texts(": ", name, shortened(reason or "", _REASON))
    whole = join_texts(": ", name, reason)
    yield Row(label, Note(Span(short), tone), show="always" if short == whole else "short")
    if short != whole:
        yield Row(label, Code(whole, "text"), show="long")


def _stages(stages: Stages, reason: str | None) -> Iterator[Row]:
    """The stage that goes wrong; ``reason``, why the variant isn't ``ok``, isn't said again."""
    plain = [result for result in stages.results if not result.without]
    if plain:
        yield Row("", Span(" → ".join(f"{result.name} {result.outcome}" for result in plain)))
    for result in plain:
        if result.reason and result.outcome != "ok" and result.reason != reason:
            yield from _reason("", result.name, result.reason)
    if stages.results and stages.first is None:
        yield Row("", "No stage fails on its own.")
    if stages.part:
        ways = []
        if (workaround := stages.workaround) is not None:
            arguments = workaround.arguments.items()
            ways += [f"pass `{name}={value!r}` to torch.compile" for name, value in arguments]
            if workaround.lines:
                ways.append(f"write `{'; '.join(workaround.lines)}` before torch.compile")
        how = f": {' and '.join(ways)}" if stages.workaround is not None else ""
        yield Row("", Span(f"It is right without {stages.part}{how}."))
    if stages.note:
        yield Row("", Span(stages.note))


def _ended_sizes(report: BenchReport, shown: Sequence[Variant]) -> Iterator[Row]:
    """Variants that failed, are wrong or were skipped with other sizes of a sweep."""
    if report.sweep is None:
        return
    sizes = " and ".join(report.sweep.sources)
    for point in report.sweep.points:
        groups = grouped(
            ((variant.status, variant.reason), variant.name)
            for variant in point.variants
            if point.variants is not shown and variant.status != "ok"
        )
        for (status, reason), names in groups.items():
            which = "all" if len(names) == len(point.variants) > 1 else ", ".join(names)
            text = f"{which} with {sizes} = {point.size:,}"
            yield Row(status, Span(join_texts(": ", text, shortened(reason or "", _REASON))))


def _notes(variants: Sequence[Variant]) -> Iterator[Row]:
    for variant in variants:
        for skip in () if variant.cuda_graphs is None else variant.cuda_graphs.skipped:
            yield Row("CUDA graphs", Span(f"{variant.name}: {measures.skip_text(skip)}"))
    groups = grouped((_result_text(variant), variant.name) for variant in variants[1:])
    for text, names in groups.items():
        if text:
            yield Row("results", Span(f"{', '.join(names)}: {text}"))
    for variant in variants:
        cache = variant.cache
        is_restart = variant.compile_cold_s is not None
        if cache is not None and is_restart and (cache.misses or cache.bypasses):
            total = counted(cache.hits + cache.misses + cache.bypasses, "graph")
            kept = f"; {cache.bypasses} can't be kept there" if cache.bypasses else ""
            why = f" ({'; '.join(cache.bypass_reasons)})" if cache.bypass_reasons else ""
            text = f"a restart finds {cache.hits} of {total} on disk{kept}{why}"
            yield Row("cache", Span(f"{variant.name}: {text}"))


def _result_text(variant: Variant) -> str:
    is_unknown = variant.status == "ok" and variant.correct is None and variant.reason
    unknown = f"unknown whether they are right: {variant.reason}" if is_unknown else None
    correctness = variant.correctness
    text = None if correctness is None else _correctness_text(correctness)
    return join_texts("; ", unknown, text)


def _correctness_text(correctness: Correctness) -> str:
    """The distance from eager mode's results, and from those in float64, beside eager mode's own
    distance.
    """
    parts = []
    if correctness.is_bitwise_equal:
        parts.append("identical to eager mode, bit by bit")
    elif correctness.where is not None:
        by = "" if correctness.largest is None else f" by up to {correctness.largest:.3g}"
        parts.append(f"{correctness.where} differs from eager mode's{by}")
    if not correctness.is_eager_repeatable:
        parts.append("eager mode itself gives other bits each time")
    if correctness.note:
        parts.append(correctness.note)
    if not correctness.is_bitwise_equal:
        parts += [
            f"{kind_text(error.kind)} {_distance(error.variant)} off float64 "
            f"(eager {_distance(error.eager)})"
            for error in _distances(correctness)
        ]
    return "; ".join(parts) or "not compared"


def _distances(correctness: Correctness) -> list[ResultError]:
    """Distances from float64, without those of results that are exact in every run."""
    inexact = [error for error in correctness.errors if error.variant or error.eager]
    return inexact or list(correctness.errors)


def _distance(relative: float) -> str:
    return "0" if relative == 0 else f"{relative:.1e}"


def _kernels(name: str, kernels: KernelShare) -> Iterator[Block]:
    """The parts of the time of one variant's call."""
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
    if count := kernels.graph_launches:
        texts.append(f"{count} launch{'es' * (count != 1)} of CUDA graphs")
    whole = f"{time_text(kernels.call_us)} in all under the profiler"
    yield Note(Span(f"{name}: {', '.join(texts)}; {whole}"))
    if parts:
        yield Drawing("bench_shares.html.j2", {"parts": parts}, styles=("bench.css",))
    rows = (
        (
            Span(kernel.name, "code"),
            kernel.kind,
            Cell(time_text(kernel.us), value=kernel.us),
            f"{kernel.count:,}",
        )
        for kernel in kernels.largest
    )
    columns = ("#kernel", "of", "#time", "#runs")
    yield Table(columns, rows, "kernel", label=f"Largest kernels of {name}")


def _details(report: BenchReport, variants: Sequence[Variant]) -> Iterator[Row]:
    for variant in variants:
        if (times := variant.call_us) is not None:
            least, mean, most = map(time_text, (times.min, times.mean, times.max))
            text = f"{times.count:,} calls, {least} to {most}, mean {mean}"
            yield Row("calls", Span(f"{variant.name}: {text}"))
    for variant in variants:
        for start, _, won in measures.starts(variant):
            if won is not None:
                low = about_count(won.low)
                high = "never" if won.high is None else about_count(won.high)
                interval = "" if low == high else f" ({low} to {high})"
                text = f"{start}: after {measures.calls_text(won.calls)}{interval}"
                yield Row("pays off", Span(f"{variant.name}, {text}"))
    for variant in variants[1:]:
        correctness = variant.correctness
        if correctness is not None and not correctness.is_bitwise_equal:
            distances = ", ".join(
                f"{kind_text(error.kind)} {_distance(error.variant)}"
                for error in _distances(correctness)
            )
            yield Row("off float64", Span(f"{variant.name}: {distances or 'not compared'}"))
    yield from setting_rows(report.target, report.environment)
    for name, folder in report.recordings.items():
        yield Row("recording", Note(Span(f"{name}: {folder}"), "dim"))
