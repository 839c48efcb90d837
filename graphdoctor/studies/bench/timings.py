"""Times a program in each way to run it, side by side, as its user runs it.

Comes in: the ways to run it. Goes out: what compiling and calling costs in each. In this order, so that nothing
disturbs what is being timed:

1. Eager mode, in two processes: the second shows how much two processes of one program differ.
2. Each variant with an empty cache on disk, one after the other: what compiling costs.
3. Each variant again, with what it left on disk: what a restart costs. These processes stay.
4. Rounds, in which each process has its turn at its steady call.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Self, cast

from graphdoctor.facts.bench import EAGER, CallTimes, Noise, Speedup, Throughput, Variant
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.spec import RunSpec
from graphdoctor.probe.wire import BenchStart
from graphdoctor.studies.bench.rounds import Turns, break_even, judged, noise_of, speedup, time_rounds
from graphdoctor.studies.bench.variants import VariantSpec
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from graphdoctor.trials.timing import ServedProbe

NEEDS_CUDA = "it needs CUDA graphs, and the program doesn't use CUDA"
"""Why a variant is skipped, a clause."""

_AGAIN = "eager again"


@dataclass
class Measured:
    """What was measured of one variant so far.

    Args:
        cold: What its first process reported; None if it ended before.
        warm: The same of its second process, whose calls were timed.
        ended: How its processes ended, if one ended early.
    """

    spec: VariantSpec
    cold: BenchStart | None = None
    warm: BenchStart | None = None
    turns: Turns | None = None
    beside: Turns | None = None
    ended: ProbeExit | None = None

    @property
    def is_steady(self) -> bool:
        """Its calls got steady, where it was restarted; a process that ended isn't."""
        return self.warm is not None and self.warm["is_steady"]

    @property
    def never_settles(self) -> bool:
        """It compiled something in every round of its calls."""
        start = self.warm or self.cold
        return start is not None and not start["is_steady"]

    @property
    def was_stopped(self) -> bool:
        """It took too long or too much memory: running it once more would, too."""
        return self.ended is not None and self.ended.reason in ("timeout", "killed")

    @property
    def times(self) -> CallTimes | None:
        """Of its calls; None if it wasn't timed."""
        return None if self.turns is None else self.turns.call_times()

    @property
    def speedup(self) -> Speedup | None:
        """Beside eager mode."""
        return None if self.turns is None or self.beside is None else speedup(self.turns, self.beside)


@dataclass(frozen=True)
class Timings:
    """What was measured of all variants. ``others``: of the other variants, in their order."""

    eager: Measured
    others: Sequence[Measured] = field(default_factory=list)
    noise: Noise | None = None


@dataclass
class SideBySide:
    """Processes that run a program in several ways, and stay until they are ended."""

    replays: Replays
    caches: Path
    say: Callable[[str], None]
    _stack: ExitStack = field(default_factory=ExitStack)
    _running: dict[str, ServedProbe] = field(default_factory=dict)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self.replays.cancel()
        self._stack.close()
        shutil.rmtree(self.caches, ignore_errors=True)

    def start_eager(self, program: Program) -> Measured:
        """Run the program without torch.compile, in two processes."""
        one = Measured(VariantSpec(EAGER, is_eager=True))
        self.say("running eager mode")
        one.cold = one.warm = self._start(one, program, EAGER)
        if one.is_steady:
            self.say("running eager mode once more")
            self._start(Measured(one.spec), program, _AGAIN)
        return one

    def compile(self, spec: VariantSpec, program: Program) -> Measured:
        """Run a variant with an empty cache on disk, to its end."""
        one = Measured(spec)
        self.say(f"compiling {spec.name} with an empty cache")
        probe = self._probe(spec, program, f"{slug(spec.name)}-cold")
        try:
            one.cold = cast("BenchStart | None", probe.answer())
        finally:
            ended = probe.end()
        if one.cold is None:
            one.ended = ended
        return one

    def restart(self, one: Measured, program: Program) -> None:
        """Run a variant once more, with what it left on disk; it stays if its calls get steady."""
        if one.cold is None or not one.cold["is_steady"]:
            return
        self.say(f"restarting {one.spec.name}")
        one.warm = self._start(one, program, one.spec.name)

    def time(self, eager: Measured, others: Sequence[Measured]) -> None:
        """Time those that run in rounds, in which each has its turn."""
        timed = {EAGER, _AGAIN, *(one.spec.name for one in others)}
        probes = {name: probe for name, probe in self._running.items() if name in timed}
        found = time_rounds(probes, EAGER, lambda number: self.say(f"timing calls in turns, round {number}"))
        eager.turns, eager.beside = found.get(EAGER), found.get(_AGAIN)
        for one in others:
            one.turns, one.beside = found.get(one.spec.name), found.get(EAGER)

    def end(self, others: Sequence[Measured]) -> None:
        """Let variants end."""
        for one in others:
            if (probe := self._running.pop(one.spec.name, None)) is not None:
                probe.end()

    def _start(self, one: Measured, program: Program, name: str) -> BenchStart | None:
        probe = self._probe(one.spec, program, f"{slug(name)}-timed")
        start = cast("BenchStart | None", probe.answer())
        if start is None or not start["is_steady"]:
            one.ended = probe.end()
        else:
            self._running[name] = probe
        return start

    def _probe(self, spec: VariantSpec, program: Program, name: str) -> ServedProbe:
        """A process that runs a program as its user would, and times its steady call whenever it is asked."""
        pool = self._stack.enter_context(ThreadPoolExecutor(max_workers=1))
        cache, changes = self.caches / slug(spec.name), spec.changes
        probe = ServedProbe(
            partial(self.replays.serve, program, name, is_eager=spec.is_eager, cache=cache, spec=changes), pool
        )
        self._stack.callback(probe.end)
        return probe


