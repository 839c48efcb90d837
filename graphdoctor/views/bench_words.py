"""A bench in words: what every view of it says of its variants.

Comes in: a ``BenchReport`` and its parts. Goes out: plain text, which may hold text from outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from graphdoctor.facts.bench import EAGER
from graphdoctor.facts.wording import (
    about_count,
    about_time,
    counted,
    factor_text,
    kind_text,
    percent,
    shortened,
    spread_text,
)
from graphdoctor.views.parts import Cell, Column, Span, Table, plain_text
from graphdoctor.views.words import SAME_SPEED, UNKNOWN

if TYPE_CHECKING:
    from graphdoctor.facts.bench import (
        BenchReport,
        BreakEven,
        CallTimes,
        Correctness,
        Noise,
        Stages,
        Variant,
        VariantStatus,
        Workaround,
    )
    from graphdoctor.facts.diagnosis import Finding
    from graphdoctor.facts.kernels import CacheUse, CudaGraphSkip, KernelShare
    from graphdoctor.facts.trials import ResultError
    from graphdoctor.views.parts import Tone

_REASON = 300
"""Characters of a reason that is shortened."""
_UNITS = ((1e6, "s"), (1e3, "ms"), (1.0, "µs"))
_BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


NOTHING = Cell("")
_SPEED = ("results", "compile", "call", "speed-up", "pays off after")
_MEANINGS = {
    "results": "Outputs, gradients and state beside eager mode's: identical, correct but for rounding, or wrong.",
    "compile": "What compiling adds to the first calls: with an empty cache on disk, and warm, after a restart.",
    "call": "The median of steady calls, with their quartiles; on a GPU until the device is done.",
    "speed-up": "How many times as fast as eager mode, with the 95% interval.",
    "pays off after": "Calls until the time spent compiling is won back: after a cold start, and warm.",
    "graphs": "Graphs that torch compiled.",
    "breaks": "Lines that break the graph.",
    "recompiles": "How often torch compiled a function again.",
    "launches": "Kernels that one call launches, those inside CUDA graphs included.",
    "CUDA graphs": "Graphs that torch recorded as CUDA graphs, and those that it skipped.",
    "peak memory": "The most during steady calls: of torch's allocator on a GPU, of the whole process on a CPU.",
}


# The head.


def tone(report: BenchReport) -> Tone:
    """Whether the verdict is good news."""
    return "bad" if report.verdict.best is None else "warning" if report.verdict.best == EAGER else "good"


def measured_text(report: BenchReport) -> str:
    """Which call was timed, how often, and how steady the machine was."""
    parts = [f"call: {report.call}"] if report.call else []
    if report.throughput is not None:
        parts.append(counted(report.throughput.items, report.throughput.unit.removesuffix("s")))
    rounds = max((one.speedup.rounds for one in shown_variants(report) if one.speedup is not None), default=0)
    parts += [counted(rounds, "round")] if rounds else []
    parts += [noise_text(report.noise)] if report.noise is not None else []
    return " · ".join(parts)


def noise_text(noise: Noise) -> str:
    """How steady the machine was."""
    beside = f"eager beside itself {factor_text(noise.ratio)}, quartiles {spread_text(noise.spread)}"
    return f"noisy machine: {beside}" if noise.is_noisy else beside


def shown_variants(report: BenchReport) -> tuple[Variant, ...]:
    """The variants to show in full: of a sweep, those of the largest size that eager mode ran with."""
    point = shown_size(report)
    if report.sweep is None or point is None:
        return report.variants
    return next(one.variants for one in report.sweep.points if one.size == point)


def shown_size(report: BenchReport) -> int | None:
    """Of a sweep, the largest size that eager mode ran with; None for anything else."""
    if report.sweep is None:
        return None
    ran = [one.size for one in report.sweep.points if one.variants and one.variants[0].status == "ok"]
    return max(ran, default=None)


def sweep_name(report: BenchReport) -> str:
    """The sizes of a sweep that change together."""
    return " and ".join(report.sweep.sources) if report.sweep is not None else ""


# The tables.


def speed_table(report: BenchReport) -> Table:
    """What compiling costs and what it gains."""
    columns = tuple(Column(heading, meaning=_MEANINGS[heading]) for heading in _SPEED)
    rows = tuple((_name(one, report), *_speed_cells(one)) for one in shown_variants(report))
    return Table((Column("variant"), *columns), rows, "variant", label="What compiling gains and costs")


def _name(variant: Variant, report: BenchReport) -> Cell:
    """Its name, and below it the blocks that it compiles."""
    is_best = variant.name == report.verdict.best != EAGER
    regions = Span(", ".join(variant.regions)) if variant.regions else ""
    return Cell(Span(variant.name, "code"), regions, "good" if is_best else None)


def _speed_cells(variant: Variant) -> tuple[Cell, ...]:
    if variant.status in ("failed", "skipped"):
        return (result_cell(variant), NOTHING, call_cell(variant.call_us), NOTHING, NOTHING)
    return (
        result_cell(variant),
        NOTHING if variant.name == EAGER else compile_cell(variant),
        call_cell(variant.call_us),
        speedup_cell(variant),
        pays_off_cell(variant),
    )


def result_cell(variant: Variant) -> Cell:
    """Whether the results are right."""
    if variant.status != "ok":
        tones: dict[VariantStatus, Tone] = {"wrong": "bad", "failed": "bad", "skipped": "warning"}
        return Cell(variant.status, tone=tones[variant.status])
    if variant.name == EAGER:
        return Cell("reference")
    if variant.correct is None:
        return Cell("not compared" if variant.correctness is None else UNKNOWN, tone="warning")
    is_same = variant.correctness is not None and variant.correctness.is_bitwise_equal
    return Cell("identical" if is_same else "correct", tone="good")


def compile_cell(variant: Variant) -> Cell:
    """Compiling with an empty cache on disk; as its detail, after a restart."""
    cold, warm = variant.compile_cold_s, variant.compile_warm_s
    return Cell(seconds_text(cold), "" if warm is None else f"{seconds_text(warm)} warm")


def call_cell(times: CallTimes | None) -> Cell:
    """The median; as its detail, the quartiles in the same unit."""
    if times is None:
        return NOTHING
    size, unit = _unit(times.median)
    q1, q3 = (_digits(value / size, times.median / size) for value in (times.q1, times.q3))
    return Cell(f"{_digits(times.median / size, times.median / size)} {unit}", f"{q1} to {q3}")


def speedup_cell(variant: Variant) -> Cell:
    """The ratio; as its detail, its interval."""
    speedup = variant.speedup
    if variant.name == EAGER:
        return NOTHING if speedup is None else Cell("1×")
    if speedup is None:
        return Cell("not timed")
    if variant.judgement == "same":
        return Cell(SAME_SPEED, interval_text(speedup.low, speedup.high))
    is_good = variant.judgement == "faster" and variant.status == "ok"
    found: Tone | None = "good" if is_good else "bad" if variant.judgement == "slower" else None
    return Cell(factor_text(speedup.ratio), interval_text(speedup.low, speedup.high), found)


def interval_text(low: float, high: float) -> str:
    """An interval of ratios."""
    return f"{factor_text(low)[:-1]} to {factor_text(high)[:-1]}"


def pays_off_cell(variant: Variant) -> Cell:
    """Calls until a cold start is won back; as its detail, a restart."""
    if variant.name == EAGER:
        return NOTHING
    if variant.judgement == "slower":
        return Cell("never", tone="bad")
    calls, warm = variant.break_even_calls, variant.break_even_warm
    if variant.status == "wrong":
        return NOTHING
    if calls is None:
        return Cell(UNKNOWN)
    return Cell(calls_text(calls), "" if warm is None else f"{about_count(warm.calls)} warm")


def calls_text(calls: int) -> str:
    """About how many calls."""
    return "1 call" if calls == 1 else f"{about_count(calls)} calls"


def break_evens(variant: Variant) -> list[tuple[str, BreakEven]]:
    """After how many calls a cold start and a restart are won back, as far as that is known; of a wrong one, none."""
    found = (("cold", variant.break_even_cold), ("warm", variant.break_even_warm))
    return [(start, one) for start, one in found if one is not None and variant.status == "ok"]


def break_even_text(found: BreakEven) -> str:
    """Calls until compiling is won back, with their interval."""
    low, high = about_count(found.low), "never" if found.high is None else about_count(found.high)
    text = calls_text(found.calls)
    return text if low == high else f"{text} ({low} to {high})"


def calling_text(calls: int, eager: Variant) -> str:
    """How long calling takes until compiling is won back; empty if unknown."""
    return "" if eager.call_us is None else f"{about_time(calls * eager.call_us.median / 1e6)} of calling"


def run_table(report: BenchReport) -> Table:
    """What torch made of each variant, and what a call needs."""
    variants = [one for one in shown_variants(report) if one.status in ("ok", "wrong")]
    per_second = "items/s" if report.throughput is None else f"{report.throughput.unit}/s"
    headings = ("graphs", "breaks", "recompiles", "launches", "CUDA graphs", "peak memory", per_second)
    cells = (
        (
            *(
                Cell("" if number is None else f"{number:,}")
                for number in (one.graphs, one.break_sites, one.recompiles, one.launches)
            ),
            cuda_graphs_cell(one),
            Cell(bytes_text(one.peak_memory_bytes) or ""),
            Cell(rate_text(one.throughput) or ""),
        )
        for one in variants
    )
    rows = ((_name(one, report), *own) for one, own in zip(variants, cells, strict=True) if any(c.text for c in own))
    columns = (Column(heading, meaning=_MEANINGS.get(heading, "")) for heading in headings)
    return Table((Column("variant"), *columns), tuple(rows), "variant", label="What torch made of each variant")


def cuda_graphs_cell(variant: Variant) -> Cell:
    """How many were captured, and how many graphs weren't."""
    found = variant.cuda_graphs
    if found is None:
        return NOTHING
    captured = UNKNOWN if found.captured is None else f"{found.captured:,}"
    missed = f"{len(found.skipped)} skipped" if found.skipped else ""
    return Cell(captured, missed, "bad" if found.skipped else None)


