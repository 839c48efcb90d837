"""Reports of cures, made by hand."""

from graphdoctor.facts.bench import AS_IT_WAS, CURED, CureReport, CureStep, Noise, Speedup
from tests.studies.bench.reports import eager, report, variant


def step(name, outcome, ratio=None, **more):
    """One thing that was tried."""
    speedup = (
        None
        if ratio is None
        else Speedup(ratio=ratio, low=ratio * 0.98, high=ratio * 1.02, rounds=16)
    )
    return CureStep(name=name, outcome=outcome, speedup=speedup, **more)


def cured(**more):
    """A program that fixes and a mode make faster."""
    bench = report()
    given = {
        "graphdoctor_version": "0",
        "environment": bench.environment,
        "target": bench.target,
        "text": "eager 5.22 ms → as you had it 4.80 ms → cured 1.94 ms (2.69×), same results on your 2 calls; "
        "compile 33 s, pays off after 10,000 calls.",
        "best": CURED,
        "eager": eager(),
        "as_it_was": variant(AS_IT_WAS, 4800.0),
        "cured": variant(CURED, 1940.0),
        "steps": (
            step("fixes", "kept", 1.4, compile_cold_s=30.0, compile_before_s=41.0),
            step("regional", "no gain", 1.0, compile_cold_s=29.0, compile_before_s=30.0),
            step("mode=reduce-overhead", "kept", 1.77),
            step("mode=max-autotune-no-cudagraphs", "slower", 0.81),
            step("mode=max-autotune", "skipped", reason="time was up", is_late=True),
        ),
        "diff": "--- a/model.py\n+++ b/model.py\n@@ -1,2 +1,2 @@\n-    print(x)\n+    y = x\n",
        "arguments": {"mode": "reduce-overhead"},
        "compile_lines": ('model = torch.compile(model, mode="reduce-overhead")',),
        "noise": Noise(ratio=1.01, spread=0.02, is_noisy=False),
        "verified_calls": 2,
        "budget_s": 300.0,
        "spent_s": 287.0,
    }
    return CureReport(**given | more)
