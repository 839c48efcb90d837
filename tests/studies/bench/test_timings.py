"""What the times of a variant become, or why there are none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.spec import RunSpec
from graphdoctor.probe.wire import BenchStart
from graphdoctor.studies.bench.rounds import Turns
from graphdoctor.studies.bench.side_by_side import NEEDS_CUDA, SideBySide, Way
from graphdoctor.studies.bench.variants import VariantSpec
from graphdoctor.trials.program import Program
from graphdoctor.trials.replays import Replays
from tests.each import for_each

BASE = RunSpec(target="model.py", backend="inductor")


def on_phase(_phase: str) -> None:
    pass


def start(excess_s: float = 0.5, **more: Any) -> BenchStart:
    given: dict[str, Any] = {
        "is_steady": True,
        "excess_s": excess_s,
        "passes": 4,
        "call_count": 1,
        "inputs": "f32[8, 16]",
        "items": {"count": 8, "unit": "samples"},
        "cache": None,
        "uses_cuda": False,
        "peak_memory_bytes": 100,
    }
    return BenchStart(**given | more)  # type: ignore[typeddict-item]


def turns(us: float) -> Turns:
    return Turns(medians_us=[us] * 8, times_us=[us] * 24, call_count=24, peak_memory_bytes=100)


def eager(**more: Any) -> Way:
    spec = VariantSpec("eager", is_eager=True)
    return Way(spec, cold=start(), warm=start(), turns=turns(1000.0), beside=turns(1000.0), **more)


def default(us: float, cold_s: float | None, **warm: Any) -> Way:
    """``default``, whose call takes so long; it was timed beside eager mode's of 1 ms."""
    started = {"excess_s": cold_s, **warm}
    return Way(
        VariantSpec("default"),
        cold=None if cold_s is None else start(cold_s),
        warm=start(**{name: value for name, value in started.items() if value is not None}),
        turns=turns(us),
        beside=turns(1000.0),
    )


def shown(way: Way, reference: Way | None = None) -> Any:
    ways = SideBySide(cast("Replays", None), BASE, Program(), Path(), on_phase)
    ways.eager = reference or eager()
    return ways.variant(way)


def test_compile_time_is_the_excess_over_eager_modes_first_calls():
    found = shown(default(500.0, 10.5, excess_s=3.5))
    assert (found.compile_cold_s, found.compile_warm_s) == (10.0, 3.0)
    assert (found.break_even_calls, found.break_even_warm.calls) == (20_000, 6_000)
    assert (found.judgement, found.speedup.ratio, found.throughput) == ("faster", 2.0, 16_000.0)


def test_without_a_cold_start_the_warm_one_counts():
    cache = {"hits": 2, "misses": 1, "bypasses": 0}
    found = shown(default(500.0, None, excess_s=3.5, cache=cache))
    assert (found.compile_cold_s, found.compile_warm_s, found.compile_s) == (None, 3.0, 3.0)
    assert (found.break_even_cold, found.break_even_calls) == (None, 6_000)
    assert (found.cache.hits, found.cache.misses) == (2, 1)


def test_a_slower_variant_never_pays_off():
    found = shown(default(2000.0, 0.4))
    assert (found.judgement, found.break_even_calls, found.compile_cold_s) == ("slower", None, 0.0)


@for_each(
    "one, status, reason",
    [
        (
            Way(VariantSpec("default"), cold=start(is_steady=False, passes=12)),
            "failed",
            "it never stops compiling: not in 12 rounds of the calls",
        ),
        (
            Way(
                VariantSpec("default"),
                ended=ProbeExit(status=None, reason="timeout", message="Stopped after 600 s."),
            ),
            "failed",
            "Stopped after 600 s",
        ),
        (
            Way(VariantSpec("default"), ended=ProbeExit(status=None, reason="error")),
            "failed",
            "its process ended early",
        ),
        (Way(VariantSpec("x", {"mode": "reduce-overhead"})), "skipped", NEEDS_CUDA),
    ],
)
def test_a_variant_without_times_says_why(one, status, reason):
    found = shown(one)
    assert (found.status, found.reason, found.call_us, found.judgement) == (
        status,
        reason,
        None,
        "unknown",
    )


def test_without_eager_mode_nothing_can_be_compared():
    failed = Way(
        VariantSpec("eager", is_eager=True),
        ended=ProbeExit(status=None, reason="error", message="It raised."),
    )
    one = Way(VariantSpec("default"))
    assert shown(failed, failed).status == "failed"
    assert shown(failed, failed).reason == "It raised"
    assert (shown(one, failed).status, shown(one, failed).reason) == (
        "skipped",
        "the program fails without torch.compile",
    )


class Devices(SideBySide):
    """Stands for processes on a GPU, which works so long for a call of each."""

    def __init__(self, **device_us: float | None) -> None:
        super().__init__(cast("Replays", None), BASE, Program(), Path(), on_phase)
        self.device_us = device_us
        self.eager.warm = start(uses_cuda=True)

    def start(self, ways: Sequence[Way]) -> None:
        for way in ways:
            way.warm = start(3.5, uses_cuda=True)

    def time(self, ways: Sequence[Way], *, is_precise: bool = False) -> None:
        assert not is_precise
        medians_us = [4700.0, 4750.0, 4800.0, *[7000.0] * 5]
        self.eager.turns = Turns(medians_us=medians_us, times_us=[7000.0] * 8, call_count=8)
        for way in ways:
            way.turns, way.beside = turns(3100.0), self.eager.turns

    def _profile_devices(self, ways: Sequence[Way]) -> None:
        for way in ways:
            way.device_us = self.device_us[way.name]


@for_each(
    "eager_us, compiled_us, is_of_best, waiting",
    [
        (2100.0, 1620.0, True, [True, True]),
        (2100.0, 3000.0, True, [True, False]),
        (6900.0, 3000.0, False, [False, False]),
        (None, None, False, [False, False]),
    ],
)
def test_best_rounds_count_when_a_call_waits_for_its_host(
    eager_us, compiled_us, is_of_best, waiting
):
    ways, default = Devices(eager=eager_us, default=compiled_us), Way(VariantSpec("default"))
    ways.time_all([default], 12, is_precise=False)
    variants = [ways.variant(way) for way in (ways.eager, default)]
    assert [variant.waits_for_host for variant in variants] == waiting
    assert [variant.device_us for variant in variants] == [eager_us, compiled_us]
    assert [variant.time_us for variant in variants] == (
        [4750.0, 3100.0] if is_of_best else [7000.0, 3100.0]
    )
    assert variants[1].speedup.is_of_best is is_of_best
    assert variants[1].speedup.ratio == (4750 / 3100 if is_of_best else 7000 / 3100)
    # What is won back is counted in the same times.
    assert variants[1].break_even_warm.calls == (1819 if is_of_best else 770)