def size_cell(variant: Variant | None) -> Cell:
    """A variant with one size of a sweep: its speed-up, and as its detail, its call; of eager mode, the call alone."""
    if variant is None:
        return NOTHING
    if variant.status != "ok" and variant.call_us is None:
        return result_cell(variant)
    call = plain_text(call_cell(variant.call_us).text)
    if variant.name == EAGER:
        return Cell(call)
    found = speedup_cell(variant)
    text = factor_text(variant.speedup.ratio) if variant.speedup is not None else plain_text(found.text)
    wrong = variant.status == "wrong"
    return Cell(f"{text} wrong" if wrong else text, call, "bad" if wrong else found.tone)


# Sections below the tables.


def finding_groups(variants: Sequence[Variant]) -> list[tuple[Finding, list[str]]]:
    """Each finding once, with the variants that have it, in the order of what it costs one of them."""
    groups: dict[tuple[str, str], tuple[Finding, list[str]]] = {}
    places: dict[tuple[str, str], int] = {}
    for variant in variants:
        for place, finding in enumerate(variant.findings):
            key = (finding.code, finding.message)
            groups.setdefault(key, (finding, []))[1].append(variant.name)
            places[key] = min(place, places.get(key, place))
    return [groups[key] for key in sorted(groups, key=places.__getitem__)]


