"""A bench: the answer, what compiling gains and costs, what runs, what holds variants back, how it
was measured.

Comes in: a ``BenchReport``. Goes out: a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from graphdoctor.facts.base import grouped
from graphdoctor.facts.bench import (
    EAGER,
    BenchPart,
    BenchReport,
    Correctness,
    Variant,
    VariantStatus,
)
from graphdoctor.facts.kernels import KernelShare
from graphdoctor.views import measures
from graphdoctor.views.finding_cards import finding_rows
from graphdoctor.views.measures import EMPTY, call_cell, seconds_text, time_text
from graphdoctor.views.next_step import after_bench
from graphdoctor.views.parts import (
    Block,
    Cell,
    Code,
    Column,
    Drawing,
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
)
from graphdoctor.views.words import (
    INTERRUPTED,
    SAME_SPEED,
    TOO_NOISY,
    UNKNOWN,
    about_count,
    setting_rows,
    study_view,
    unknown_section,
)
from graphdoctor.wording import counted, join_texts, kind_text, listed, shortened

_WIDEST = 1.2
"""The end of an interval further away than this from the largest ratio has no room in a drawing."""
_REASON = 300
"""Characters of a reason that is shortened."""
_ENDED: dict[VariantStatus, Tone] = {"wrong": "bad", "failed": "bad", "skipped": "warning"}
_HOW = (
    (
        "Each variant has a process of its own. Eager mode has two where the difference is small:"
        " what these differ by is the noise."
    ),
    (
        "Calls are timed in rounds: in each, every process has its turn, so that drift of the"
        " machine hits all. A speed-up is the median of the rounds' ratios, or that of the best"
        " rounds where a call waits for its host."
    ),
    (
        "Compile times are what the first calls take longer than later ones, less what eager mode's"
        " do. Cold: in a process with an empty cache on disk; warm: in a second process with what"
        " the first left there. Without these, the caches are the user's, and the first variant's"
        " compile is recorded."
    ),
)
_PARTS: dict[BenchPart, tuple[str, str]] = {
    "cold": ("cold starts", "--cold"),
    "results": ("results", "--check-results"),
    "causes": ("causes", "--why"),
}


def bench_view(report: BenchReport) -> View:
    """Return the bench as a tree."""
    return study_view(report, "bench", _parts(report), after_bench(report))


def _parts(report: BenchReport) -> Iterator[Block]:
    best, variants = report.verdict.best, report.variants
    noise, works_on = report.noise, report.throughput
    if report.is_interrupted:
        yield Note(INTERRUPTED, "warning")
    yield Verdict(
        report.verdict.text, "bad" if best is None else "warning" if best == EAGER else "good"
    )
    rounds = max((variant.speedup.rounds for variant in variants if variant.speedup), default=0)
    measured = join_texts(
        " · ",
        report.call and f"call: {report.call}",
        None if works_on is None else counted(works_on.items, works_on.unit.removesuffix("s")),
        counted(rounds, "round") if rounds else None,
        None if noise is None else measures.noise_text(noise),
    )
    if measured:
        yield Note(Span(measured), "dim")
    if left := [text for part, text in _PARTS.items() if part not in report.measured]:
        names, flags = zip(*left, strict=True)
        everything = ", or --thorough for all" if len(left) > 1 else ""
        text = f"Not checked: {listed(names)}. Add {', '.join(flags)}{everything}."
        yield Note(Span(text), "dim")
    is_compared = "results" in report.measured or any(item.status != "ok" for item in variants)
    gains = _table("What compiling gains and costs", _GAINS[not is_compared :], variants, best)
    is_gpu = report.environment is not None and report.environment.device_name is not None
    per_second = "items/s" if works_on is None else f"{works_on.unit}/s"
    rate: _Column = (per_second, "", lambda variant: measures.rate_text(variant.throughput))
    timed = [variant for variant in variants if variant.status in ("ok", "wrong")]
    columns = (*_RUNS, _MEMORY[is_gpu], rate)
    runs = _table("What torch made of each variant", columns, timed, best)
    yield Section("Variants", (gains, runs, *_bars(variants)))
    # Each finding once, in the order of what it costs one of the variants that have it.
    causes = grouped(
        ((finding.code, finding.message), (place, finding, variant.name))
        for variant in variants
        for place, finding in enumerate(variant.findings)
    )
    held = [
        row
        for group in sorted(causes.values(), key=lambda group: min(place for place, *_ in group))
        for row in finding_rows(group[0][1], [name for *_, name in group])
    ]
    yield Section("What holds variants back", Rows(held, "finding"), "Reasons")
    ended = [row for variant in variants if variant.status != "ok" for row in _ended(variant)]
    yield Section("Failed, wrong or skipped", Rows(ended, "variant"), "Ended")
    yield Section("Results", Rows(_notes(variants), "note"))
    yield unknown_section(report.gaps)
    kernels = (
        part
        for variant in variants
        if variant.kernels is not None
        for part in _kernels(variant.name, variant.kernels)
    )
    yield Section("Where the time goes", kernels, "Kernels", show="long")
    details = Rows(_details(report), "figure")
    yield Section("How it was measured", (*_HOW, details), "Measured", show="long")


def _bars(variants: Sequence[Variant]) -> Iterator[Drawing]:
    """Yield each variant's speed-up with its interval as a bar; nothing if none was timed."""
    timed = [(variant, variant.speedup) for variant in variants[1:] if variant.speedup is not None]
    if not timed:
        return
    bars = [
        {
            "name": variant.name,
            "kind": "wrong" if variant.status == "wrong" else variant.judgement,
            "ratio": speedup.ratio,
            "ends": (speedup.low, speedup.high),
            "cell": _speedup(variant),
        }
        for variant, speedup in timed
    ]
    most = _WIDEST * max(1.0, *(speedup.ratio for _, speedup in timed))
    facts = {"bars": bars, "most": most}
    yield Drawing("bench_bars.html.j2", facts, styles=("bench.css",))


