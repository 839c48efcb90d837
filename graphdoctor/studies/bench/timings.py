"""Times a program in each way to run it, side by side, as its user runs it.

Comes in: the ways to run it. Goes out: what compiling and calling costs in each. In this order, so
that nothing disturbs what is being timed:

1. Eager mode. Beside it, unless cold starts are asked for, the first variant: eager mode is ready
   before torch.compile has been imported.
2. If asked for, each variant with an empty cache on disk, one after the other: what compiling
   costs.
3. Each variant, with what is on disk: what a restart costs. These processes stay.
4. Rounds, in which each process has its turn at its steady call.
5. If the difference is small, or everything is asked for, eager mode in a second process, which
   shows how much two processes of one program differ, and more rounds.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, cast

from graphdoctor.facts.bench import (
    EAGER,
    HOST_BOUND,
    CallTimes,
    Noise,
    Speedup,
    Throughput,
    Variant,
)
from graphdoctor.facts.kernels import CacheUse
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.spec import RunSpec
from graphdoctor.probe.wire import BenchStart, BenchTime
from graphdoctor.studies.bench.rounds import (
    BEST,
    Turns,
    break_even,
    judged,
    needs_twin,
    noise_of,
    speedup,
    time_rounds,
)
from graphdoctor.studies.bench.variants import VariantSpec
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from graphdoctor.trials.timing import ServedProbe
from graphdoctor.wording import factor_text

NEEDS_CUDA = "it needs CUDA graphs, and the program doesn't use CUDA"
"""Why a variant is skipped, a clause."""

_AGAIN = "eager again"


@dataclass
class Measured:
    """What was measured of one variant so far.

    Args:
        cold: What its first process reported; None if it ended before.
        warm: The same of its second process, whose calls were timed.
        device_us: The part of a call in which a GPU works; None without CUDA, or if unknown.
        awaits_backward: Outputs of its calls await their backward pass, and torch records CUDA
            graphs anew.
        is_of_best: Its speed-up is that of the best rounds, because a call waits for its host.
        ended: How its processes ended, if one ended early.
    """

    spec: VariantSpec
    cold: BenchStart | None = None
    warm: BenchStart | None = None
    turns: Turns | None = None
    beside: Turns | None = None
    device_us: float | None = None
    awaits_backward: bool = False
    is_of_best: bool = False
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
        if self.turns is None or self.beside is None:
            return None
        return speedup(self.turns, self.beside, is_of_best=self.is_of_best)

    @property
    def best_us(self) -> float | None:
        """Its call in the second shortest round; None unless the speed-up is of these."""
        best_us = [] if self.turns is None or not self.is_of_best else self.turns.best_us
        return best_us[1] if len(best_us) == BEST else None

    @property
    def uses_cuda(self) -> bool:
        """Whether its process uses a GPU."""
        return self.warm is not None and self.warm["uses_cuda"]

    @property
    def waits_for_host(self) -> bool:
        """Whether a GPU clearly works for less time than its calls take."""
        return (
            self.device_us is not None
            and self.times is not None
            and self.device_us < HOST_BOUND * self.times.median
        )


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
        # Those that are cancelled end as if they were interrupted; the error goes on.
        with contextlib.suppress(*[KeyboardInterrupt] if error[0] is not None else []):
            self._stack.close()
        shutil.rmtree(self.caches, ignore_errors=True)

    def start_eager(self, program: Program, meanwhile: Callable[[], object] = bool) -> Measured:
        """Run the program without torch.compile; ``meanwhile``: what is done until its calls are
        steady.
        """
        one = Measured(VariantSpec(EAGER, is_eager=True))
        self.say("running eager mode")
        probe = self._probe(one.spec, program, f"{EAGER}-timed", is_start_timed=True)
        meanwhile()
        one.cold = one.warm = self._settled(one, probe, EAGER)
        return one

    def start_twin(self, eager: Measured, program: Program) -> None:
        """Run the program without torch.compile in a second process."""
        if eager.is_steady and _AGAIN not in self._running:
            self.say("running eager mode once more")
            twin = Measured(eager.spec)
            self._settled(twin, self._probe(twin.spec, program, f"{slug(_AGAIN)}-timed"), _AGAIN)

    def compile(self, spec: VariantSpec, program: Program) -> Measured:
        """Run a variant with an empty cache on disk, to its end."""
        one = Measured(spec)
        self.say(f"compiling {spec.name} with an empty cache")
        probe = self._probe(
            spec, program, f"{slug(spec.name)}-cold", cache=self.caches / slug(spec.name)
        )
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
        name = one.spec.name
        one.warm = self._settled(
            one,
            self._probe(one.spec, program, f"{slug(name)}-timed", cache=self.caches / slug(name)),
            name,
        )

    def start(self, one: Measured, program: Program) -> None:
        """Run a variant with what the user has on disk; it stays if its calls get steady."""
        self.say(f"compiling {one.spec.name}")
        probe = self._probe(one.spec, program, f"{slug(one.spec.name)}-timed", is_start_timed=True)
        one.warm = self._settled(one, probe, one.spec.name)

    def start_recorded(self, one: Measured, recording: Path) -> None:
        """Make the user's own run, recorded; it stays if its calls get steady."""
        one.warm = self._settled(
            one, self._served(partial(self.replays.serve_recorded, recording)), one.spec.name
        )

    def compare(self, eager: Measured, others: Sequence[Measured], program: Program) -> None:
        """Time those that run until it is known which are faster, beside eager mode's second
        process if need be.
        """
        self.time(eager, others, is_precise=False)
        ways = [one for each in others for one in (each, replace(each, is_of_best=eager.uses_cuda))]
        if any(needs_twin(one.speedup) for one in ways):
            self.start_twin(eager, program)
            self.time(eager, others, is_precise=False)

    def time(self, eager: Measured, others: Sequence[Measured], *, is_precise: bool) -> None:
        """Time those that run in rounds, in which each has its turn."""
        timed = {EAGER, _AGAIN, *(one.spec.name for one in others)}
        probes = {name: probe for name, probe in self._running.items() if name in timed}

        def tell(number: int, found: Mapping[str, Turns]) -> None:
            ratios = {
                one.spec.name: speedup(found[one.spec.name], found[EAGER])
                for one in others
                if one.is_steady
            }
            known = [
                f"{name} {factor_text(ratio.ratio)}"
                for name, ratio in ratios.items()
                if ratio is not None
            ]
            so_far = [f"{', '.join(known)} so far"] if known else []
            self.say(", ".join(["timing calls in turns", *so_far, f"round {number}"]))

        found = time_rounds(probes, EAGER, tell, is_precise=is_precise, is_on_gpu=eager.uses_cuda)
        eager.turns, eager.beside = found.get(EAGER), found.get(_AGAIN)
        for one in others:
            one.turns, one.beside = found.get(one.spec.name), found.get(EAGER)

    def floor_us(self, one: Measured) -> float | None:
        """What a compiled call takes at least in a variant's process, in microseconds; None if
        unknown.
        """
        found = self._asked(one, "floor")
        return None if found is None else found["us"]

    def profile_devices(self, ones: Sequence[Measured]) -> None:
        """Measure how long a GPU works for a call of each, last of all: after a profiler calls may
        take longer.
        """
        for one in ones:
            self.say(f"profiling the kernels of {one.spec.name}")
            if (found := self._asked(one, "device")) is not None:
                one.device_us, one.awaits_backward = found["us"], found["awaits_backward"]

    def _asked(self, one: Measured, what: Literal["floor", "device"]) -> BenchTime | None:
        probe = self._running.get(one.spec.name)
        return None if probe is None else cast("BenchTime | None", probe.ask({what: True}))

    def end(self, others: Sequence[Measured]) -> None:
        """Let variants end."""
        for one in others:
            if (probe := self._running.pop(one.spec.name, None)) is not None:
                probe.end()

    def _settled(self, one: Measured, probe: ServedProbe, name: str) -> BenchStart | None:
        start = cast("BenchStart | None", probe.answer())
        if start is None or not start["is_steady"]:
            one.ended = probe.end()
        else:
            self._running[name] = probe
        return start

    def _probe(
        self,
        spec: VariantSpec,
        program: Program,
        name: str,
        *,
        cache: Path | None = None,
        is_start_timed: bool = False,
    ) -> ServedProbe:
        """A process that runs a program as its user would, and times its steady call whenever it is
        asked.

        ``cache``: its own cache on disk; its start is timed then, too.
        """
        given: dict[str, Any] = {"is_eager": spec.is_eager, "cache": cache, "spec": spec.changes}
        given["is_start_timed"] = is_start_timed or cache is not None
        return self._served(partial(self.replays.serve, program, name, **given))

    def _served(self, start: Callable[[int], ProbeExit]) -> ServedProbe:
        probe = ServedProbe(start, self._stack.enter_context(ThreadPoolExecutor(max_workers=1)))
        self._stack.callback(probe.end)
        return probe


