"""Two surveys side by side, in every format."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.survey_comparison import SurveyComparison
from graphdoctor.studies.survey.comparison import compare_surveys
from graphdoctor.views.survey_comparison import render_survey_comparison
from graphdoctor.views.survey_comparison_github import render_survey_comparison_github
from graphdoctor.views.survey_comparison_junit import render_survey_comparison_junit
from graphdoctor.views.survey_comparison_markdown import render_survey_comparison_markdown
from graphdoctor.views.survey_comparison_sarif import render_survey_comparison_sarif
from tests.render.test_junit import SCHEMA as JUNIT
from tests.render.test_sarif import VALIDATOR
from tests.survey_comparisons import HELPER, changed
from tests.survey_reports import cause, failed, report, row


def compared(before: Any, after: Any, fail_on: Any = "warning", **more: Any) -> SurveyComparison:
    """Two surveys of these rows."""
    return compare_surveys(report(before), report(after, **more), version="0.2.0", fail_on=fail_on)


def text_of(comparison: SurveyComparison, *, width: int = 80, is_verbose: bool = False) -> str:
    """What a terminal shows."""
    console = Console(file=StringIO(), width=width, color_system=None)
    render_survey_comparison(comparison, console, is_verbose=is_verbose)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def sarif_of(comparison: SurveyComparison) -> dict[str, Any]:
    """The run of the log, which is valid."""
    log = json.loads(render_survey_comparison_sarif(comparison, root=Path("/project")))
    VALIDATOR.validate(log)
    (run,) = log["runs"]
    return run


def junit_of(comparison: SurveyComparison) -> Any:
    """The document, which is valid."""
    document = etree.fromstring(render_survey_comparison_junit(comparison).encode())
    JUNIT.assertValid(document)
    return document


@pytest.mark.parametrize(("width", "is_verbose"), [(80, False), (140, True)])
def test_a_comparison_on_the_terminal(snapshot: SnapshotAssertion, width: int, is_verbose: bool) -> None:
    text = text_of(changed(), width=width, is_verbose=is_verbose)
    assert max(map(len, text.splitlines())) <= width
    assert text == snapshot


def test_a_comparison_as_markdown(snapshot: SnapshotAssertion) -> None:
    assert render_survey_comparison_markdown(changed()) == snapshot


def test_a_comparison_as_annotations(snapshot: SnapshotAssertion) -> None:
    assert render_survey_comparison_github(changed()) == snapshot


def test_a_comparison_as_junit(snapshot: SnapshotAssertion) -> None:
    junit_of(changed())
    assert render_survey_comparison_junit(changed()) == snapshot


def test_the_same_survey_twice_is_good_news_everywhere() -> None:
    same = compared(report().rows, report().rows)
    text = text_of(same)
    assert "10 pieces compared: no regressions." in text
    assert "3 pieces pass in neither survey." in text
    assert render_survey_comparison_github(same) == ""
    run = sarif_of(same)
    assert (run["results"], run["invocations"][0]["exitCode"]) == ([], 0)
    assert run["invocations"][0]["executionSuccessful"] is True
    assert junit_of(same).get("failures") == junit_of(same).get("errors") == "0"


def test_a_mismatch_is_said_before_the_answer() -> None:
    text = text_of(compared([row()], [row(torch="2.14.0")]))
    assert text.index("2.13.0+cpu before, 2.14.0 now") < text.index("compared:")


def test_what_is_only_better_is_good_news() -> None:
    text = text_of(compared([row(break_sites=2)], [row()]))
    assert "1 piece compared: no regressions, 1 better." in text
    assert "Failed" not in text


def test_what_is_worse_but_below_fail_on_does_not_fail() -> None:
    found = compared([row()], [row(break_sites=1)], fail_on="error")
    assert "1 worse" in text_of(found)
    assert "Failed" not in text_of(found)
    assert junit_of(found).get("failures") == "0"
    (result,) = sarif_of(found)["results"]
    assert (result["level"], result["properties"]["isFailing"]) == ("warning", False)


# SARIF.


def test_a_finding_that_many_pieces_share_is_one_result_at_its_line() -> None:
    names = [f"model{number}" for number in range(12)]
    run = sarif_of(
        compared([row(name) for name in names], [row(name, break_sites=1, causes=(HELPER,)) for name in names])
    )
    (result,) = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "transformers/masking.py", "uriBaseId": "PACKAGES"}
    assert place["region"]["startLine"] == 50
    assert result["partialFingerprints"] == {"graphdoctorFingerprint/v1": "f9"}
    assert result["message"]["text"].endswith("New in model0, model1, model2 and 9 more.")
    assert len(result["properties"]["pieces"]) == 12
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "GD102"


def test_a_finding_in_the_users_own_code_is_below_the_folder() -> None:
    own = cause(file="models/net.py", package=None, fingerprint="own")
    (result,) = sarif_of(compared([row()], [row(causes=(own,))]))["results"]
    place = result["locations"][0]["physicalLocation"]["artifactLocation"]
    assert place == {"uri": "models/net.py", "uriBaseId": "SRCROOT"}


def test_a_failure_is_a_result_at_its_target() -> None:
    (result,) = sarif_of(compared([row()], [failed("bert", "compile_failed", error="no kernel")]))["results"]
    assert (result["ruleId"], result["level"]) == ("survey-failure", "error")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "models/bert.py"
    assert result["message"]["text"] == "bert: compile failed, was ok: no kernel"


def test_a_failure_of_a_target_without_a_file_is_a_result_at_the_survey() -> None:
    named = {"target": "torch.nn:Linear"}
    found = compare_surveys(
        report([row(**named)]),
        report([failed("bert", "timeout", **named)]),
        version="0",
        paths=("a.parquet", "b.parquet"),
        folder="nightly",
    )
    (result,) = sarif_of(found)["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "nightly/b.parquet"
    assert result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] == "torch.nn:Linear"


def test_results_of_the_same_regression_have_the_same_fingerprint_each_night() -> None:
    results = [
        sarif_of(compared([row(speedup=3.0, speedup_low=2.9, speedup_high=3.1)], [row(seconds=seconds)]))["results"][0]
        for seconds in (1.0, 2.0)
    ]
    assert results[0]["partialFingerprints"] == results[1]["partialFingerprints"]
    assert results[0]["ruleId"] == "survey-slower"


def test_what_is_unknown_is_no_result_and_the_run_did_not_succeed() -> None:
    invocation = sarif_of(compared([row(), row("b")], [failed("bert", "lost")]))["invocations"][0]
    assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 2)
    said = [each["message"]["text"] for each in invocation["toolExecutionNotifications"] if each["level"] == "error"]
    assert said == ["b is only in the first survey.", "bert: lost, was ok."]


def test_a_flaky_piece_is_a_note() -> None:
    found = compared([row()], [failed("bert", "crashed", attempts=2, earlier=("ok",))])
    (result,) = sarif_of(found)["results"]
    assert (result["level"], result["properties"]) == (
        "note",
        {"isFailing": False, "isFlaky": True, "pieces": [["bert", "default"]]},
    )
    assert render_survey_comparison_github(found).startswith("::notice ")


def test_a_link_in_an_error_is_no_link() -> None:
    (result,) = sarif_of(compared([row()], [failed("bert", "timeout", error="[here](http://a.b)")]))["results"]
    assert r"\[here](http" in result["message"]["text"]


# JUnit.


def test_each_piece_that_differs_is_a_test_case() -> None:
    document = junit_of(changed())
    suite = document.find("testsuite[@name='default']")
    kinds = {case.get("name"): [child.tag for child in case] for case in suite.iter("testcase")}
    assert kinds["bert"] == kinds["slow"] == ["failure"]
    assert kinds["lost"] == kinds["clip"] == kinds["removed"] == ["error"]
    assert kinds["flaky"] == ["skipped"]
    assert kinds["opt"] == kinds["mamba"] == []
    assert kinds["3 pieces unchanged"] == []
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("4", "3", "1")


def test_a_survey_that_was_interrupted_is_an_error() -> None:
    document = junit_of(compared([row()], [row()], planned=4))
    assert document.get("errors") == "1"
    assert "3 pieces of the second survey didn't finish." in etree.tostring(document, encoding="unicode")


def test_markdown_of_a_large_comparison_is_short_enough_for_a_comment() -> None:
    names = [f"model{number}" for number in range(3000)]
    text = render_survey_comparison_markdown(
        compared([row(name) for name in names], [row(name, break_sites=1) for name in names])
    )
    assert len(text) < 65_536
    assert "left out to keep the comment short enough" in text
