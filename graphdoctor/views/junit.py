"""A check as JUnit XML, one test suite for each target, for the test report of any CI system.

Comes in: a ``CheckReport``. Goes out: XML text that is valid by Jenkins' schema ``junit-10.xsd``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from graphdoctor.facts.wording import counted
from graphdoctor.views.printable import printable, printable_lines
from graphdoctor.views.words import (
    baseline_notes,
    budget_text,
    more_eager_texts,
    suggested,
    worse_text,
    worth_trying,
    written_lines,
)

if TYPE_CHECKING:
    from graphdoctor.facts.check import CheckReport, TargetCheck
    from graphdoctor.facts.diagnosis import Diagnosis, Finding

_FORBIDDEN = re.compile("[\ufffe\uffff]")
"""What XML 1.0 can't hold, even escaped, apart from control characters."""


def render_junit(report: CheckReport) -> str:
    """A document with one ``testsuite`` for each target.

    Each suite has a test case for the run, one for each new finding that fails it (or one that passes if there are
    none), and one for each budget. The rest is in the suite's ``system-out``.

    Args:
        report: What to write.

    Returns:
        XML, indented, with a newline at the end.
    """
    suites = [_suite(target) for target in report.targets]
    suites += [_skipped_suite(name) for name in report.skipped]
    return junit_document("graphdoctor check", suites, notes=_report_notes(report))


def junit_document(name: str, suites: Sequence[Element], *, notes: Sequence[str]) -> str:
    """A document of these suites.

    Args:
        name: What it is called.
        suites: Its suites.
        notes: What belongs to none of them.
    """
    root = Element("testsuites", name=name)
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    root.extend(suites)
    if notes:
        # The schema has no place for text outside a suite.
        suite = SubElement(root, "testsuite", name="notes", tests="0", failures="0", errors="0", skipped="0")
        SubElement(suite, "system-out").text = xml_lines_of(notes)
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _suite(target: TargetCheck) -> Element:
    cases = list(_cases(target))
    suite = suite_of(target.name, cases)
    if (seconds := _seconds(target.diagnosis)) is not None:
        suite.set("time", f"{seconds:.3f}")
    properties = SubElement(suite, "properties")
    for name, value in _properties(target):
        SubElement(properties, "property", name=name, value=xml_line(value))
    suite.extend(cases)
    if notes := list(_target_notes(target)):
        SubElement(suite, "system-out").text = xml_lines_of(notes)
    return suite


def suite_of(name: str, cases: Sequence[Element]) -> Element:
    """A suite with the counts of its cases, which aren't in it yet: its properties come first."""
    suite = Element("testsuite", name=xml_line(name), tests=str(len(cases)))
    for count, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(sum(case.find(kind) is not None for case in cases)))
    return suite


def _skipped_suite(name: str) -> Element:
    suite = Element("testsuite", name=xml_line(name), tests="1", failures="0", errors="0", skipped="1")
    case = case_of(name, "runs")
    SubElement(case, "skipped", message="It doesn't reach any of the given files.")
    suite.append(case)
    return suite


def _cases(target: TargetCheck) -> Iterator[Element]:
    ran = case_of(target.name, "runs")
    if (seconds := _seconds(target.diagnosis)) is not None:
        ran.set("time", f"{seconds:.3f}")
    if target.state == "crashed":
        error = target.error or "It didn't run to the end."
        SubElement(ran, "error", type="crashed", message=xml_line(error)).text = xml_lines(error)
    elif target.error is not None:
        SubElement(ran, "failure", type="failed", message=xml_line(target.error)).text = xml_lines(target.error)
    yield ran
    named: Counter[str] = Counter()
    worse = {item.finding.fingerprint: worse_text(item) for item in target.failing_worse}
    for finding in (*target.failing, *(item.finding for item in target.failing_worse)):
        place = f"{finding.location.shown_file}:{finding.location.line}"
        name = f"{finding.code} {place} in {finding.location.function}"
        named[name] += 1
        # Two changing values on one line are two cases, and a report tells cases apart only by name.
        case = case_of(target.name, name if named[name] == 1 else f"{name} ({named[name]})")
        failure = SubElement(case, "failure", type=xml_line(finding.code), message=xml_line(finding.message))
        failure.text = xml_lines_of(_finding_lines(finding, place, worse.get(finding.fingerprint)))
        yield case
    if target.is_more_eager:
        case, words = case_of(target.name, "eager code"), "; ".join(more_eager_texts(target))
        SubElement(case, "failure", type="eager", message=xml_line(words)).text = xml_line(words)
        yield case
    if not (target.failing or target.failing_worse) and target.state != "crashed":
        yield case_of(target.name, "no new findings")
    for budget in target.budgets:
        case = case_of(target.name, budget.name)
        if not budget.is_kept:
            words = budget_text(budget)
            SubElement(case, "failure", type="budget", message=xml_line(words)).text = xml_line(words)
        yield case