def ended_text(variant: Variant, *, is_short: bool) -> str:
    """A variant's name and the reason why it ended."""
    return f"{variant.name}: {_reason(variant.reason, is_short=is_short)}" if variant.reason else variant.name


def _reason(reason: str, *, is_short: bool) -> str:
    return shortened(reason, _REASON) if is_short else reason


def ended_sizes(report: BenchReport, *, is_short: bool = False) -> list[tuple[VariantStatus, str]]:
    """What became of the variants that failed, are wrong or were skipped with other sizes of a sweep.

    Args:
        report: The bench.
        is_short: As in ``ended_text``.
    """
    found = []
    name, shown = sweep_name(report), shown_size(report)
    for point in report.sweep.points if report.sweep is not None else ():
        groups: dict[tuple[VariantStatus, str | None], list[str]] = {}
        for one in point.variants:
            if one.status != "ok" and point.size != shown:
                groups.setdefault((one.status, one.reason), []).append(one.name)
        for (status, reason), names in groups.items():
            which = "all" if len(names) == len(point.variants) > 1 else ", ".join(names)
            why = f": {_reason(reason, is_short=is_short)}" if reason else ""
            found.append((status, f"{which} with {name} = {point.size:,}{why}"))
    return found


def skip_text(skip: CudaGraphSkip) -> str:
    """Why a graph isn't a CUDA graph, in torch's words, with the line that it points to."""
    place = "" if skip.file is None else f", at {PurePath(skip.file).name}:{skip.line}"
    return f"{skip.reason}{place}"


