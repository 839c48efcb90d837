"""The answer of a search, in a sentence."""

import time
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.facts.bench import AS_IT_WAS, CURED
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.bench.cure import _Search, best_of
from graphdoctor.studies.bench.side_by_side import SideBySide
from graphdoctor.studies.bench.variants import VariantSpec
from graphdoctor.trials.launch.child import Setup
from graphdoctor.trials.program import Program
from graphdoctor.views.answers import cure_text
from tests.studies.bench.cure_reports import cured, step
from tests.studies.bench.reports import NOISY, QUIET, eager, ended, finding, variant

LIBRARY = finding("GD403", "Library calls take 94% of the call.")
HAD, CURE = variant(AS_IT_WAS, 3560.0), variant(CURED, 1940.0, cold_s=33.0)


def answer(reference, had, found_way, best, steps, calls, floor_us=None):
    report = cured(
        eager=reference,
        as_it_was=had,
        cured=found_way,
        best=best,
        steps=tuple(steps),
        verified_calls=calls,
    )
    return cure_text(report, floor_us)


def test_the_best_way_and_what_is_said_of_it(snapshot):
    wrong = variant(AS_IT_WAS, 2000.0, status="wrong", reason="outputs differ")
    cases = {
        "what was found, with what it costs": (
            eager(),
            variant(AS_IT_WAS, 4800.0),
            CURE,
            [step("fixes", "kept")],
            2,
        ),
        "nothing helped": (eager(), HAD, None, [step("regional", "no gain", 1.0)], 1),
        "eager is fastest": (
            *(
                eager(),
                variant(AS_IT_WAS, 6000.0, findings=(LIBRARY,)),
                None,
                [step("fixes", "slower", 0.9)],
                1,
            ),
        ),
        "eager is about as fast": (eager(), variant(AS_IT_WAS, 5200.0), None, [], 1),
        "too noisy to say": (eager(), variant(AS_IT_WAS, 4800.0, spread=0.5), None, [], 1),
        "the user's own is wrong": (eager(), wrong, None, [], 1),
        "the user's own fails": (eager(), ended(AS_IT_WAS, "failed", "it raised"), None, [], 1),
        "interrupted before anything was timed": (
            variant("eager", call_us=None, speedup=None),
            variant(AS_IT_WAS, call_us=None, speedup=None, judgement="unknown"),
            None,
            [],
            1,
        ),
        "eager mode fails": (ended("eager", "failed", "it raised"), HAD, None, [], 1),
    }
    found = {}
    for name, (reference, had, found_way, steps, calls) in cases.items():
        best = best_of(reference, had, found_way, QUIET)
        found[name] = (best, answer(reference, had, found_way, best, steps, calls))
    found["any compiled call takes longer"] = answer(eager(), HAD, None, "eager", [], 1, 8.8)
    assert found == snapshot


def test_a_noisy_machine_makes_no_cure():
    had, found = variant(AS_IT_WAS, 5200.0), variant(CURED, 4900.0)
    assert best_of(eager(), had, found, NOISY.replace(ratio=1.2)) == "eager"


@pytest.mark.parametrize(
    ("longest_s", "comparing_s", "has_time"),
    [(0.0, None, True), (400.0, None, True), (600.0, None, False), (600.0, 100.0, True), (100.0, 950.0, False)],
)  # fmt: skip
def test_a_step_begins_only_if_comparing_its_results_fits_too(longest_s, comparing_s, has_time):
    replays: Any = None
    ways = SideBySide(
        replays, RunSpec(target="model.py"), Program(), Path("caches"), lambda _: None
    )
    search = _Search(ways, Path("cure"), Setup(), time.monotonic() + 1000)
    search.longest_s, search.comparing_s = longest_s, comparing_s
    assert search.has_time is has_time
    if not has_time:
        search._step(search.own, VariantSpec("fixes"), Program())
        assert [(step.name, step.outcome) for step in search.steps] == [("fixes", "skipped")]