def case_of(target: str, name: str) -> Element:
    """A test case that passes."""
    return Element("testcase", classname=xml_line(target), name=xml_line(name))


def _finding_lines(finding: Finding, place: str, worse: str | None) -> Iterator[str]:
    yield f"{place}: {finding.severity}: {finding.message}"
    if worse is not None:
        yield f"Worse than in the baseline: {worse}."
    if finding.location.text is not None:
        yield f"    {finding.location.text}"
    if finding.torch_reason:
        first, *rest = f"{finding.torch_id or 'torch'}: {finding.torch_reason}".splitlines()
        yield first
        # No line of theirs can pass for one of ours.
        yield from (f"    {line}" for line in rest)
    for fix in worth_trying(finding.fixes)[:1]:
        yield f"Try: {suggested(fix)}"
        yield from written_lines(fix)
    yield f"Read more: graphdoctor rule {finding.code}"


def _properties(target: TargetCheck) -> Iterator[tuple[str, str]]:
    yield "target", target.target
    if target.diagnosis is not None and target.diagnosis.environment.torch:
        yield "torch", target.diagnosis.environment.torch
    if target.baseline_torch:
        yield "baseline torch", target.baseline_torch


def _target_notes(target: TargetCheck) -> Iterator[str]:
    failing = {finding.fingerprint for finding in target.failing}
    if target.is_other_torch:
        yield "The baseline is from another version of torch, so new and fixed findings may come from the upgrade."
    yield from baseline_notes(target)
    for finding in target.new:
        if finding.fingerprint not in failing:
            yield f"new, below fail-on: {_line(finding)}"
    for finding in target.grown:
        yield f"more frequent than in the baseline: {_line(finding)}"
    for entry in target.fixed:
        yield f"fixed: {entry.code} {entry.file} in {entry.function}: {entry.message}"
    if target.known:
        yield f"in the baseline: {counted(len(target.known), 'finding')}"
    if target.ignored:
        yield f"ignored: {counted(len(target.ignored), 'finding')}"


def _line(finding: Finding) -> str:
    return f"{finding.code} {finding.location.shown_file}:{finding.location.line}: {finding.message}"


def _report_notes(report: CheckReport) -> list[str]:
    notes = list(report.notes)
    for unused in report.unused_ignores:
        place = unused.file if unused.line is None else f"{unused.file}:{unused.line}"
        codes = f"[{', '.join(unused.codes)}]" if unused.codes else ""
        notes.append(f"unused: ignore{codes} at {place}")
    return notes


def _seconds(diagnosis: Diagnosis | None) -> float | None:
    """How long the calls took, compiling included; None if unknown."""
    if diagnosis is None:
        return None
    durations = [call.duration_s for call in diagnosis.calls if call.duration_s is not None]
    return sum(durations) if durations else None


def xml_line(text: str) -> str:
    """A line as an element or an attribute can hold it."""
    return _FORBIDDEN.sub("�", printable(text))


def xml_lines_of(lines: Iterable[str]) -> str:
    """Lines as an element can hold them."""
    return "\n".join(map(xml_line, lines))


def xml_lines(text: str) -> str:
    """A text of several lines as an element can hold it."""
    return _FORBIDDEN.sub("�", printable_lines(text))
