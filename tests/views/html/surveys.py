"""Surveys as large as people run them, made by a rule."""

from __future__ import annotations

import random

from graphdoctor.facts.survey import SurveyReport, SurveyRow, SurveyVariant
from graphdoctor.studies.survey.summary import summarize
from tests.studies.survey.reports import cause, failed, report, row

FAMILIES = ("text", "vision", "audio", "multimodal", "time-series", "video")
VARIANTS = (
    SurveyVariant(name="default", settings={"backend": "inductor"}, torch="2.13.0+cpu"),
    SurveyVariant(name="reduce-overhead", settings={"mode": "reduce-overhead"}, torch="2.13.0+cpu"),
    SurveyVariant(name="dynamic", settings={"dynamic": True}, torch="2.13.0+cpu"),
)
_HELPERS = ("masking_utils.py", "modeling_outputs.py", "cache_utils.py", "generation.py", "rope.py")
_ERRORS = (
    (
        "inductor",
        "torch._inductor.exc.InductorError",
        "LoweringException: NotImplementedError: no kernel for aten.{}",
    ),
    ("dynamo", "torch._dynamo.exc.Unsupported", "Unexpected type in sourceless builder {}Config"),
    ("call", "RuntimeError", "The size of tensor a (12) must match the size of tensor b (7) in {}"),
)
_DIFF = """\
--- a/transformers/{0}
+++ b/transformers/{0}
@@ -41,2 +41,2 @@ def helper_{1}(mask):
     size = mask.shape[0]
-    if mask.any().item():
+    if torch.any(mask):
"""


def large(targets: int, variants: int = 3) -> SurveyReport:
    """As many targets, a tenth of which fail in three ways."""
    chance = random.Random(targets)
    ways = VARIANTS[:variants]
    rows = [
        _row(number, each.name, place, chance)
        for number in range(targets)
        for place, each in enumerate(ways)
    ]
    return report(
        rows,
        name="transformers",
        variants=ways,
        summary=summarize(rows, [each.name for each in ways], seconds=9000.0, made=len(rows)),
        seconds=9000.0,
    )


def _row(number: int, variant: str, place: int, chance: random.Random) -> SurveyRow:
    name, family = (
        f"{chance.choice(('Albert', 'Bart', 'Clip', 'Deberta'))}ForThing{number:04}",
        FAMILIES[number % 6],
    )
    name = f"Arch{number:04}For{('Masked', 'Causal', 'Image', 'Audio')[number % 4]}"
    if number % 10 == 3:
        stage, kind, text = _ERRORS[(number // 10) % 3]
        error = text.format(name)
        stack = "\n".join(
            f'  File "transformers/x{line}.py", line {line}, in forward' for line in range(12)
        )
        return failed(
            name,
            "compile_failed",
            variant=variant,
            family=family,
            stage=stage,
            error=error,
            error_type=kind,
            traceback=f"Traceback (most recent call last):\n{stack}\n{kind}: {error}",
        )
    if number % 37 == 5:
        return failed(
            name,
            "no_inputs",
            variant=variant,
            family=family,
            stage="prepare",
            error=f"No inputs for {name}.",
        )
    found = tuple(
        cause(
            code=("GD101", "GD102", "GD201", "GD110")[helper % 4],
            file=f"transformers/{_HELPERS[helper]}",
            line=41 + helper,
            function=f"helper_{helper}",
            call_us=float(10 * helper + number % 7),
            fix_verdict="verified" if helper == 1 else "not tried",
            diff=_DIFF.format(_HELPERS[helper], helper) if helper == 1 else None,
            fingerprint=f"f{helper}",
        )
        for helper in range(5)
        if number % (helper + 2) == 0
    )
    ratio = chance.lognormvariate(0.35 + 0.08 * place, 0.35)
    width = chance.uniform(0.01, 0.08)
    return row(
        name,
        variant,
        family=family,
        causes=found,
        break_sites=len(found),
        coverage=1.0 if not found else chance.uniform(0.3, 0.95),
        graphs=1 + len(found),
        speedup=ratio,
        speedup_low=ratio * (1 - width),
        speedup_high=ratio * (1 + width),
        call_us=1500 / ratio,
        compile_cold_s=chance.lognormvariate(2.2 + 0.3 * place, 0.6),
        peak_memory_bytes=int(chance.uniform(2e8, 2e9)),
        is_noisy=number % 41 == 7,
        report=f"pages/{name}-{variant}.html",
        **({"attempts": 2, "earlier": ("timeout",)} if number % 29 == 1 else {}),
    )