def time_variants(
    side_by_side: SideBySide, base: RunSpec, program: Program, variants: Sequence[VariantSpec], *, most: int
) -> Timings:
    """Time every variant beside eager mode. ``variants``: the ways to run it but for eager mode."""
    eager = side_by_side.start_eager(program)
    if not eager.is_steady or eager.warm is None:
        return Timings(eager, [Measured(spec) for spec in variants])
    uses_cuda = eager.warm["uses_cuda"]
    measured = [
        side_by_side.compile(spec, program) if uses_cuda or not spec.needs_cuda(base) else Measured(spec)
        for spec in variants
    ]
    # In groups that fit into memory, each beside the two of eager mode.
    size = max(most - 2, 1)
    for start in range(0, max(len(measured), 1), size):
        group = measured[start : start + size]
        for one in group:
            side_by_side.restart(one, program)
        side_by_side.time(eager, group)
        side_by_side.end(group)
    return Timings(eager, measured, noise_of(eager.times, eager.speedup))


def variant_of(one: Measured, timings: Timings, base: RunSpec) -> Variant:
    """What the times of a variant say."""
    eager, spec = timings.eager, one.spec
    arguments = spec.arguments(base)
    shown = Variant(name=spec.name, arguments=arguments, is_regional=spec.spec(base).regional, status="ok")
    uses_cuda = eager.warm is not None and eager.warm["uses_cuda"]
    if not eager.is_steady and one is not eager:
        return replace(shown, status="skipped", reason="the program fails without torch.compile")
    if spec.needs_cuda(base) and not uses_cuda:
        return replace(shown, status="skipped", reason=NEEDS_CUDA)
    if one.ended is not None or one.warm is None:
        return replace(shown, status="failed", reason=failure(one), exit=one.ended)
    times, ratio, items = one.times, one.speedup, one.warm["items"]
    shown = replace(
        shown,
        call_us=times,
        speedup=ratio,
        judgement="same" if spec.is_eager else judged(ratio, timings.noise),
        peak_memory_bytes=one.turns.peak_memory_bytes if one.turns else None,
        throughput=items["count"] / times.median * 1e6 if items and times and times.median else None,
    )
    if spec.is_eager:
        return shown
    cold_s, warm_s = added_s(one.cold, eager.warm), added_s(one.warm, eager.warm)
    pays = [break_even(s, eager.times, ratio) if shown.judgement == "faster" else None for s in (cold_s, warm_s)]
    return replace(
        shown,
        compile_cold_s=cold_s,
        compile_warm_s=warm_s,
        break_even_cold=pays[0],
        break_even_warm=pays[1],
        break_even_calls=None if pays[0] is None else pays[0].calls,
    )


def added_s(start: BenchStart | None, eager: BenchStart | None) -> float | None:
    """Seconds that compiling adds; None if unknown. Eager mode's first calls take longer than its later ones, too."""
    if start is None or eager is None:
        return None
    return max(start["excess_s"] - eager["excess_s"], 0.0)


def throughput_of(timings: Timings) -> Throughput | None:
    """What one call works on; None where no batch dim is known."""
    start = timings.eager.warm
    items = None if start is None else start["items"]
    return None if items is None else Throughput(items=items["count"], unit=items["unit"])


def failure(one: Measured) -> str:
    """Why a variant wasn't timed, as a clause."""
    start = one.warm or one.cold
    if start is not None and one.never_settles:
        return f"it never stops compiling: not in {start['passes']} rounds of the calls"
    message = one.ended.message if one.ended is not None else None
    return (message or "its process ended early").rstrip(".")


def slug(name: str) -> str:
    """A variant's name as part of a file name."""
    return "".join(char if char.isalnum() else "-" for char in name)