def stages_texts(stages: Stages, reason: str | None, *, is_short: bool = False) -> Iterator[str]:
    """Where a variant goes wrong.

    Args:
        stages: What it did in each stage.
        reason: Why it isn't ``ok``, which isn't said again.
        is_short: As in ``ended_text``.
    """
    plain = [one for one in stages.results if not one.without]
    if plain:
        yield " → ".join(f"{one.name} {one.outcome}" for one in plain)
    for one in plain:
        if one.reason and one.outcome != "ok" and one.reason != reason:
            yield f"{one.name}: {_reason(one.reason, is_short=is_short)}"
    if stages.results and stages.first is None:
        yield "No stage fails on its own."
    if stages.part:
        yield f"It is right without {stages.part}{_workaround_text(stages.workaround)}."
    if stages.reproducer:
        yield f"The smallest program that fails: {stages.reproducer}"
    if stages.note:
        yield stages.note


def _workaround_text(found: Workaround | None) -> str:
    """How to do without a part, after it; empty if there is no way."""
    if found is None:
        return ""
    ways = [f"pass `{name}={value!r}` to torch.compile" for name, value in found.arguments.items()]
    if found.lines:
        ways.append(f"write `{'; '.join(found.lines)}` before torch.compile")
    return f": {' and '.join(ways)}"


def correctness_text(found: Correctness) -> str:
    """How far results are from those in float64, beside eager mode's own distance."""
    parts = [correctness_notes(found)]
    if not found.is_bitwise_equal:
        parts += [
            f"{kind_text(one.kind)} {error_text(one.variant)} off float64 (eager {error_text(one.eager)})"
            for one in distances(found)
        ]
    return "; ".join(part for part in parts if part) or "not compared"


def distances(found: Correctness) -> list[ResultError]:
    """Distances from float64, without those of results that are exact in every run."""
    return [one for one in found.errors if one.variant or one.eager] or list(found.errors)


def correctness_notes(found: Correctness) -> str:
    """How results were compared, without the distances from float64."""
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
    return "; ".join(parts)


def correctness_groups(variants: Sequence[Variant]) -> list[tuple[list[str], str]]:
    """How results were found right or wrong, variants with the same outcome together."""
    groups: dict[str, list[str]] = {}
    for variant in variants:
        texts = [] if variant.correctness is None else [correctness_text(variant.correctness)]
        doubt = doubt_text(variant)
        if variant.name != EAGER and (doubt or texts):
            groups.setdefault("; ".join([doubt, *texts] if doubt else texts), []).append(variant.name)
    return [(names, text) for text, names in groups.items()]


def doubt_text(variant: Variant) -> str:
    """Why it is unknown whether the results of a variant that ran are right; empty if it is known."""
    if variant.status != "ok" or variant.correct is not None:
        return ""
    return f"unknown whether they are right: {variant.reason}" if variant.reason else ""


