"""The answer of a bench in a sentence: only what was measured, and no doubt left out."""

from graphdoctor.facts.bench import EAGER, asks_for_cuda_graphs
from graphdoctor.facts.diagnosis import Cost, Effects
from graphdoctor.facts.kernels import CudaGraphs, CudaGraphSkip
from graphdoctor.facts.spec import RunSpec
from graphdoctor.studies.bench.bench import verdict
from graphdoctor.studies.bench.variants import parse_variant
from tests.each import for_each
from tests.factories import change
from tests.studies.bench.reports import (
    LIBRARY,
    NOISY,
    OVERHEAD,
    QUIET,
    attention,
    eager,
    ended,
    finding,
    in_best_rounds,
    mobilenet,
    troubled,
    variant,
    waiting,
)

PRODUCTS = finding("GD510", "2 matrix products in float32 could run on tensor cores")
COMPILES = finding("GD401", "12 modules in one graph").replace(cost=Cost(compile_s=9.0))
RECOMPILES = finding("GD212", "recompiled once").replace(changes=(change(),))
EAGER_NOW = finding("GD201", "`forward` runs eagerly").replace(
    changes=(change(),), effects=Effects(skipped_frames=("forward",))
)
OVER = finding("GD201", "`Net.forward` runs new values uncompiled from call 9").replace(
    cost=Cost(compile_s=12.0)
)
WRONG = variant("c", 2000.0, status="wrong", correct=False)
FAILED, SKIPPED = (
    ended("default", "failed", "RuntimeError: no kernel."),
    ended("b", "skipped", "there is no CUDA device"),
)
IN_GRAPHS = in_best_rounds(variant("mode=reduce-overhead", 2200.0), 2150.0, 1900.0)
SKIP = CudaGraphSkip(
    kind="mutation", reason="mutated inputs", compile_id="0/0", file="/project/model.py", line=22
)
NOT_IN_GRAPHS = in_best_rounds(variant("mode=reduce-overhead", 3900.0), 3100.0, 1620.0)
UNTIMED = variant(call_us=None, speedup=None, judgement="unknown")


def slow(*findings, median_us=6000.0):
    return variant(median_us=median_us, findings=findings)


def close(name, median_us, cold_s):
    return variant(name, median_us, spread=0.05, cold_s=cold_s)


ANSWERS = {
    "the fastest, and the call from which it pays": mobilenet().variants,
    "none is faster": attention().variants,
    "the reason is the first of the variant nearest to eager": (
        *(eager(), variant("a", 6000.0, findings=(LIBRARY, OVERHEAD))),
        variant(
            "b",
            9000.0,
            findings=(finding("GD301", "guards take a third of a call", call_us=900.0),),
        ),
    ),
    "what eager mode does too is no reason": (eager(), slow(PRODUCTS)),
    "compile time is no reason for slow calls": (eager(), slow(COMPILES)),
    "the first that is one": (eager(), slow(COMPILES, RECOMPILES, OVERHEAD)),
    "a recompile that leaves a function eager is one": (eager(), slow(EAGER_NOW)),
    "no measurable difference": (eager(), variant(median_us=5200.0), variant("b", 5230.0)),
    "two that can't be told apart, one compiles faster": (
        *(eager(), close("b", 2050.0, 8.0), close("a", 2000.0, 60.0), variant("c", 3000.0)),
    ),
    "of two that can't be told apart, the one that changes least": (
        eager(4850.0),
        variant("default", 3310.0, eager_us=4850.0, cold_s=11.1, spread=0.04),
        variant(
            "mode=max-autotune-no-cudagraphs", 3270.0, eager_us=4850.0, cold_s=10.5, spread=0.04
        ),
    ),
    "an unknown compile time": (
        eager(),
        variant("a", 2000.0, cold_s=None),
        variant("b", 2010.0, cold_s=8.0),
    ),
    "it pays after hours": (eager(), variant(median_us=4999.0, cold_s=2000.0)),
    "it pays at once": (eager(), variant(median_us=2610.0, cold_s=0.002)),
    "a slower one that pays off much sooner": (
        eager(),
        variant("a", 2000.0, cold_s=900.0),
        variant(cold_s=3.0),
    ),
    "a wrong one is faster": (eager(), variant("a", 3000.0), WRONG),
    "a wrong one is all there is": (eager(), WRONG),
    "results in doubt": (
        *(
            eager(),
            variant(correct=None, correctness=None, reason="the program draws random numbers"),
        ),
    ),
    "some failed": troubled().variants,
    "all failed": (eager(), FAILED, SKIPPED),
    "many failed": (eager(), *(ended(f"v{number}", "failed", "x") for number in range(5))),
    "a long reason": (
        eager(),
        ended("default", "failed", f"CppCompileError: {'x' * 300}\n\nint main() {{}}"),
    ),
    "eager mode failed": (ended(EAGER, "failed", "ValueError: bad shape"), variant()),
    "without times": (eager(), UNTIMED),
    "a call waits for its host": waiting().variants,
    "nor is one faster that does": (
        waiting().variants[0],
        in_best_rounds(variant(), 4680.0, 1620.0),
    ),
    "with CUDA graphs none waits": waiting(IN_GRAPHS).variants,
    "it waits although it asks for CUDA graphs": waiting(NOT_IN_GRAPHS).variants,
    "torch skipped them": waiting(
        NOT_IN_GRAPHS.replace(cuda_graphs=CudaGraphs(captured=0, skipped=(SKIP,)))
    ).variants,
    "outputs await their backward pass": waiting(
        NOT_IN_GRAPHS.replace(awaits_backward=True)
    ).variants,
    "CUDA graphs failed": waiting(ended("mode=reduce-overhead", "failed", "x")).variants,
    "nothing was compiled": (eager(), variant("default", 5230.0, judgement="same", graphs=0)),
}


