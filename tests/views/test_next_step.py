"""What a report ends with: one command, which exists, takes these options, and is what this result
asks for."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import typer

from graphdoctor.commands.app import application
from graphdoctor.facts.bench import EAGER, BenchReport, Judgement, Noise
from graphdoctor.facts.check import CheckReport, TargetCheck
from graphdoctor.facts.fixes import Treatment, TrialChoices
from graphdoctor.facts.recording import Call, CallError, Recording, TargetInfo
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.shared import FROM_CALLER
from graphdoctor.views.cure import cure_view
from graphdoctor.views.html.document import render_view_page
from graphdoctor.views.markdown_text import render_view_markdown
from graphdoctor.views.next_step import (
    after_bench,
    after_check,
    after_cure,
    after_run,
    after_survey_comparison,
    explained,
    kept,
)
from graphdoctor.views.parts import Done
from graphdoctor.views.report import report_view
from tests.conftest import REPOSITORY, run_command
from tests.each import for_each
from tests.factories import diagnosed, entry, record, recording
from tests.studies.bench.cure_reports import cured
from tests.studies.bench.reports import eager, ended, finding, mobilenet, report, variant, waiting
from tests.studies.survey.reports import row
from tests.views.outputs import on_terminal
from tests.views.test_every_statement import VIEWS
from tests.views.test_fixes import peeled, suggested, treated
from tests.views.test_survey_comparison import compared

BROKEN = recording(breaks=(record(entry(12)),))


SCRIPT = TargetInfo(text="train.py", kind="script")
WITH_ARGUMENTS = TargetInfo(text="-m train --lr 3", kind="script", model="a.py:Net")
LIMITS = "--max-breaks 0 --max-recompiles 0 --no-limit-hit"
UNCOMPILED = recording().replace(
    target=SCRIPT.replace(model="train.py:Net"), compiles=(), frames=(), graphs=(), breaks=()
)
CRASHED = ProbeExit(status=1, reason="crashed", message="It crashed.")
VERIFIED, TREATED = peeled()
CHOSEN = TREATED.replace(
    choices=TrialChoices(select=("GD1",), is_unsafe_tried=True, is_timed=False)
)
SUGGESTED, UNTRIED = suggested()
UNSAFE = UNTRIED.replace(
    tried=tuple(fix.replace(untried_cause="unsafe", is_safe=False) for fix in UNTRIED.tried)
)
ASKED = TargetInfo(
    text="model.py", compile_arguments={"backend": "inductor", "mode": "max-autotune"}
)


def is_accepted(command: str) -> bool:
    """Whether the command line takes it; nothing runs."""
    program, name, *arguments = shlex.split(command)
    found = typer.main.get_command(application([name])).commands[name]  # type: ignore[attr-defined]
    found.make_context(name, arguments).close()
    return program == "graphdoctor"


@for_each("name", [name for name in VIEWS if name not in ("comparison of surveys", "stages")])
def test_every_report_ends_with_a_command_or_why_there_is_none(name: str) -> None:
    view = VIEWS[name]()
    if isinstance(view.then, Done):
        said = f"Done: {view.then.why}."
        assert " ".join(on_terminal(view, width=400).split()).endswith(f" {said}")
        assert render_view_markdown(view).endswith(f"\n\n{said}\n")
        assert said in render_view_page(view)
        return
    assert view.then is not None
    assert on_terminal(view, width=40).endswith(f"\n\nNext: {view.then}\n")
    assert render_view_markdown(view).endswith(f"\n\nNext: `{view.then}`\n")
    assert 'Next: <code id="next">' in render_view_page(view)
    assert is_accepted(view.then)


def test_fixes_that_only_a_person_can_add_end_there() -> None:
    by_hand = TREATED.replace(tried=tuple(fix.replace(diff=None) for fix in TREATED.tried))
    assert after_run(treated(VERIFIED, by_hand)) == Done(
        "add the lines above to your program yourself"
    )
    assert after_run(treated(VERIFIED, TREATED), is_written=True) == "graphdoctor bench model.py"


def test_of_two_surveys_the_piece_that_fails_now_comes_first() -> None:
    before = [row("a"), row("b"), row("c", library="timm")]
    after = [
        row("a", break_sites=2),
        row("b", status="crashed", error="no"),
        row("c", library="timm", break_sites=1),
    ]
    assert after_survey_comparison(compared(before, after)) == "graphdoctor explain models/b.py"


def test_two_surveys_without_a_regression_lead_to_a_measurement() -> None:
    before = [row("c", library="timm", break_sites=2), row("a", break_sites=2)]
    after = [row("c", library="timm"), row("a")]
    assert after_survey_comparison(compared(before, after)) == "graphdoctor bench models/a.py"
    assert isinstance(after_survey_comparison(compared(before[:1], after[:1])), Done)


@for_each(
    "facts, treatment, command",
    [
        (BROKEN, None, "fix model.py"),
        (recording(), None, "bench model.py"),
        (recording(target="my models/it's.py:Net"), None, """bench 'my models/it'"'"'s.py:Net'"""),
        # A function of the live API has no name for a command.
        (
            BROKEN.replace(target=BROKEN.target.replace(text="Net", inputs_from=FROM_CALLER)),
            None,
            "rule GD101",
        ),
        # Half a run proves nothing.
        (recording(ended=CRASHED), None, "explain model.py"),
        (BROKEN.replace(is_partial=True), None, "explain model.py"),
        # A script is changed by hand.
        (BROKEN.replace(target=SCRIPT), None, "rule GD101"),
        # What is good in one is kept so by limits.
        (recording().replace(target=SCRIPT), None, f"run {LIMITS} train.py"),
        (recording().replace(target=WITH_ARGUMENTS), None, f"run {LIMITS} -m train --lr 3"),
        (recording().replace(target=SCRIPT, is_partial=True), None, "run train.py"),
        (recording().replace(target=SCRIPT.replace(kind="block")), None, None),
        (UNCOMPILED, None, "explain train.py:Net"),
        # What was verified is written, then measured.
        (VERIFIED, CHOSEN, "fix model.py --select GD1 --unsafe-fixes --no-timing --apply"),
        (VERIFIED, CHOSEN.replace(is_written=True), "bench model.py"),
        # Unsafe fixes come after safe ones found nothing.
        (SUGGESTED, UNSAFE, "fix model.py --unsafe-fixes"),
        (SUGGESTED, UNSAFE.replace(is_interrupted=True), "fix model.py"),
        # Where nothing holds, a bench would lead to fixes again.
        (SUGGESTED, UNTRIED, "rule GD101"),
    ],
)
def test_a_run_leads_to_what_its_findings_ask_for(
    facts: Recording, treatment: Treatment | None, command: str | None
) -> None:
    diagnosis = diagnosed(facts) if treatment is None else treated(facts, treatment)
    said = after_run(diagnosis)
    if command is None:
        assert isinstance(said, Done)
    else:
        assert said == f"graphdoctor {command}"
        assert is_accepted(said)


def test_a_script_within_its_limits_is_done() -> None:
    kept_so = diagnosed(recording().replace(target=SCRIPT))
    view = report_view(kept_so, is_within_limits=True)
    assert on_terminal(view).endswith("\n\nDone: it keeps within its limits.\n")


def test_written_fixes_are_measured_next() -> None:
    diagnosis = treated(VERIFIED, CHOSEN)
    assert after_run(diagnosis, is_written=True) == "graphdoctor bench model.py"


@pytest.mark.parametrize("name", ["a\nb.py", "a\x1b[31m.py", "a\u202eb.py"])
def test_a_name_that_cannot_be_shown_is_no_command(name: str) -> None:
    named = recording(target=name)
    assert isinstance(after_run(diagnosed(named)), Done)
    assert "Next:" not in on_terminal(report_view(diagnosed(named)))


def test_only_rules_have_pages() -> None:
    assert explained(["GD999; rm x", "\x1b[31m", "GD1"]) is None
    assert explained(["GD901", "other", "GD202", "GD101"]) == "graphdoctor rule GD202"


@for_each(
    "judgement, codes, best, name",
    [
        ("faster", (), "default", "check"),
        ("faster", ("GD101",), "default", "fix"),
        ("slower", ("GD101",), EAGER, "fix"),
        ("slower", (), EAGER, "cure"),
        ("slower", ("GD503",), EAGER, "cure"),
        ("same", (), EAGER, "profile"),
        ("unknown", (), EAGER, "profile"),
    ],
)
def test_a_bench_leads_to_what_its_result_asks_for(
    judgement: Judgement, codes: tuple[str, ...], best: str, name: str
) -> None:
    found = tuple(finding(code, "Reason.") for code in codes)
    timed = report(eager(), variant(judgement=judgement, findings=found), best=best).replace(
        measured=()
    )
    said = after_bench(timed)
    assert isinstance(said, str)
    assert said.split()[1] == name


@for_each(
    "bench, command",
    [
        (waiting(), "bench model.py:Net --variant mode=reduce-overhead"),
        (report(ended(EAGER, "failed", "It raised."), best=None), "explain model.py:Net"),
        # The backend that a study has by itself is no option.
        (
            report(eager(), variant(judgement="slower"), best=EAGER).replace(target=ASKED),
            "cure model.py --mode max-autotune",
        ),
    ],
)
def test_a_bench_leads_to_faster_options_or_to_what_is_wrong(
    bench: BenchReport, command: str
) -> None:
    assert after_bench(bench) == f"graphdoctor {command}"


def test_a_gate_that_takes_no_options_stands_in_a_file() -> None:
    assert kept(TargetInfo(text="model.py")) == "graphdoctor check model.py --max-breaks 0"
    assert kept(TargetInfo(text="model.py", inputs=("f32[2]",))) == "graphdoctor init"
    assert kept(mobilenet().target) in ("graphdoctor init", None) or is_accepted(
        str(kept(mobilenet().target))
    )


def test_a_cure_is_written_then_kept() -> None:
    assert str(after_cure(cured(), is_written=False)).endswith("--apply")
    assert "check" in str(after_cure(cured(), is_written=True)) or after_cure(
        cured(), is_written=True
    ) == ("graphdoctor init")


def test_where_eager_mode_is_fastest_nothing_is_left_to_do() -> None:
    slower = cured(best=EAGER, cured=None, diff="")
    assert on_terminal(cure_view(slower)).endswith("\nDone: keep eager mode for this model.\n")
    noisy = slower.replace(noise=Noise(ratio=2.0, spread=1.0, is_noisy=True))
    assert str(after_cure(noisy, is_written=False)).startswith("graphdoctor cure ")


@pytest.mark.slow
def test_following_the_last_lines_leads_to_a_green_gate(tmp_path: Path) -> None:
    """From the first report on, whoever copies each last line arrives at a gate that passes."""
    sample = (REPOSITORY / "sample_models" / "print_in_forward.py").read_text(encoding="utf-8")
    (tmp_path / "model.py").write_text(sample, encoding="utf-8")
    command, names = "graphdoctor explain model.py", []
    for _ in range(8):
        _, name, *arguments = shlex.split(command)
        names.append(name)
        done = run_command(name, *arguments, cwd=tmp_path)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        *_, last = done.stdout.splitlines()
        if not last.startswith("Next: "):
            break
        command = last.removeprefix("Next: ")
    assert names[:3] == ["explain", "fix", "fix"]
    assert "bench" in names


def failed_call(eager: str | None) -> Call:
    error = CallError(type="ValueError", message="words", traceback="", eager=eager)
    return Call(index=1, outcome="error", error=error)


def check_report(*targets: TargetCheck) -> CheckReport:
    return CheckReport(graphdoctor_version="0.1.0", targets=targets)


FAILED = ProbeExit(status=3, reason="error", message="model has no missing.")
NOT_THERE = recording().replace(
    exit=FAILED, is_partial=True, calls=(), compiles=(), frames=(), graphs=()
)


def test_a_script_that_refuses_its_arguments_is_not_explained() -> None:
    script = TargetInfo(text="train.py -v", kind="script", model="train.py:Net")
    ended = NOT_THERE.replace(target=script, is_partial=False)
    refused = ended.replace(exit=ProbeExit(status=2, reason="finished"))
    assert after_run(diagnosed(refused)) == Done(
        "the script ended with status 2 before it compiled anything: its output says why"
    )
    whole = ended.replace(exit=ProbeExit(status=0, reason="finished"))
    assert after_run(diagnosed(whole)) == "graphdoctor explain train.py:Net"


@for_each(
    "facts, again",
    [
        (NOT_THERE, False),
        (NOT_THERE.replace(calls=(failed_call("ValueError"),)), False),
        (NOT_THERE.replace(calls=(failed_call("ok"),)), True),
        (NOT_THERE.replace(calls=(failed_call(None),)), True),
        (NOT_THERE.replace(exit=FAILED.replace(reason="interrupted")), True),
        (NOT_THERE.replace(exit=FAILED.replace(reason="timeout")), True),
    ],
)
def test_what_fails_by_itself_is_not_run_again(facts: Recording, *, again: bool) -> None:
    fails = Done("the program fails without torch.compile: fix that first")
    ending = "graphdoctor explain model.py" if again else fails
    diagnosis = diagnosed(facts)
    assert after_run(diagnosis) == ending
    crashed = TargetCheck(name="model.py", target="model.py", state="crashed", diagnosis=diagnosis)
    assert after_check(check_report(crashed)) == ending


def test_a_check_goes_on_with_what_there_is_to_see() -> None:
    missing = TargetCheck(name="gone.py", target="gone.py", state="crashed")
    failing = TargetCheck(name="model.py", target="model.py", state="failed")
    assert isinstance(after_check(check_report(missing)), Done)
    assert after_check(check_report(missing, failing)) == "graphdoctor explain model.py"