# The tables.


_Column = tuple[str, str, Callable[[Variant], Cell | str | None]]
"""Heading, meaning, and what a variant has in it."""


def _table(
    label: str, columns: Sequence[_Column], variants: Sequence[Variant], best: str | None
) -> Table:
    """Return a row for each variant: its name with the blocks that it compiles, and its cells."""
    rows: list[TableRow] = []
    for variant in variants:
        cells = [cell(variant) or EMPTY for *_, cell in columns]
        if any(not isinstance(cell, Cell) or cell.text for cell in cells):
            tone: Tone | None = "good" if variant.name == best != EAGER else None
            regions = Span(", ".join(variant.regions)) if variant.regions else ""
            name = Cell(Span(variant.name, "code"), regions, tone)
            rows.append((name, *cells))
    headings = (Column(heading, meaning=meaning) for heading, meaning, _ in columns)
    return Table((Column("variant"), *headings), rows, "variant", label=label)


def _result(variant: Variant) -> Cell:
    """Tell whether the results are right."""
    if variant.status != "ok":
        return Cell(variant.status, tone=_ENDED[variant.status])
    if variant.name == EAGER:
        return Cell("reference")
    correctness = variant.correctness
    if variant.correct is None:
        return Cell("not compared" if correctness is None else UNKNOWN, tone="warning")
    is_same = correctness is not None and correctness.is_bitwise_equal
    return Cell("identical" if is_same else "correct", tone="good")


def _compile(variant: Variant) -> Cell | None:
    """Compiling with an empty cache on disk; as its detail, after a restart. Or with the caches as
    they are.
    """
    if variant.name == EAGER or variant.status not in ("ok", "wrong"):
        return None
    cold_s, warm_s, cache = variant.compile_cold_s, variant.compile_warm_s, variant.cache
    if cold_s is not None:
        return Cell(seconds_text(cold_s), "" if warm_s is None else f"{seconds_text(warm_s)} warm")
    if cache is None:
        return Cell(seconds_text(warm_s))
    # Inductor counts a graph's forward and backward, so they can be more than the graphs.
    count = cache.hits + cache.misses + cache.bypasses
    return Cell(seconds_text(warm_s), f"cache hits: {cache.hits} of {count}" if count else "")