def test_a_break_that_was_not_timed_only_may_hold_a_variant_back():
    for code, call_us, words in (
        ("GD101", None, "What may hold default back"),
        ("GD111", None, "What may hold default back"),
        ("GD101", 40.0, "What holds default back"),
        ("GD201", None, "What holds default back"),
        ("GD402", 90.0, "What holds default back"),
    ):
        held = finding(code, "here").replace(cost=call_us and Cost(call_us=call_us))
        text = verdict((eager(), slow(held)), QUIET).text
        assert words in text, (code, text)


def test_what_times_results_and_findings_come_to(snapshot):
    found = {name: verdict(variants, QUIET) for name, variants in ANSWERS.items()}
    assert {name: (said.best, said.text) for name, said in found.items()} == snapshot


@for_each(
    "arguments, untried",
    [
        ({}, "mode=reduce-overhead"),
        ({"mode": "max-autotune-no-cudagraphs"}, "mode=reduce-overhead"),
        ({"options": {"epilogue_fusion": True}}, "option.triton.cudagraphs=true"),
        ({"backend": "aot_eager"}, "backend=inductor mode=reduce-overhead"),
        ({"options": {"triton.cudagraphs": True}}, None),
        ({"mode": "max-autotune"}, None),
        ({"backend": "cudagraphs"}, None),
    ],
)
def test_a_waiting_call_names_a_variant_with_cuda_graphs(arguments, untried):
    slow, default = waiting().variants
    assert verdict((slow, default.replace(arguments=arguments)), QUIET).untried == untried
    if untried is not None:
        parsed = parse_variant(untried, RunSpec(**{"backend": "inductor", **arguments}))
        assert asks_for_cuda_graphs(
            parsed.arguments(RunSpec(**{"backend": "inductor", **arguments}))
        )


def test_a_noisy_machine_is_said():
    quiet, noisy = (verdict((eager(), variant()), noise) for noise in (QUIET, NOISY))
    assert noisy.text == f"{quiet.text} The machine was noisy, so small differences can't be seen."


def test_a_wide_interval_says_nothing_of_a_variant():
    wide = variant(median_us=5000.0, spread=0.4)
    assert (
        verdict([eager(), wide], QUIET).text
        == "Too noisy to say whether default is faster than eager."
    )
    assert (
        verdict([eager(), wide], NOISY).text
        == "Too noisy to say whether default is faster than eager."
    )
    both = verdict([eager(), wide, variant("b", 6000.0)], QUIET).text
    assert both.startswith(
        "No variant is measurably faster than eager: default too noisy to say, b "
    )
