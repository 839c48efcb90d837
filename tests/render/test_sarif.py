"""The gate's answer as SARIF: valid by the standard's schema, and true."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.check import CheckReport, Ignored
from graphdoctor.facts.diagnosis import Finding, Location
from graphdoctor.fixes.patch import unified
from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.views.edits import Replacement, edits_of
from graphdoctor.views.sarif import render_sarif
from tests.each import for_each
from tests.factories import entry
from tests.render.check_reports import DIFF, FIX, ROOT, failed_report, finding, placed, report, target

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
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


def test_the_schema_can_refuse():
    VALIDATOR.check_schema(SCHEMA)
    log = json.loads(render_sarif(failed_report(), root=ROOT))
    del log["runs"][0]["tool"]
    with pytest.raises(jsonschema.ValidationError, match="'tool' is a required property"):
        VALIDATOR.validate(log)


def test_a_report_with_all_there_is_is_valid(snapshot: SnapshotAssertion):
    run = run_of(failed_report())
    assert "/project" not in json.dumps(run)
    for rule in run["tool"]["driver"]["rules"]:
        del rule["help"], rule["fullDescription"]
    assert json.dumps(run, indent=1, ensure_ascii=False) == snapshot


def test_a_report_without_findings_is_valid():
    run = run_of(report())
    assert run["results"] == []
    assert run["invocations"][0]["executionSuccessful"] is True
    assert run["invocations"][0]["exitCode"] == 0


def test_every_rule_can_be_described():
    found = tuple(finding(code=code, rule=rule.name, fingerprint=code) for code, rule in ALL_RULES.items())
    rules = run_of(report(target(state="failed", new=found)))["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == list(ALL_RULES)
    for rule in rules:
        assert rule["help"]["markdown"].startswith(rule["shortDescription"]["text"])
        assert rule["fullDescription"]["text"]


def test_a_rule_of_another_version_is_named_alone():
    (rule,) = run_of(report(target(new=(finding(code="GD999", rule="unheard-of"),))))["tool"]["driver"]["rules"]
    assert rule == {"id": "GD999"}


@for_each("severity, level", [("error", "error"), ("warning", "warning"), ("info", "note")])
def test_a_level_is_the_severity(severity, level):
    assert result_of(finding(severity=severity))["level"] == level


def test_without_a_baseline_nothing_has_a_state():
    assert "baselineState" not in result_of(finding())


@for_each(
    "by, reason, kind, words",
    [
        ("comment", "it is rare", "inSource", "it is rare"),
        ("comment", None, "inSource", None),
        ("path", None, "external", "per-path-ignores of the configuration"),
        ("setting", None, "external", "ignore, select or own-code of the configuration"),
    ],
)
def test_what_is_ignored_is_suppressed(by, reason, kind, words):
    (result,) = run_of(report(target(ignored=(Ignored(finding=finding(), by=by, reason=reason),))))["results"]
    (suppression,) = result["suppressions"]
    assert (suppression["kind"], suppression.get("justification")) == (kind, words)
    assert result["properties"]["isFailing"] is False


def test_a_fingerprint_stays_when_the_line_moves():
    moved = finding(location=finding().location.model_copy(update={"line": 99}))
    assert result_of(moved)["partialFingerprints"] == result_of(finding())["partialFingerprints"]
    assert result_of(finding())["partialFingerprints"] == {"graphdoctorFingerprint/v1": finding().fingerprint}


# Places.


def test_an_expression_within_a_line_has_the_line_around_it():
    location = Location(file="m.py", line=4, column=9, end_column=15, function="f", text="é = f(x)", indent=4)
    place = physical(finding(location=location))
    assert place["region"]["snippet"] == {"text": "f(x)"}
    assert place["contextRegion"]["snippet"] == {"text": "é = f(x)"}
    assert (place["contextRegion"]["startColumn"], place["contextRegion"]["endColumn"]) == (5, 13)


def test_an_expression_that_goes_on_below_has_no_end():
    location = Location(file="m.py", line=4, column=9, function="f", text="y = f(", indent=4)
    assert physical(finding(location=location))["region"] == {
        "startLine": 4,
        "startColumn": 9,
        "snippet": {"text": "f("},
    }


def test_without_columns_the_region_is_the_line_and_without_text_its_number():
    assert physical(placed("m.py", text="f(x)"))["region"] == {"startLine": 3, "snippet": {"text": "f(x)"}}
    assert physical(placed("m.py"))["region"] == {"startLine": 3}


@for_each(
    "file, uri, base",
    [
        ("src/a b.py", "src/a%20b.py", "SRCROOT"),
        ("src\\nets\\net.py", "src/nets/net.py", "SRCROOT"),
        ("模型/größe#1?.py", "%E6%A8%A1%E5%9E%8B/gr%C3%B6%C3%9Fe%231%3F.py", "SRCROOT"),
        ("C:\\my nets\\net.py", "file:///C:/my%20nets/net.py", None),
        ("\\\\server\\nets\\net.py", "file://server/nets/net.py", None),
        ("/elsewhere/net.py", "file:///elsewhere/net.py", None),
        ("/project/net.py", "net.py", "SRCROOT"),
        ("a:b.py", "a%3Ab.py", "SRCROOT"),
    ],
)
def test_a_path_is_a_uri(file, uri, base):
    artifact = physical(placed(file))["artifactLocation"]
    assert (artifact["uri"], artifact.get("uriBaseId")) == (uri, base)


def test_a_packages_file_is_named_from_the_package_on():
    for file in (".venv/lib/site-packages/timm/layers/x.py", "/opt/site-packages/timm/layers/x.py"):
        artifact = physical(placed(file, package="timm", origin="third_party"))["artifactLocation"]
        assert artifact == {"uri": "timm/layers/x.py", "uriBaseId": "PACKAGES"}
    artifact = physical(placed("/opt/site-packages/six.py", package="six", origin="third_party"))["artifactLocation"]
    assert artifact == {"uri": "six.py", "uriBaseId": "PACKAGES"}


def test_what_is_no_file_has_a_function_alone():
    (location,) = result_of(placed("<frozen os>"))["locations"]
    assert location == {"logicalLocations": [{"fullyQualifiedName": "f", "kind": "function"}]}


@given(st.text(st.characters(exclude_characters="\\", exclude_categories=["Cs"]), min_size=1))
def test_any_path_is_a_uri_that_decodes_to_it(file):
    if file.startswith("<") or file.startswith("./"):
        return
    uri = physical(placed(file))["artifactLocation"]["uri"]
    assert URI.fullmatch(uri), uri
    parts = urlsplit(uri)
    decoded = unquote(f"//{parts.netloc}{parts.path}" if parts.netloc else parts.path)
    assert decoded.removeprefix("/") == file.removeprefix("/project/").removeprefix("/")


def test_torchs_own_lines_of_a_flow_can_be_hidden():
    stack = (entry(1), entry(2, file="/venv/torch/nn/module.py", origin="torch", package="torch"))
    flow = result_of(finding(user_stack=stack))["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["importance"] for step in flow] == ["essential", "unimportant"]


def test_related_places_are_there_once_each():
    place = Location(file="train.py", line=7, function="main", note="called here in call 2")
    related = result_of(finding(related=(place, place)))["relatedLocations"]
    assert [(location["id"], location["message"]["text"]) for location in related] == [(1, "called here in call 2")]


def test_nothing_in_a_message_is_a_link():
    assert result_of(finding(message="`x[0](y)` and [a]"))["message"]["text"] == "`x\\[0](y)` and [a]"


# Fixes.


@for_each("verdict", ["no effect", "changes results", "failed"])
def test_a_fix_that_a_trial_refuted_is_not_offered(verdict):
    refuted = FIX.model_copy(update={"verdict": verdict})
    result = result_of(finding(fixes=(refuted,)))
    assert "fixes" not in result
    assert result["properties"]["suggestions"][0]["verdict"] == verdict


def replaced(text: str, replacements: list[Replacement]) -> str:
    """What an editor makes of regions; lines end with LF."""
    starts = [0]
    starts += [at + 1 for at, character in enumerate(text) if character == "\n"]
    for change in reversed(replacements):
        begin = starts[change.line - 1] if change.line <= len(starts) else len(text)
        end = starts[change.end_line - 1] + change.end_column - 1 if change.end_line <= len(starts) else len(text)
        text = text[:begin] + change.text + text[end:]
    return text


LINES = st.lists(st.sampled_from(["a", "b", "-", "+", "--- a/x", "@@ -1 +1 @@", "\\ no", "é\r", ""]), max_size=12)


@given(LINES, LINES, st.booleans(), st.booleans())
def test_regions_do_what_the_diff_does(before, after, is_ended, is_ended_after):
    old = "\n".join(before) + ("\n" if before and is_ended else "")
    new = "\n".join(after) + ("\n" if after and is_ended_after else "")
    edits = edits_of(unified(old.encode(), new.encode(), "a b/ü.py"))
    if old == new:
        assert edits == {}
        return
    assert list(edits) == ["a b/ü.py"]
    assert replaced(old, edits["a b/ü.py"]) == new


def test_a_diff_of_two_files_is_two_edits_and_a_quoted_path_is_read():
    other = unified(b"a\n", b"b\n", 'odd"name.py')
    assert list(edits_of(DIFF + other)) == ["model.py", 'odd"name.py']
