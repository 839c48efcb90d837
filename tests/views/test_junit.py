"""The gate's answer as JUnit XML: what a CI system reads of it."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.check import Budget, CheckReport
from graphdoctor.views.junit import render_junit
from graphdoctor.views.printable import printable, printable_lines
from tests.views.check_reports import failed_report, finding, report, target

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).parent / "schemas" / "junit-10.xsd"))


def parsed(answer: CheckReport) -> ElementTree.Element:
    text = render_junit(answer)
    SCHEMA.assertValid(etree.fromstring(text.encode()))
    return ElementTree.fromstring(text.encode())


def outcomes(suite: ElementTree.Element) -> dict[str, str]:
    return {
        case.get("name", ""): next((child.tag for child in case), "passed")
        for case in suite.iter("testcase")
        if case.get("classname") == suite.get("name")
    }


def test_a_document_reads_as_it_should(snapshot: SnapshotAssertion):
    assert render_junit(failed_report()) == snapshot


def test_target_is_a_suite_with_counts_of_its_cases():
    root = parsed(failed_report())
    assert [suite.get("name") for suite in root] == ["train", "serve", "export", "bench", "notes"]
    for suite in root:
        found = list(outcomes(suite).values())
        counted = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
        assert counted == {
            "tests": str(len(found)),
            "failures": str(found.count("failure")),
            "errors": str(found.count("error")),
            "skipped": str(found.count("skipped")),
        }


def test_what_is_below_the_limit_fails_nothing_and_is_told():
    (suite,) = parsed(report(target(new=(finding(),), fail_on="error")))
    assert outcomes(suite) == {"runs": "passed", "no new findings": "passed"}
    assert "new, below fail-on: GD101 model.py:12" in (suite.findtext("system-out") or "")


def test_a_broken_budget_fails_beside_findings_that_do_not():
    budget = Budget(name="max-breaks", limit=0, value=1, is_kept=False)
    (suite,) = parsed(report(target(state="failed", budgets=(budget,))))
    assert outcomes(suite) == {
        "runs": "passed",
        "no new findings": "passed",
        "max-breaks": "failure",
    }


def test_two_findings_at_one_place_are_two_cases():
    (suite,) = parsed(
        report(target(state="failed", new=(finding(), finding(fingerprint="2" * 16))))
    )
    assert [name for name in outcomes(suite) if name.startswith("GD101")] == [
        "GD101 model.py:12 in Net.forward",
        "GD101 model.py:12 in Net.forward (2)",
    ]


def test_times_are_of_the_calls_and_unknown_ones_absent():
    known, unknown = parsed(
        report(target(), target("other", state="crashed", diagnosis=None, error="x"))
    )
    assert (known.get("time"), unknown.get("time")) == ("0.500", None)


XML = st.characters(
    exclude_categories=["Cs"], exclude_characters="\ufffe\uffff" + "".join(map(chr, range(32)))
)


@given(st.text(XML | st.sampled_from("\t\n\r]]><&\"'")))
def test_what_xml_can_hold_is_read_back(text):
    (error,) = parsed(report(target(state="crashed", diagnosis=None, error=text or "x"))).iter(
        "error"
    )
    assert error.get("message", "") == printable(text or "x")
    assert (error.text or "") == printable_lines(text or "x")


@given(st.text(st.characters() | st.sampled_from("\x00\x1b\ufffe\ud800"), min_size=1))
def test_what_xml_has_no_place_for_is_replaced(text):
    (error,) = parsed(report(target("\x1b[31m", state="crashed", diagnosis=None, error=text))).iter(
        "error"
    )
    assert not re.search("[\ufffe\uffff]", error.get("message") or "")
    assert len(error.get("message") or "") == len(printable(text))