@dataclass
class Timing:
    """How variants are timed.

    Args:
        most: So many processes fit into memory.
        is_cold: With starts from an empty cache.
        is_precise: Until ratios are known precisely, with a second process of eager mode.
    """

    side_by_side: SideBySide
    base: RunSpec
    program: Program
    most: int
    is_cold: bool
    is_precise: bool

    def time(
        self, eager: Measured, own: Measured | None, variants: Sequence[VariantSpec]
    ) -> Timings:
        """Time every variant beside eager mode, which runs already, as ``own`` may.

        ``variants``: the ways to run it but for eager mode.
        """
        if not eager.is_steady or eager.warm is None:
            return Timings(eager, [Measured(spec) for spec in variants])
        uses_cuda = eager.warm["uses_cuda"]
        measured: list[Measured] = []
        for spec in variants:
            if own is not None and own.spec == spec:
                measured.append(own)
            elif self.is_cold and (uses_cuda or not spec.needs_cuda(self.base)):
                measured.append(self.side_by_side.compile(spec, self.program))
            else:
                measured.append(Measured(spec))
        # In groups that fit into memory, each beside the two of eager mode.
        size = max(self.most - 2, 1)
        for start in range(0, max(len(measured), 1), size):
            self._time_group(eager, measured[start : start + size], uses_cuda=uses_cuda)
        if uses_cuda:
            self.side_by_side.profile_devices([eager])
        is_of_best = any(one.waits_for_host for one in (eager, *measured))
        for one in (eager, *measured):
            one.is_of_best = is_of_best
        return Timings(eager, measured, noise_of(eager.times, eager.speedup))

    def _time_group(self, eager: Measured, group: Sequence[Measured], *, uses_cuda: bool) -> None:
        ways = self.side_by_side
        for one in group:
            if self.is_cold:
                ways.restart(one, self.program)
            elif (
                not one.is_steady
                and one.ended is None
                and (uses_cuda or not one.spec.needs_cuda(self.base))
            ):
                ways.start(one, self.program)
        if self.is_precise:
            ways.start_twin(eager, self.program)
            ways.time(eager, group, is_precise=True)
        else:
            ways.compare(eager, group, self.program)
        if uses_cuda:
            ways.profile_devices(group)
        ways.end(group)