def error_text(distance: float) -> str:
    """A relative distance."""
    return "0" if distance == 0 else f"{distance:.1e}"


def cache_text(cache: CacheUse) -> str | None:
    """What a restart compiles again, and why; None if it finds everything."""
    if not cache.misses and not cache.bypasses:
        return None
    total = cache.hits + cache.misses + cache.bypasses
    text = f"a restart finds {cache.hits} of {counted(total, 'graph')} on disk"
    if cache.bypasses:
        text += f"; {cache.bypasses} can't be kept there"
    return text + (f" ({'; '.join(cache.bypass_reasons)})" if cache.bypass_reasons else "")


@dataclass(frozen=True)
class Part:
    """A part of the time of a call.

    Args:
        us: Microseconds.
        share: Of the call, from 0 to 1.
    """

    name: str
    kind: str
    us: float
    share: float

    @property
    def text(self) -> str:
        """It in words."""
        return f"{self.name} {time_text(self.us)} ({percent(self.share)})"


def kernel_parts(kernels: KernelShare) -> list[Part]:
    """Where the time of a call goes; empty if that is unknown."""
    rest_us = kernels.rest_us
    if rest_us is None or kernels.call_us <= 0:
        return []
    inputs_us = kernels.graph_input_copy_us
    of_inputs = f", {time_text(inputs_us)} of that into CUDA graphs," if inputs_us else ""
    named = (
        ("library kernels", "library", kernels.library_us),
        ("generated kernels", "generated", kernels.generated_us),
        (f"copies{of_inputs}", "copies", kernels.copy_us),
        ("communication", "communication", kernels.communication_us),
        # Kernels of several streams or threads can take longer than the call.
        ("outside of kernels", "outside", max(rest_us, 0.0)),
    )
    return [Part(name, kind, us, min(us / kernels.call_us, 1.0)) for name, kind, us in named if us]


def kernels_text(kernels: KernelShare) -> str:
    """Where the time of a call goes, in one line."""
    parts = [part.text for part in kernel_parts(kernels)] or [UNKNOWN]
    if kernels.graph_launches:
        launches = "launch" if kernels.graph_launches == 1 else "launches"
        parts.append(f"{kernels.graph_launches} {launches} of CUDA graphs")
    return f"{', '.join(parts)}; {time_text(kernels.call_us)} in all under the profiler"


def times_text(times: CallTimes) -> str:
    """A call in all its figures."""
    least, mean, most = map(time_text, (times.min, times.mean, times.max))
    return f"{times.count:,} calls, {least} to {most}, mean {mean}"


# Numbers.


def time_text(us: float) -> str:
    """A time with three digits that count, in a unit that fits it."""
    size, unit = _unit(us)
    return f"{_digits(us / size, us / size)} {unit}"


def round_time_text(seconds: float) -> str:
    """A round time in as few digits as it has."""
    size, unit = _unit(seconds * 1e6)
    return f"{float(f'{seconds * 1e6 / size:.3g}'):,g} {unit}" if seconds else "0"


def seconds_text(seconds: float | None) -> str:
    """Seconds of compiling."""
    return UNKNOWN if seconds is None else time_text(seconds * 1e6)


def _unit(us: float) -> tuple[float, str]:
    return next((pair for pair in _UNITS if us >= pair[0]), _UNITS[-1])


def _digits(value: float, like: float) -> str:
    """A number in as many digits as three that count need in another."""
    return f"{value:,.{0 if like >= 100 else 1 if like >= 10 else 2}f}"


def bytes_text(size: int | None) -> str | None:
    """Memory, in a unit that fits it."""
    if size is None:
        return None
    for unit, name in _BYTES:
        if size >= unit:
            return f"{_digits(size / unit, size / unit)} {name}"
    return counted(size, "byte")


def rate_text(per_second: float | None) -> str | None:
    """Items a second."""
    if per_second is None:
        return None
    return f"{float(f'{per_second:.3g}'):,.0f}" if per_second >= 100 else f"{per_second:.3g}"
