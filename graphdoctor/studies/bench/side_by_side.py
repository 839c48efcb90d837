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
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, Self, cast

from graphdoctor.executors.machine import gpu_turn
from graphdoctor.facts.bench import EAGER, HOST_BOUND, CallTimes, Noise, Speedup, Variant
from graphdoctor.facts.kernels import CacheUse
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.spec import RunSpec
from graphdoctor.probe.wire import BenchStart, BenchTime
from graphdoctor.studies.bench.rounds import (
    BEST,
    NEAR,
    Turns,
    break_even,
    judged,
    noise_of,
    speedup,
    time_rounds,
)
from graphdoctor.studies.bench.variants import VariantSpec
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from graphdoctor.trials.timing import MIN_TURNS, ServedProbe
from graphdoctor.views.measures import speed_of

INTERRUPTED = "interrupted before it was ready"
"""The reason why a variant wasn't timed, a clause."""

NEEDS_CUDA = "it needs CUDA graphs, and the program doesn't use CUDA"
"""The reason why a variant is skipped, a clause."""

_TWIN = "eager-again"


@dataclass
class Way:
    """A way to run the program, and what was measured of it so far.

    Args:
        cold: What a process with an empty cache on disk reported; None if there was none.
        warm: The same of the process whose calls were timed; None if it ended before.
        device_us: The part of a call in which a GPU works; None without CUDA, or if unknown.
        awaits_backward: Outputs of its calls await their backward pass, and torch records CUDA
            graphs anew.
        is_of_best: Its speed-up is that of the best rounds, because a call waits for its host.
        ended: How its processes ended, if one ended early.
    """

    spec: VariantSpec
    program: Program = field(default_factory=Program)
    cold: BenchStart | None = None
    warm: BenchStart | None = None
    turns: Turns | None = None
    beside: Turns | None = None
    device_us: float | None = None
    awaits_backward: bool = False
    is_of_best: bool = False
    ended: ProbeExit | None = None

    @property
    def name(self) -> str:
        """The variant's name."""
        return self.spec.name

    @property
    def slug(self) -> str:
        """The name as part of a file name."""
        return "".join(char if char.isalnum() else "-" for char in self.name)

    @property
    def is_steady(self) -> bool:
        """Return whether its calls can be timed; a process that ended isn't steady."""
        return self.warm is not None and self.warm["is_steady"]

    @property
    def never_settles(self) -> bool:
        """Return whether it compiled something in every round of its calls."""
        start = self.warm or self.cold
        return start is not None and not start["is_steady"]

    @property
    def failure(self) -> str:
        """The reason why it wasn't timed, as a clause."""
        start = self.warm or self.cold
        if start is not None and self.never_settles:
            return f"it never stops compiling: not in {start['passes']} rounds of the calls"
        message = self.ended.message if self.ended is not None else None
        return (message or "its process ended early").rstrip(".")

    @property
    def times(self) -> CallTimes | None:
        """Times of its calls; None if it wasn't timed."""
        turns = self.turns or Turns()
        return CallTimes.of(turns.times_us, turns.call_count)

    @property
    def call_us(self) -> float | None:
        """The median of its calls."""
        return None if self.times is None else self.times.median

    @property
    def speedup(self) -> Speedup | None:
        """The speed-up over eager mode."""
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
        """Return whether its process uses a GPU."""
        return self.warm is not None and self.warm["uses_cuda"]