def variant_of(one: Measured, timings: Timings, base: RunSpec) -> Variant:
    """What the times of a variant say."""
    eager, spec = timings.eager, one.spec
    shown = Variant(
        name=spec.name,
        arguments=spec.arguments(base),
        is_regional=spec.spec(base).regional,
        status="ok",
    )
    if not eager.is_steady and one is not eager:
        return replace(shown, status="skipped", reason="the program fails without torch.compile")
    if spec.needs_cuda(base) and not eager.uses_cuda:
        return replace(shown, status="skipped", reason=NEEDS_CUDA)
    if one.ended is not None or one.warm is None:
        return replace(shown, status="failed", reason=failure(one), exit=one.ended)
    times, ratio, items = one.times, one.speedup, one.warm["items"]
    shown = replace(
        shown,
        call_us=times,
        alone_us=one.turns.alone_times() if one.turns else None,
        best_us=one.best_us,
        device_us=one.device_us,
        awaits_backward=one.awaits_backward,
        speedup=ratio,
        judgement="same" if spec.is_eager else judged(ratio, timings.noise),
        peak_memory_bytes=one.turns.peak_memory_bytes if one.turns else None,
        throughput=items["count"] / times.median * 1e6
        if items and times and times.median
        else None,
    )
    if spec.is_eager:
        return shown
    if (counted := one.warm["cache"]) is not None:
        shown = replace(shown, cache=CacheUse(**counted))
    cold_s, warm_s = added_s(one.cold, eager.warm), added_s(one.warm, eager.warm)
    eager_us = (
        eager.best_us if eager.best_us is not None or eager.times is None else eager.times.median
    )
    pays = [
        break_even(s, eager_us, ratio) if shown.judgement == "faster" else None
        for s in (cold_s, warm_s)
    ]
    return replace(
        shown,
        compile_cold_s=cold_s,
        compile_warm_s=warm_s,
        break_even_cold=pays[0],
        break_even_warm=pays[1],
        break_even_calls=None
        if (first := pays[0] if one.cold else pays[1]) is None
        else first.calls,
    )


def added_s(start: BenchStart | None, eager: BenchStart | None) -> float | None:
    """Seconds that compiling adds; None if unknown. Eager mode's first calls take longer than its
    later ones, too.
    """
    return (
        None if start is None or eager is None else max(start["excess_s"] - eager["excess_s"], 0.0)
    )


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
