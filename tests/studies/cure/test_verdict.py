"""The answer of a search, in a sentence."""

from __future__ import annotations

from graphdoctor.facts.bench import Noise
from graphdoctor.facts.cure import AS_IT_WAS, CURED
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.cure.cure import best_of, compile_lines, sentence
from tests.studies.bench.reports import eager, ended, finding, variant
from tests.studies.cure.reports import step

QUIET = Noise(ratio=1.0, spread=0.01, is_noisy=False)


def test_what_was_found_is_said_with_what_it_costs():
    had, cured = variant(AS_IT_WAS, 4800.0), variant(CURED, 1940.0, cold_s=33.0)
    assert best_of(eager(), had, cured, QUIET) == CURED
    text = sentence(eager(), had, cured, CURED, [step("fixes", "kept")], 2)
    assert text == (
        "eager 5.22 ms → as you had it 4.80 ms (1.09×) → cured 1.94 ms (2.69×), verified on your 2 calls; "
        "compile 33.0 s, pays off after 10,000 calls."
    )


def test_if_nothing_helped_the_user_s_own_way_is_the_answer():
    had = variant(AS_IT_WAS, 3560.0)
    assert best_of(eager(), had, None, QUIET) == AS_IT_WAS
    text = sentence(eager(), had, None, AS_IT_WAS, [step("regional", "no gain", 1.0)], 1)
    assert text.startswith("eager 5.22 ms → as you had it 3.56 ms (1.47×); nothing that was tried is faster; compile")


def test_plain_eager_is_fastest_for_a_reason():
    had = variant(AS_IT_WAS, 6000.0, findings=(finding("GD403", "Library calls take 94% of the call."),))
    assert best_of(eager(), had, None, QUIET) == "eager"
    text = sentence(eager(), had, None, "eager", [step("fixes", "slower", 0.9)], 1)
    assert text == (
        "Plain eager is fastest: eager 5.22 ms → as you had it 6.00 ms (0.87×). Library calls take 94% of the call. "
        "Tried: 1 other way."
    )


def test_a_way_that_was_wrong_or_failed_is_never_best():
    wrong = variant(AS_IT_WAS, 2000.0, status="wrong", reason="outputs differ")
    assert best_of(eager(), wrong, None, QUIET) == "eager"
    assert "(with wrong results)" in sentence(eager(), wrong, None, "eager", [], 1)
    failed = ended(AS_IT_WAS, "failed", "it raised")
    assert "as you had it it fails" not in sentence(eager(), failed, None, "eager", [], 1)
    assert "as you had it: it fails" in sentence(eager(), failed, None, "eager", [], 1)


def test_a_noisy_machine_makes_no_cure():
    cured = variant(CURED, 4900.0)
    assert best_of(eager(), variant(AS_IT_WAS, 5200.0), cured, Noise(ratio=1.2, spread=0.3, is_noisy=True)) == "eager"


def test_lines_compile_the_model_as_it_was_found():
    base = RunSpec(target="model.py", backend="inductor", dynamic=True)
    assert compile_lines({}, base, ()) == ()
    assert compile_lines({"mode": "reduce-overhead"}, base, ()) == (
        "model = torch.compile(model, mode='reduce-overhead', dynamic=True)",
    )


def test_where_eager_mode_fails_nothing_is_best():
    failed = ended("eager", "failed", "it raised")
    assert best_of(failed, variant(AS_IT_WAS, 3560.0), None, QUIET) is None
    assert sentence(failed, variant(AS_IT_WAS, 3560.0), None, None, [], 1) == (
        "The program fails without torch.compile, so nothing was tried: it raised."
    )