@dataclass
class SideBySide:
    """Processes that run a program in several ways, and stay until they are ended.

    Args:
        caches: The folder for caches of cold starts.
        is_cold: Each way starts with an empty cache first.
    """

    replays: Replays
    base: RunSpec
    program: Program
    caches: Path
    say: Callable[[str], None]
    is_cold: bool = False
    eager: Way = field(init=False)
    is_interrupted: bool = False
    _stack: ExitStack = field(default_factory=ExitStack)
    _running: dict[str, ServedProbe] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.eager = Way(VariantSpec(EAGER, is_eager=True), self.program)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self.is_interrupted = error[0] is KeyboardInterrupt
            self.replays.cancel()
        # Those that are cancelled end as if they were interrupted; the error goes on.
        with contextlib.suppress(*[KeyboardInterrupt] if error[0] is not None else []):
            self._stack.close()
        shutil.rmtree(self.caches, ignore_errors=True)

    @property
    def noise(self) -> Noise | None:
        """The steadiness of the machine; None if eager mode wasn't timed."""
        return noise_of(self.eager.times, self.eager.speedup)

    # Starting processes.

    def start_eager(self, meanwhile: Callable[[], object] = bool) -> None:
        """Run the program without torch.compile; ``meanwhile`` is called before its calls are
        steady.
        """
        self.say("running eager mode")
        probe = self._probe(self.eager, "timed")
        meanwhile()
        self.eager.cold = self.eager.warm = self._settled(self.eager, probe)

    def start_recorded(self, way: Way, recording: Path) -> None:
        """Make the user's own run, recorded; it stays if its calls get steady."""
        serve = partial(self.replays.serve_recorded, recording)
        way.warm = self._settled(way, self._served(serve))

    def start(self, ways: Sequence[Way]) -> None:
        """Run ways that didn't start yet and can; those whose calls get steady stay."""
        waiting = [
            way
            for way in ways
            if way.warm is None
            and way.ended is None
            and (self.eager.uses_cuda or not way.spec.needs_cuda(self.base))
        ]
        for way in waiting if self.is_cold else ():
            self.say(f"compiling {way.name} with an empty cache")
            probe = self._probe(way, "cold", cache=self.caches / way.slug)
            try:
                way.cold = cast("BenchStart | None", probe.answer())
            finally:
                ended = probe.end()
            if way.cold is None:
                way.ended = ended
        for way in waiting:
            cache = self.caches / way.slug if self.is_cold else None
            if not self.is_cold or (way.cold is not None and way.cold["is_steady"]):
                self.say(f"{'restarting' if self.is_cold else 'compiling'} {way.name}")
                way.warm = self._settled(way, self._probe(way, "timed", cache=cache))

    def end(self, ways: Sequence[Way]) -> None:
        """Let their processes end."""
        for way in ways:
            if (probe := self._running.pop(way.name, None)) is not None:
                probe.end()

    def _settled(self, way: Way, probe: ServedProbe) -> BenchStart | None:
        start = cast("BenchStart | None", probe.answer())
        if start is None or not start["is_steady"]:
            way.ended = probe.end()
        else:
            self._running[way.name] = probe
        return start

    def _probe(
        self, way: Way, ending: str, *, cache: Path | None = None, is_start_timed: bool = True
    ) -> ServedProbe:
        """Start a process that runs a program as its user would, and times its steady call when it
        is asked; ``cache``: its own cache on disk.
        """
        start = partial(
            self.replays.serve,
            way.program,
            f"{way.slug}-{ending}",
            is_eager=way.spec.is_eager,
            cache=cache,
            spec=way.spec.changes,
            is_start_timed=is_start_timed,
        )
        return self._served(start)

    def _served(self, start: Callable[[int], ProbeExit]) -> ServedProbe:
        probe = ServedProbe(start, self._stack.enter_context(ThreadPoolExecutor(max_workers=1)))
        self._stack.callback(probe.end)
        return probe

    # Timing them.

    def time_all(self, ways: Sequence[Way], most: int, *, is_precise: bool) -> None:
        """Start ways and time them, in groups of processes that fit into memory; ``most``: so many
        do, the two of eager mode among them.
        """
        if not self.eager.is_steady:
            return
        size = max(most - 2, 1)
        for first in range(0, max(len(ways), 1), size):
            group = ways[first : first + size]
            self.start(group)
            self.time(group, is_precise=is_precise)
            if self.eager.uses_cuda:
                self._profile_devices(group)
            self.end(group)
        if self.eager.uses_cuda:
            self._profile_devices([self.eager])
        timed = (self.eager, *ways)
        # A GPU clearly works for less time than calls take.
        is_of_best = any(
            way.device_us is not None and way.device_us < HOST_BOUND * (way.call_us or 0.0)
            for way in timed
        )
        for way in timed:
            way.is_of_best = is_of_best

    def time(self, ways: Sequence[Way], *, is_precise: bool = False) -> None:
        """Time those that run until it is known which are faster, or precisely; beside eager
        mode's second process if need be.
        """
        if not is_precise:
            self._time(ways, is_precise=False)
            ratios = (
                replace(way, is_of_best=is_of_best).speedup
                for way in ways
                for is_of_best in (False, self.eager.uses_cuda)
            )
            # Two processes that run the same may differ by as much, so that a second one in eager
            # mode must say.
            if not any(
                judged(ratio, None) in ("faster", "slower") and abs(math.log(ratio.ratio)) < NEAR
                for ratio in ratios
                if ratio is not None
            ):
                return
        if self.eager.is_steady and _TWIN not in self._running:
            self.say("running eager mode once more")
            twin = Way(replace(self.eager.spec, name=_TWIN), self.program)
            self._settled(twin, self._probe(twin, "timed", is_start_timed=False))
        self._time(ways, is_precise=is_precise)

    def _time(self, ways: Sequence[Way], *, is_precise: bool) -> None:
        names = {EAGER, _TWIN, *(way.name for way in ways)}
        probes = {name: probe for name, probe in self._running.items() if name in names}

        def keep(turns: Mapping[str, Turns]) -> None:
            self.eager.turns, self.eager.beside = turns.get(EAGER), turns.get(_TWIN)
            for way in ways:
                way.turns, way.beside = turns.get(way.name), self.eager.turns

        def report_round(number: int, turns: Mapping[str, Turns]) -> None:
            if number > MIN_TURNS:
                # An interrupt may end them any time.
                keep(turns)
            ratios = (
                (way.name, speedup(turns[way.name], turns[EAGER])) for way in ways if way.is_steady
            )
            so_far = ", ".join(f"{name} {speed_of(ratio.ratio)}" for name, ratio in ratios if ratio)
            self.say(f"timing calls in turns{so_far and f', {so_far} so far'}, round {number}")

        is_on_gpu = self.eager.uses_cuda
        with self._gpu_turn():
            keep(
                time_rounds(probes, EAGER, report_round, is_precise=is_precise, is_on_gpu=is_on_gpu)
            )

    def floor_us(self, way: Way) -> float | None:
        """Return the least time of a compiled call in a way's process, in µs; None if unknown."""
        answer = self._ask(way, "floor")
        return None if answer is None else answer["us"]

    def _profile_devices(self, ways: Sequence[Way]) -> None:
        """Measure how long a GPU works for a call of each, last of all: after a profiler calls may
        take longer.
        """
        with self._gpu_turn():
            for way in ways:
                self.say(f"profiling the kernels of {way.name}")
                if (answer := self._ask(way, "device")) is not None:
                    way.device_us, way.awaits_backward = answer["us"], answer["awaits_backward"]

    def _gpu_turn(self) -> AbstractContextManager[None]:
        return gpu_turn() if self.eager.uses_cuda else contextlib.nullcontext()

    def _ask(self, way: Way, what: Literal["floor", "device"]) -> BenchTime | None:
        probe = self._running.get(way.name)
        return None if probe is None else cast("BenchTime | None", probe.ask({what: True}))

    # What the times say.

    def added_s(self, start: BenchStart | None) -> float | None:
        """Return the seconds that compiling adds; None if unknown. Eager mode's first calls take
        longer than its later ones, too.
        """
        eager = self.eager.warm
        if start is None or eager is None:
            return None
        return max(start["excess_s"] - eager["excess_s"], 0.0)

    def variant(self, way: Way) -> Variant:
        """Return a way as a fact: its times, or why there are none."""
        eager, spec = self.eager, way.spec
        variant = Variant(
            name=spec.name,
            arguments=spec.arguments(self.base),
            is_regional=spec.spec(self.base).regional,
            status="ok",
        )
        if self.is_interrupted and way.warm is None and way.ended is None:
            return variant.replace(status="skipped", reason=INTERRUPTED)
        if not eager.is_steady and way is not eager:
            reason = "the program fails without torch.compile"
            return variant.replace(status="skipped", reason=reason)
        if spec.needs_cuda(self.base) and not eager.uses_cuda:
            return variant.replace(status="skipped", reason=NEEDS_CUDA)
        if way.ended is not None or way.warm is None:
            return variant.replace(status="failed", reason=way.failure, exit=way.ended)
        ratio, items, call_us = way.speedup, way.warm["items"], way.call_us
        variant = variant.replace(
            call_us=way.times,
            alone_us=CallTimes.of(way.turns.alone_us) if way.turns else None,
            best_us=way.best_us,
            device_us=way.device_us,
            awaits_backward=way.awaits_backward,
            speedup=ratio,
            judgement="same" if spec.is_eager else judged(ratio, self.noise),
            peak_memory_bytes=way.turns.peak_memory_bytes if way.turns else None,
            throughput=items["count"] / call_us * 1e6 if items and call_us else None,
        )
        if spec.is_eager:
            return variant
        cold_s, warm_s = self.added_s(way.cold), self.added_s(way.warm)
        eager_us = eager.best_us or eager.call_us
        is_faster = variant.judgement == "faster"
        cold, warm = (
            break_even(seconds, eager_us, ratio) if is_faster else None
            for seconds in (cold_s, warm_s)
        )
        first = cold if way.cold else warm
        return variant.replace(
            cache=None if way.warm["cache"] is None else CacheUse(**way.warm["cache"]),
            compile_cold_s=cold_s,
            compile_warm_s=warm_s,
            break_even_cold=cold,
            break_even_warm=warm,
            break_even_calls=None if first is None else first.calls,
        )