def _speedup(variant: Variant) -> Cell:
    """Return the ratio; as its detail, its interval."""
    speedup, judgement = variant.speedup, variant.judgement
    if variant.name == EAGER:
        return EMPTY if variant.call_us is None else Cell("1×")
    if variant.status not in ("ok", "wrong"):
        return EMPTY
    if speedup is None:
        return Cell("not timed")
    if judgement == "same":
        is_unclear = measures.is_too_noisy(speedup, judgement)
        interval = measures.interval_text(speedup.low, speedup.high)
        return Cell(TOO_NOISY if is_unclear else SAME_SPEED, interval)
    is_good = judgement == "faster" and variant.status == "ok"
    tone: Tone | None = "good" if is_good else "bad" if judgement == "slower" else None
    return measures.speed_cell(speedup, tone)


def _pays_off(variant: Variant) -> Cell | None:
    """Calls until a cold start is won back; as its detail, a restart."""
    calls, warm = variant.break_even_calls, variant.break_even_warm
    if variant.name == EAGER or variant.status not in ("ok", "wrong"):
        return None
    if variant.judgement == "slower":
        return Cell("never", tone="bad")
    if variant.status == "wrong":
        return None
    if calls is None:
        return Cell(UNKNOWN)
    has_both = warm is not None and variant.break_even_cold is not None
    detail = f"{about_count(warm.calls)} warm" if has_both and warm else ""
    return Cell(measures.calls_text(calls), detail)


def _cuda_graphs(variant: Variant) -> Cell | None:
    """Graphs that were captured, and as a detail those that weren't."""
    graphs = variant.cuda_graphs
    if graphs is None:
        return None
    captured = UNKNOWN if graphs.captured is None else f"{graphs.captured:,}"
    skipped = len(graphs.skipped)
    return Cell(captured, f"{skipped} skipped", "bad") if skipped else Cell(captured)


def _time_of(field: str) -> Callable[[Variant], str | None]:
    return lambda variant: None if (us := getattr(variant, field)) is None else time_text(us)


def _count_of(field: str) -> Callable[[Variant], str | None]:
    return lambda variant: None if (count := getattr(variant, field)) is None else f"{count:,}"


def _peak(variant: Variant) -> str | None:
    return measures.bytes_text(variant.peak_memory_bytes)


_GAINS: tuple[_Column, ...] = (
    (
        "results",
        (
            "Outputs, gradients and state beside eager mode's: identical, correct but for rounding,"
            " or wrong."
        ),
        _result,
    ),
    (
        "compile",
        (
            "What compiling adds to the first calls: with an empty cache on disk, and warm, after a"
            " restart; or with the caches as they are."
        ),
        _compile,
    ),
    (
        "call",
        "The median of steady calls in a row, as in a loop, with their quartiles.",
        lambda variant: call_cell(variant.call_us),
    ),
    (
        "call alone",
        "The same of calls that are each waited for until the device is done.",
        lambda variant: call_cell(variant.alone_us),
    ),
    (
        "best call",
        (
            "The median of the second shortest round, which the speed-up is of where calls wait for"
            " their host."
        ),
        _time_of("best_us"),
    ),
    (
        "kernels",
        "The part of a call in a row in which the GPU works, by torch.profiler.",
        _time_of("device_us"),
    ),
    (
        "speed-up",
        "How many times as fast as eager mode, or how many times slower, with the 95% interval.",
        _speedup,
    ),
    (
        "pays off after",
        "Calls until the time spent compiling is won back: after a cold start, and warm.",
        _pays_off,
    ),
)
_RUNS: tuple[_Column, ...] = (
    ("graphs", "Graphs that torch compiled.", _count_of("graphs")),
    ("breaks", "Lines that break the graph.", _count_of("break_sites")),
    ("recompiles", "How often torch compiled a function again.", _count_of("recompiles")),
    (
        "launches",
        "Kernels that one call launches, those inside CUDA graphs included.",
        _count_of("launches"),
    ),
    (
        "CUDA graphs",
        "Graphs that torch recorded as CUDA graphs, and those that it skipped.",
        _cuda_graphs,
    ),
)
_MEMORY: dict[bool, _Column] = {
    True: ("peak memory", "The most of torch's allocator during steady calls.", _peak),
    False: (
        "process memory",
        "The most that the whole process held during steady calls, torch itself included.",
        _peak,
    ),
}
"""By whether it is a GPU's."""


