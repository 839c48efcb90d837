"""A survey as people read it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.survey import SurveyReport, SurveyRow, SurveyVariant
from graphdoctor.studies.survey.summary import summarize
from graphdoctor.views.markdown_text import MAX_CHARACTERS, render_view_markdown
from graphdoctor.views.survey import failure_rows, short_text, survey_view, verdict
from tests.each import for_each
from tests.studies.survey.reports import cause, export_stop, failed, report, row
from tests.views.hostile import EVIL
from tests.views.outputs import on_terminal

ONE = (SurveyVariant(name="default", torch="2.13.0+cpu"),)
FOUR = tuple(
    SurveyVariant(name=name, settings=settings, torch="2.13.0+cpu")
    for name, settings in (
        ("default", {}),
        ("dynamic", {"dynamic": True}),
        ("reduce-overhead", {"mode": "reduce-overhead"}),
        ("bfloat16 batch 8", {"dtype": "bfloat16", "batch": 8}),
    )
)
UNTIMED = dict.fromkeys(
    [
        *("compile_cold_s", "compile_warm_s", "call_us", "eager_us"),
        *("speedup", "speedup_low", "speedup_high", "is_noisy", "noise", "correct"),
    ]
)
ABSENT = {"stage": "prepare", "error": "No inputs were found"}
FAMILIES = ("text", "vision", "audio", "multimodal", "graphs", "time series", "video", "tabular")


def made(
    rows: list[SurveyRow], variants: tuple[SurveyVariant, ...] = ONE, **more: object
) -> SurveyReport:
    summary = summarize(rows, [each.name for each in variants], seconds=1200.0, made=len(rows))
    return report(rows, **{"variants": variants, "summary": summary, "seconds": 1200.0, **more})


def mixed() -> SurveyReport:
    return report()


def passed() -> SurveyReport:
    """Nothing was timed."""
    return made([row(name, **UNTIMED) for name in ("bert", "gpt2", "t5")], options={"bench": False})


def all_failed() -> SurveyReport:
    raised = {"stage": "dynamo", "error_type": "torch._dynamo.exc.InternalTorchDynamoError"}
    return made(
        [
            failed(
                "bert",
                "compile_failed",
                **raised,
                error="KeyError: 140211\n\nfrom user code:\n  model.py",
            ),
            failed("gpt2", "compile_failed", **raised, error="KeyError: 93"),
            failed(
                "vit",
                "crashed",
                family="vision",
                stage="inductor",
                error="The process was ended by SIGSEGV.",
            ),
            failed(
                "swin",
                "crashed",
                family="vision",
                stage="inductor",
                error="The process was ended by SIGSEGV.",
            ),
            failed("dino", "out_of_memory", family="vision", error=None),
        ]
    )


def none_judged() -> SurveyReport:
    rows = [
        failed(name, "no_inputs", **{**ABSENT, "error": f"No inputs were found for {name}."})
        for name in ("a", "b")
    ]
    return made([*rows, failed("c", "skipped", error="It needs CUDA.")])


def one() -> SurveyReport:
    """A bench of one variant, interrupted, with families and a cause of many targets."""
    broken = {"break_sites": 2, "graphs": 4, "coverage": 0.5}
    masks = [
        row(
            f"text{n}",
            **broken,
            causes=(cause(line=41 + n % 3, fix_verdict="verified" if n < 2 else "not tried"),),
        )
        for n in range(9)
    ]
    views = [
        row(f"vision{n}", family="vision", speedup=2.0 + n / 9, speedup_low=1.9, speedup_high=3.2)
        for n in range(6)
    ]
    slow = row("audio0", family="audio", speedup=0.8, speedup_low=0.7, speedup_high=0.9, **broken)
    other = cause(
        code="GD103",
        rule="print",
        message="`print` has a side effect, so torch can't put it in a graph.",
        file="nets/audio.py",
        line=7,
        function="Encoder.forward",
        text="print(x.shape)",
        package=None,
        fix=None,
        fix_verdict=None,
    )
    rows = [*masks, *views, slow.replace(causes=(other,))]
    return made(
        [*rows, failed("audio1", "no_inputs", family="audio", **ABSENT)],
        planned=30,
        kept=4,
        shard="3/8",
    )


def four() -> SurveyReport:
    """Four ways, two of which fail for some."""
    rows = []
    for number, name in enumerate(("albert", "bert", "bart", "convbert", "deberta", "electra")):
        family = "encoder" if number < 4 else "decoder"
        for place, variant in enumerate(each.name for each in FOUR):
            ratio = 1.2 + place / 5 + number / 20
            fast = {"speedup": ratio, "speedup_low": ratio * 0.98, "speedup_high": ratio * 1.03}
            if place == 2 and number < 2:
                why = {
                    "stage": "call",
                    "error": "accessing tensor output of CUDAGraphs",
                    "error_type": "RuntimeError",
                }
                rows.append(failed(name, "compile_failed", variant=variant, family=family, **why))
            elif place == 3 and number == 5:
                rows.append(
                    row(name, variant, family=family, status="wrong", correct=False, **fast)
                )
            else:
                rows.append(row(name, variant, family=family, **fast, **_export(number)))
    return made(rows, FOUR, notes=("The machine was not quiet: load 3.1 on 2 cores.",))


def _export(number: int) -> dict[str, Any]:
    """Three of six stop for one reason, each in its own ``forward``, and one of these for another
    when it is strict."""
    if number % 2 == 0:
        return {"exports": True}
    cache = export_stop(
        file=f"transformers/model_{number}.py", line=100 + number, function=f"Model{number}.forward"
    )
    stops = (
        [cache, export_stop(code="GD600", message="torch.export can't read `print`")]
        if number == 5
        else [cache]
    )
    return {"exports": False, "export_error": cache.message, "export_causes": tuple(stops)}


def many() -> SurveyReport:
    """300 rows of 150 targets, with a long list of everything."""
    rows: list[SurveyRow] = []
    for number in range(150):
        name, family = f"model_{number:03}", FAMILIES[number % 8]
        found = tuple(
            cause(line=40 + place, function=f"helper_{place}", call_us=float(number))
            for place in range(14)
            if number % (place + 1) == 0
        )
        for variant in ("default", "dynamic"):
            if number % 11 == 0:
                why = {
                    "stage": "inductor",
                    "error": f"error number {chr(97 + number % 13)}",
                    "error_type": "Oops",
                }
                rows.append(failed(name, "compile_failed", variant=variant, family=family, **why))
            else:
                flaky = {"attempts": 2, "earlier": ("timeout",)} if number % 23 == 1 else {}
                more = {"is_noisy": number % 19 == 1, "break_sites": len(found), "causes": found}
                rows.append(row(name, variant, family=family, **more, **flaky))
    return made(rows, FOUR[:2], notes=tuple(f"Note {number}." for number in range(12)))


def hostile() -> SurveyReport:
    """Markup, controls and long names wherever somebody else writes."""
    name, long = f"a|b `c` <i>@torch #1</i> {EVIL}", "long_" * 40
    bad = cause(
        file=f"{EVIL}.py", function=EVIL, text=EVIL, message=EVIL, fix=EVIL, fix_verdict="verified"
    )
    rows = [
        row(
            name,
            EVIL,
            family=EVIL,
            causes=(bad,),
            is_noisy=True,
            attempts=2,
            earlier=("lost",),
            torch=EVIL,
        ),
        failed(
            long,
            "compile_failed",
            variant=long,
            family=long,
            stage="aot",
            error=f"{EVIL} {long}",
            error_type=EVIL,
        ),
    ]
    return made(
        rows, (SurveyVariant(name=EVIL, settings={EVIL: EVIL}), SurveyVariant(name=long)), name=EVIL
    )


def nothing() -> SurveyReport:
    return made([], planned=12, seconds=None, engine=None)


SURVEYS = {
    make.__name__: make
    for make in (mixed, passed, all_failed, none_judged, one, four, many, hostile, nothing)
}


def shown(made: SurveyReport, width: int, *, is_verbose: bool = False) -> str:
    return on_terminal(survey_view(made), width=width, is_verbose=is_verbose)


def as_markdown(made: SurveyReport) -> str:
    return render_view_markdown(survey_view(made))


@pytest.mark.parametrize("name", SURVEYS)
def test_a_survey_on_a_terminal(snapshot: SnapshotAssertion, name: str) -> None:
    text = shown(SURVEYS[name](), 80)
    assert text == snapshot
    # What is to be copied stays one line.
    assert max(len(line) for line in text.splitlines() if not line.startswith("Next: ")) <= 80


def test_a_survey_with_everything(snapshot: SnapshotAssertion) -> None:
    assert shown(four(), 80, is_verbose=True) == snapshot


def test_every_row_is_shown_when_asked_for() -> None:
    whole = shown(many(), 80, is_verbose=True)
    assert len(re.findall(r"^model_\d{3}", whole, re.MULTILINE)) == 300
    assert "show with -v" not in whole


def test_markdown_of_hundreds_of_rows_fits_where_it_is_posted() -> None:
    text = as_markdown(many())
    assert len(text) <= MAX_CHARACTERS
    assert len(re.findall(r"^\| `model_", text, re.MULTILINE)) == 300
    long = made([row(f"model_{number}_{'x' * 60}") for number in range(900)])
    assert re.search(r"_\d+ more rows, left out", as_markdown(long))


def test_unknown_is_never_a_zero() -> None:
    unknown = failed("bert", "timeout", stage="bench", error="It was stopped after 600 s.")
    text = shown(made([unknown, row("gpt2", **UNTIMED)]), 140)
    (line,) = (line for line in text.splitlines() if line.startswith("bert "))
    assert set(line.split()[5:]) == {"–"}
    assert (
        short_text(unknown) == "bert default: timed out (bench), 21 s: It was stopped after 600 s"
    )


def timed(variant: str, ratio: float, away: float) -> SurveyRow:
    return row("bert", variant, speedup=ratio, speedup_low=ratio - away, speedup_high=ratio + away)


NO_DEVICE = failed("bert", "skipped", variant="dynamic", error="No such device.")


@for_each(
    "rows, said",
    [
        (
            [row("bert", break_sites=None), row("gpt2")],
            "2 of 2 targets pass, 1 of 1 without breaks.",
        ),
        ([row("bert", break_sites=None)], "1 of 1 target passes."),
        (
            [row("bert"), NO_DEVICE],
            "0 of 1 target passes under every variant. Not judged: 1 skipped.",
        ),
        (
            [timed("default", 1.5, 0.05), timed("dynamic", 1.3, 0.1)],
            "On targets that all variants share: default 1.50× (1.45 to 1.55),"
            " dynamic 1.30× (1.20 to 1.40).",
        ),
    ],
)
def test_the_answer_says_no_more_than_is_known(rows: list[SurveyRow], said: str) -> None:
    assert verdict(made(rows, FOUR[: len({each.variant for each in rows})]))[0].endswith(said)
    assert verdict(made([row("bert"), NO_DEVICE], FOUR[:2]))[1] == "warning"


def test_errors_differing_only_in_numbers_and_names_are_equal() -> None:
    def raised(name: str, error: str, **more: object) -> SurveyRow:
        return failed(name, "compile_failed", **{"stage": "dynamo", "error": error, **more})

    errors = failure_rows(
        [
            raised("bert", "BertModel wants shape [1, 77]\n\nfrom user code"),
            raised("lib/clip.py:Clip", "ClipModel wants shape [1, 80]"),
            raised("t5", "'tuple' object has no attribute 'shape'"),
            raised("t5", "'tuple' object has no attribute 'shape'", stage="inductor"),
            raised("vit", "'tuple' object has no attribute 'shape'", error_type="AttributeError"),
        ]
    )
    assert [row.label for row in errors] == [
        "compile failed (Dynamo) ×2",
        "compile failed (Dynamo)",
        "compile failed (Inductor)",
        "compile failed (Dynamo)",
    ]
