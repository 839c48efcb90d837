"""What a report ends with: one command, which exists, takes these options, and is what this result
asks for."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import typer

from graphdoctor.commands.app import application
from graphdoctor.facts.bench import EAGER, Judgement
from graphdoctor.facts.fixes import Treatment, TrialChoices
from graphdoctor.facts.recording import TargetInfo
from graphdoctor.facts.run import ProbeExit
from graphdoctor.facts.shared import FROM_CALLER
from graphdoctor.views.html.document import render_view_page
from graphdoctor.views.markdown_text import render_view_markdown
from graphdoctor.views.next_step import (
    after_bench,
    after_cure,
    after_run,
    after_survey_comparison,
    explained,
    kept,
)
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


def is_accepted(command: str) -> bool:
    """Whether the command line takes it; nothing runs."""
    program, name, *arguments = shlex.split(command)
    found = typer.main.get_command(application([name])).commands[name]  # type: ignore[attr-defined]
    found.make_context(name, arguments).close()
    return program == "graphdoctor"


@for_each("name", [name for name in VIEWS if name not in ("comparison of surveys", "stages")])
def test_every_report_ends_with_a_command(name: str) -> None:
    view = VIEWS[name]()
    assert view.then is not None
    assert on_terminal(view, width=40).endswith(f"\n\nNext: {view.then}\n")
    assert render_view_markdown(view).endswith(f"\n\nNext: `{view.then}`\n")
    assert 'Next: <code id="next">' in render_view_page(view)
    assert is_accepted(view.then)


def test_run_with_breaks_is_fixed_and_clean_one_measured() -> None:
    assert after_run(diagnosed(BROKEN)) == "graphdoctor fix model.py"
    assert after_run(diagnosed()) == "graphdoctor bench model.py"


def test_live_api_function_has_no_command_name() -> None:
    facts = BROKEN.replace(target=BROKEN.target.replace(text="Net", inputs_from=FROM_CALLER))
    assert after_run(diagnosed(facts)) == "graphdoctor rule GD101"


def test_half_a_run_proves_nothing_and_leads_to_its_page() -> None:
    half = recording(ended=ProbeExit(status=1, reason="crashed", message="It crashed."))
    assert after_run(diagnosed(half)) is None
    assert after_run(diagnosed(BROKEN.replace(is_partial=True))) == "graphdoctor rule GD101"


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
    assert after_survey_comparison(compared(before[:1], after[:1])) is None


def test_a_script_is_changed_by_hand() -> None:
    script = TargetInfo(text="train.py", kind="script")
    assert after_run(diagnosed(BROKEN.replace(target=script))) == "graphdoctor rule GD101"
    assert after_run(diagnosed(recording().replace(target=script))) is None


@pytest.mark.parametrize("name", ["a\nb.py", "a\x1b[31m.py", "a\u202eb.py"])
def test_a_name_that_cannot_be_shown_is_no_command(name: str) -> None:
    named = recording(target=name)
    assert after_run(diagnosed(named)) is None
    assert "Next:" not in on_terminal(report_view(diagnosed(named)))


def test_names_with_spaces_and_quotes_are_one_argument() -> None:
    said = after_run(diagnosed(recording(target="my models/it's.py:Net")))
    assert said is not None
    assert shlex.split(said) == ["graphdoctor", "bench", "my models/it's.py:Net"]


def test_only_rules_have_pages() -> None:
    assert explained(["GD999; rm x", "\x1b[31m", "GD1"]) is None
    assert explained(["other", "GD202", "GD101"]) == "graphdoctor rule GD202"


def test_what_was_verified_is_written_then_measured() -> None:
    known, treatment = peeled()
    chosen = treatment.replace(
        choices=TrialChoices(select=("GD1",), is_unsafe_tried=True, timing="none")
    )
    command = "graphdoctor fix model.py --select GD1 --unsafe-fixes --no-timing --apply"
    assert after_run(treated(known, chosen)) == command
    assert is_accepted(command)
    assert after_run(treated(known, chosen), is_written=True) == "graphdoctor bench model.py"
    assert (
        after_run(treated(known, chosen.replace(is_written=True))) == "graphdoctor bench model.py"
    )


def test_unsafe_fixes_come_after_safe_ones_found_nothing() -> None:
    known, treatment = suggested()
    unsafe = tuple(fix.replace(untried_cause="unsafe", is_safe=False) for fix in treatment.tried)
    left: Treatment = treatment.replace(tried=unsafe)
    assert after_run(treated(known, left)) == "graphdoctor fix model.py --unsafe-fixes"
    assert (
        after_run(treated(known, left.replace(is_interrupted=True))) == "graphdoctor fix model.py"
    )
    assert after_run(treated(known, treatment)) == "graphdoctor bench model.py"


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
    assert said is not None
    assert said.split()[1] == name


def test_host_bound_bench_leads_to_faster_options() -> None:
    assert after_bench(waiting()) == "graphdoctor bench model.py:Net --variant mode=reduce-overhead"
    assert after_bench(waiting(untried=None)) != after_bench(waiting())


def test_a_bench_in_which_nothing_ran_leads_to_the_run() -> None:
    said = after_bench(report(ended(EAGER, "failed", "It raised."), best=None))
    assert said is not None
    assert said.split()[1] == "explain"


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


def test_studys_default_backend_is_no_option() -> None:
    asked = TargetInfo(
        text="model.py", compile_arguments={"backend": "inductor", "mode": "max-autotune"}
    )
    said = after_bench(
        report(eager(), variant(judgement="slower"), best=EAGER).replace(target=asked)
    )
    assert said == "graphdoctor cure model.py --mode max-autotune"
