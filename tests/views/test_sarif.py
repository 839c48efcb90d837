"""The gate's answer as SARIF: valid by the standard's schema, and true."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.check import CheckReport, Ignored
from graphdoctor.facts.diagnosis import Finding
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.views.sarif import render_sarif
from tests.views.check_reports import FORMS, ROOT, failed_report, finding, placed, report, target

SCHEMA = json.loads(
    (Path(__file__).parent / "schemas" / "sarif-2.1.0.json").read_text(encoding="utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
URI = re.compile(r"(file://[^/?#]*/|(?![^/]*:))([A-Za-z0-9\-._~!$&'()*+,;=:@/]|%[0-9A-F]{2})*")


def run_of(answer: CheckReport) -> dict[str, Any]:
    log = json.loads(render_sarif(answer, root=ROOT))
    VALIDATOR.validate(log)
    (run,) = log["runs"]
    return run


def result_of(found: Finding) -> dict[str, Any]:
    (result,) = run_of(report(target(state="failed", new=(found,))))["results"]
    return result


def physical(found: Finding) -> dict[str, Any]:
    return result_of(found)["locations"][0]["physicalLocation"]


def test_a_report_with_all_there_is_is_valid(snapshot: SnapshotAssertion):
    run = run_of(failed_report())
    assert "/project" not in json.dumps(run)
    for rule in run["tool"]["driver"]["rules"]:
        del rule["help"], rule["fullDescription"]
    results = [json.dumps(result, ensure_ascii=False) for result in run.pop("results")]
    assert [json.dumps(run, indent=1, ensure_ascii=False), *results] == snapshot


def test_a_report_without_findings_is_valid():
    run = run_of(report())
    assert run["results"] == []
    assert run["invocations"][0]["executionSuccessful"] is True
    assert run["invocations"][0]["exitCode"] == 0


def test_every_rule_can_be_described():
    found = tuple(
        finding(code=code, rule=rule.name, fingerprint=code) for code, rule in ALL_RULES.items()
    )
    rules = run_of(report(target(state="failed", new=found)))["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(ALL_RULES)
    for rule in rules:
        assert rule["help"]["markdown"].startswith(rule["shortDescription"]["text"])
        assert rule["fullDescription"]["text"]


def test_a_rule_of_another_version_is_named_alone():
    (rule,) = run_of(report(target(new=(finding(code="GD999", rule="unheard-of"),))))["tool"][
        "driver"
    ]["rules"]
    assert rule == {"id": "GD999"}


def test_each_form_of_a_finding(snapshot: SnapshotAssertion):
    assert [
        f"{name}: {json.dumps(result_of(found), ensure_ascii=False)}"
        for name, found in FORMS.items()
    ] == snapshot


def test_what_is_ignored_is_suppressed(snapshot: SnapshotAssertion):
    given = (("comment", "it is rare"), ("comment", None), ("path", None), ("setting", None))
    ignored = tuple(Ignored(finding=finding(), by=by, reason=reason) for by, reason in given)
    results = run_of(report(target(ignored=ignored)))["results"]
    assert [(each["suppressions"], each["properties"]["isFailing"]) for each in results] == snapshot


@given(st.text(st.characters(exclude_characters="\\", exclude_categories=["Cs"]), min_size=1))
def test_any_path_is_a_uri_that_decodes_to_it(file):
    if file.startswith("<") or file.startswith("./"):
        return
    uri = physical(placed(file))["artifactLocation"]["uri"]
    assert URI.fullmatch(uri), uri
    parts = urlsplit(uri)
    decoded = unquote(f"//{parts.netloc}{parts.path}" if parts.netloc else parts.path)
    assert decoded.removeprefix("/") == file.removeprefix("/project/").removeprefix("/")