# Below the tables.


def _ended(variant: Variant) -> Iterator[Row]:
    """Yield the end of a variant that isn't right, and where it goes wrong."""
    yield from _reason(variant.status, variant.name, variant.reason, _ENDED[variant.status])
    if (stages := variant.stages) is None:
        return
    plain = [result for result in stages.results if not result.without]
    if plain:
        yield Row("", Span(" → ".join(f"{result.name} {result.outcome}" for result in plain)))
    for result in plain:
        if result.reason and result.outcome != "ok" and result.reason != variant.reason:
            yield from _reason("", result.name, result.reason)
    if stages.results and stages.first is None:
        yield Row("", "No stage fails on its own.")
    if stages.part:
        workaround = stages.workaround
        arguments = {} if workaround is None else workaround.arguments
        lines = [] if workaround is None else [*workaround.lines]
        lines += [f"torch.compile({name}={value!r})" for name, value in arguments.items()]
        how = f": {'; '.join(lines)}" if lines else ""
        yield Row("", Span(f"Correct without {stages.part}{how}."))
    if stages.note:
        yield Row("", Span(stages.note))


def _reason(label: str, name: str, reason: str | None, tone: Tone | None = None) -> Iterator[Row]:
    """Yield a reason, of which a terminal shows the first paragraph."""
    short = join_texts(": ", name, shortened(reason or "", _REASON))
    whole = join_texts(": ", name, reason)
    yield Row(label, Note(Span(short), tone), show="always" if short == whole else "short")
    if short != whole:
        yield Row(label, Code(whole, "text"), show="long")


def _notes(variants: Sequence[Variant]) -> Iterator[Row]:
    for variant in variants:
        for skip in () if variant.cuda_graphs is None else variant.cuda_graphs.skipped:
            yield Row("CUDA graphs", Span(f"{variant.name}: {measures.skip_text(skip)}"))
    results = []
    for variant in variants[1:]:
        is_unknown = variant.status == "ok" and variant.correct is None and variant.reason
        unknown = f"unknown whether they are right: {variant.reason}" if is_unknown else None
        correctness = variant.correctness
        text = None if correctness is None else _correctness_text(correctness)
        results.append((join_texts("; ", unknown, text), variant.name))
    for text, names in grouped(results).items():
        if text:
            yield Row("results", Span(f"{', '.join(names)}: {text}"))
    for variant in variants:
        for reason in () if variant.cache is None else variant.cache.bypass_reasons:
            yield Row("cache", Span(f"{variant.name}: can't be kept on disk: {reason}"))


def _correctness_text(correctness: Correctness) -> str:
    """Return the distance from eager mode's results, and from those in float64, beside eager mode's
    own distance.
    """
    differs = "identical to eager mode, bit by bit" if correctness.is_bitwise_equal else None
    if correctness.where is not None:
        by = "" if correctness.largest is None else f" by up to {correctness.largest:.3g}"
        differs = f"{correctness.where} differs from eager mode's{by}"
    unsteady = "eager mode itself gives other bits each time"
    off = [
        f"{kind_text(error.kind)} {_distance(error.variant)} off float64 "
        f"(eager {_distance(error.eager)})"
        for error in correctness.errors
        if not correctness.is_bitwise_equal and (error.variant or error.eager)
    ]
    texts = (differs, None if correctness.is_eager_repeatable else unsteady, correctness.note, *off)
    return join_texts("; ", *texts) or "not compared"


def _distance(relative: float) -> str:
    return "0" if relative == 0 else f"{relative:.1e}"


def _kernels(name: str, kernels: KernelShare) -> Iterator[Block]:
    """Yield the parts of the time of one variant's call."""
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


def _details(report: BenchReport) -> Iterator[Row]:
    yield from setting_rows(report.target, report.environment)
    for name, folder in report.recordings.items():
        yield Row("recording", Note(Span(f"{name}: {folder}"), "dim"))
