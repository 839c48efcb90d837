"""Runs a program in each way that was asked for, and measures them side by side.

Comes in: what a run was asked to do. Goes out: variants, each with what it costs and what it gives. In this order, so
that nothing disturbs what is being timed:

1. Eager mode, in two processes: the second shows how much two processes of one program differ.
2. Each variant with an empty cache on disk, one after the other: what compiling costs.
3. Each variant again, with what it left on disk: what a restart costs. These processes stay.
4. Rounds, in which each process has its turn at its steady call.
5. Each variant once more with the instrumented backend: its results, graphs, breaks and kernels.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from graphdoctor.bench.judging import break_even, judged, noise_of
from graphdoctor.bench.probes import BenchProbe
from graphdoctor.bench.rounds import Turns, speedup, time_rounds
from graphdoctor.bench.variants import VariantSpec
from graphdoctor.model.bench import EAGER, Noise, Speedup, Throughput, Variant
from graphdoctor.model.run import ProbeExit
from graphdoctor.model.spec import RunSpec
from graphdoctor.probe.wire import BenchStart
from graphdoctor.replay.program import Program
from graphdoctor.replay.replays import Replays

_AGAIN = "eager-again"
_CACHES = "caches"


@dataclass(frozen=True)
class Choices:
    """How to measure.

    Args:
        side_by_side: How many processes fit into memory at once, at least three.
        on_phase: Called with what is being done.
    """

    side_by_side: int
    on_phase: Callable[[str], None]


@dataclass
class Measured:
    """What was measured of one variant so far.

    Args:
        spec: The variant.
        cold: What its first process reported; None if it ended before.
        warm: The same of its second process, whose calls were timed.
        turns: Times of its calls.
        beside: Eager mode's times in the same rounds.
        ended: How its processes ended, if one ended early.
    """

    spec: VariantSpec
    cold: BenchStart | None = None
    warm: BenchStart | None = None
    turns: Turns | None = None
    beside: Turns | None = None
    ended: ProbeExit | None = None

    @property
    def speedup(self) -> Speedup | None:
        """Beside eager mode."""
        return None if self.turns is None or self.beside is None else speedup(self.turns, self.beside)


@dataclass(frozen=True)
class Timings:
    """What was measured of all variants.

    Args:
        eager: Of eager mode.
        others: Of the other variants, in their order.
        noise: How steady the machine was.
    """

    eager: Measured
    others: Sequence[Measured] = field(default_factory=list)
    noise: Noise | None = None


def time_variants(
    replays: Replays, base: RunSpec, program: Program, variants: Sequence[VariantSpec], folder: Path, choices: Choices
) -> Timings:
    """Time every variant beside eager mode.

    Args:
        replays: Starts the processes.
        base: The user's own run.
        program: What to run.
        variants: The ways to run it, eager mode first.
        folder: Where Inductor's caches go meanwhile.
        choices: How to measure.
    """
    bench = _Timing(replays, base, program, folder / _CACHES, choices)
    try:
        return bench.run(variants[0], variants[1:])
    except BaseException:
        replays.cancel()
        raise
    finally:
        shutil.rmtree(folder / _CACHES, ignore_errors=True)


class _Timing:
    def __init__(self, replays: Replays, base: RunSpec, program: Program, caches: Path, choices: Choices) -> None:
        self._replays = replays
        self._base = base
        self._program = program
        self._caches = caches
        self._choices = choices

    def run(self, eager: VariantSpec, others: Sequence[VariantSpec]) -> Timings:
        measured = [Measured(spec) for spec in others]
        reference = Measured(eager)
        with self._process(eager, EAGER) as first:
            self._say("running eager mode")
            reference.cold = reference.warm = first.start()
            if reference.warm is None or not reference.warm["is_steady"]:
                reference.ended = first.end()
                return Timings(reference, measured)
            uses_cuda = reference.warm["uses_cuda"]
            possible = [one for one in measured if uses_cuda or not one.spec.needs_cuda(self._base)]
            for one in possible:
                self._compile(one)
            self._time(reference, first, [one for one in possible if one.cold is not None and one.cold["is_steady"]])
        again = reference.speedup
        return Timings(reference, measured, noise_of(reference.turns.call_times() if reference.turns else None, again))

    def _compile(self, one: Measured) -> None:
        """Run a variant with an empty cache on disk."""
        name = one.spec.name
        self._say(f"compiling {name} with an empty cache")
        with self._process(one.spec, f"{_slug(name)}-cold") as probe:
            one.cold = probe.start()
            ended = probe.end()
        if one.cold is None:
            one.ended = ended

    def _time(self, reference: Measured, first: BenchProbe, others: Sequence[Measured]) -> None:
        """Time them in groups that fit into memory, each beside eager mode."""
        size = max(self._choices.side_by_side - 2, 1)
        groups = [others[start : start + size] for start in range(0, len(others), size)] or [[]]
        with self._process(reference.spec, _AGAIN) as second:
            self._say("running eager mode once more")
            second.start()
            for group in groups:
                self._time_group(reference, {EAGER: first, _AGAIN: second}, group)

    def _time_group(self, reference: Measured, eager: Mapping[str, BenchProbe], group: Sequence[Measured]) -> None:
        with ExitStack() as stack:
            probes = dict(eager)
            for one in group:
                name = one.spec.name
                self._say(f"restarting {name}")
                probe = stack.enter_context(self._process(one.spec, f"{_slug(name)}-warm"))
                one.warm = probe.start()
                if one.warm is None or not one.warm["is_steady"]:
                    one.ended = probe.end()
                else:
                    probes[name] = probe
            found = time_rounds(probes, EAGER, lambda number: self._say(f"timing calls in turns, round {number}"))
        if reference.turns is None:
            reference.turns, reference.beside = found[EAGER], found[_AGAIN]
        for one in group:
            if one.spec.name in found:
                one.turns, one.beside = found[one.spec.name], found[EAGER]

    @contextmanager
    def _process(self, spec: VariantSpec, name: str) -> Iterator[BenchProbe]:
        cache = self._caches / _slug(spec.name)
        with ThreadPoolExecutor(max_workers=1) as pool:
            probe = BenchProbe(
                self._replays, self._program, name, is_eager=spec.is_eager, cache=cache, spec=spec.changes, pool=pool
            )
            try:
                yield probe
            except BaseException:
                self._replays.cancel()
                raise
            finally:
                probe.end()

    def _say(self, phase: str) -> None:
        self._choices.on_phase(phase)


def variant_of(one: Measured, timings: Timings, base: RunSpec) -> Variant:
    """What the times of a variant say.

    Args:
        one: What was measured of it.
        timings: Of all.
        base: The user's own run.
    """
    eager, spec = timings.eager, one.spec
    arguments = spec.arguments(base)
    shown = Variant(name=spec.name, arguments=arguments, is_regional=bool(spec.changes.get("regional")), status="ok")
    uses_cuda = eager.warm is not None and eager.warm["uses_cuda"]
    if eager.warm is None or not eager.warm["is_steady"]:
        if one is eager:
            return shown.model_copy(update={"status": "failed", "reason": _failure(one)})
        return shown.model_copy(update={"status": "skipped", "reason": "the program fails without torch.compile"})
    if spec.needs_cuda(base) and not uses_cuda:
        reason = "it needs CUDA graphs, and the program doesn't use CUDA"
        return shown.model_copy(update={"status": "skipped", "reason": reason})
    if one.ended is not None or one.warm is None:
        return shown.model_copy(update={"status": "failed", "reason": _failure(one)})
    times = one.turns.call_times() if one.turns else None
    ratio = one.speedup
    items = one.warm["items"]
    changes: dict[str, object] = {
        "call_us": times,
        "speedup": ratio,
        "judgement": "same" if spec.is_eager else judged(ratio, timings.noise),
        "peak_memory_bytes": one.turns.peak_memory_bytes if one.turns else None,
        "throughput": items["count"] / times.median * 1e6 if items and times and times.median else None,
    }
    if not spec.is_eager:
        changes |= _compile_costs(one, eager, str(changes["judgement"]))
    return shown.model_copy(update=changes)


def _compile_costs(one: Measured, eager: Measured, judgement: str) -> dict[str, object]:
    cold, warm = _added(one.cold, eager.warm), _added(one.warm, eager.warm)
    times, ratio = eager.turns.call_times() if eager.turns else None, one.speedup
    costs: dict[str, object] = {"compile_cold_s": cold, "compile_warm_s": warm}
    if judgement == "faster":
        after_cold = break_even(cold, times, ratio)
        costs["break_even_cold"], costs["break_even_warm"] = after_cold, break_even(warm, times, ratio)
        costs["break_even_calls"] = None if after_cold is None else after_cold.calls
    return costs


def _added(start: BenchStart | None, eager: BenchStart | None) -> float | None:
    """Seconds that compiling adds: the first calls of eager mode take longer than its later ones, too."""
    if start is None or eager is None:
        return None
    return max(start["excess_s"] - eager["excess_s"], 0.0)


def throughput_of(timings: Timings) -> Throughput | None:
    """What one call works on; None where no batch dim is known."""
    start = timings.eager.warm
    items = None if start is None else start["items"]
    return None if items is None else Throughput(items=items["count"], unit=items["unit"])


def _failure(one: Measured) -> str:
    start = one.warm or one.cold
    if start is not None and not start["is_steady"]:
        return f"it never stops compiling: not in {start['passes']} rounds of the calls"
    message = one.ended.message if one.ended is not None else None
    return (message or "its process ended early").rstrip(".")


def _slug(name: str) -> str:
    return "".join(char if char.isalnum() else "-" for char in name)
