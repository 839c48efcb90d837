"""A check as JUnit XML, one test suite for each target, for the test report of any CI system.

Goes out: XML text that is valid by Jenkins' schema ``junit-10.xsd``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from graphdoctor.facts.check import CheckReport, TargetCheck
from graphdoctor.views.annotations import Annotation, annotations_of, baseline_notes, unused_texts
from graphdoctor.views.printable import printable, printable_lines
from graphdoctor.wording import counted

_FORBIDDEN = re.compile("[\ufffe\uffff]")
"""What XML 1.0 can't hold, even escaped, apart from control characters."""


def render_junit(report: CheckReport) -> str:
    """Return a document with one ``testsuite`` for each target.

    Each suite has a test case for the run, one for each finding that fails it (or one that passes
    if there are none), and one for each budget. The rest is in the suite's ``system-out``.
    """
    failing = [annotation for annotation in annotations_of(report) if annotation.is_failing]
    suites = []
    for target in report.targets:
        of_target = [annotation for annotation in failing if annotation.target == target.name]
        diagnosis, cases = target.diagnosis, list(_cases(target, of_target))
        torch = None if diagnosis is None else diagnosis.recording.environment.torch
        properties = {
            "target": target.target,
            "torch": torch,
            "baseline torch": target.baseline_torch,
        }
        suite = _suite(target.name, cases, properties=properties, notes=list(_notes(target)))
        # How long the calls took, compiling included.
        calls = () if diagnosis is None else diagnosis.recording.calls
        if durations := [call.duration_s for call in calls if call.duration_s is not None]:
            for element in (suite, cases[0]):
                element.set("time", f"{sum(durations):.3f}")
        suites.append(suite)
    for name in report.skipped:
        case = _case(name, "runs")
        SubElement(case, "skipped", message="It doesn't reach any of the given files.")
        suites.append(_suite(name, [case]))
    unused = map(unused_texts, report.unused_ignores)
    texts = (f"unused: {place}  {what} {said}" for place, what, said in unused)
    if notes := [*report.notes, *texts]:
        # The schema has no place for text outside a suite.
        suites.append(_suite("notes", [], notes=notes))
    root = Element("testsuites", name="graphdoctor check")
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in suites)))
    root.extend(suites)
    ElementTree.indent(root)
    return (
        '<?xml version="1.0"'
        f' encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'
    )


def _suite(
    name: str,
    cases: Sequence[Element],
    *,
    properties: Mapping[str, str | None] | None = None,
    notes: Sequence[str] = (),
) -> Element:
    suite = Element("testsuite", name=_line(name), tests=str(len(cases)))
    for count, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(count, str(sum(case.find(kind) is not None for case in cases)))
    if properties:
        listed = SubElement(suite, "properties")
        for key, value in properties.items():
            if value:
                SubElement(listed, "property", name=key, value=_line(value))
    suite.extend(cases)
    if notes:
        SubElement(suite, "system-out").text = "\n".join(map(_line, notes))
    return suite


def _cases(target: TargetCheck, failing: Sequence[Annotation]) -> Iterator[Element]:
    missed = {annotation.budget: annotation for annotation in failing if annotation.budget}
    run = next((annotation for annotation in failing if annotation.kind == "run"), None)
    outcome = "error" if target.state == "crashed" else "failure"
    yield _case(target.name, "runs", run, outcome, target.state)
    named: Counter[str] = Counter()
    for annotation in failing:
        if (finding := annotation.finding) is not None:
            name = f"{finding.code} {finding.location.shown} in {finding.location.function}"
            named[name] += 1
            # Two changing values on one line are two cases, and a report tells cases apart only by
            # name.
            number = f" ({named[name]})" if named[name] > 1 else ""
            case = _case(target.name, f"{name}{number}", annotation, "failure", finding.code)
            place, source = finding.location.shown, finding.location.text
            said = [f"{place}: {finding.severity}: {finding.message}"]
            said += [f"    {source}"] if source is not None else []
            case[0].text = "\n".join(map(_line, [*said, *annotation.details]))
            yield case
        elif annotation.kind == "eager":
            yield _case(target.name, "eager code", annotation, "failure", "eager")
    if not named and target.state != "crashed":
        yield _case(target.name, "no new findings")
    for budget in target.budgets:
        yield _case(target.name, budget.name, missed.get(budget), "failure", "budget")


def _case(
    target: str, name: str, annotation: Annotation | None = None, outcome: str = "", kind: str = ""
) -> Element:
    """Return a test case; it passes unless something is said of it."""
    case = Element("testcase", classname=_line(target), name=_line(name))
    if annotation is not None:
        child = SubElement(case, outcome, type=_line(kind), message=_line(annotation.message))
        child.text = _FORBIDDEN.sub("\ufffd", printable_lines(annotation.message))
    return case


def _notes(target: TargetCheck) -> Iterator[str]:
    if target.is_other_torch:
        yield "The baseline is from another version of torch, which can add and fix findings."
    yield from baseline_notes(target)
    lines = {
        "new, below fail-on": [item for item in target.new if item not in target.failing],
        "more frequent than in the baseline": target.grown,
    }
    for what, findings in lines.items():
        for finding in findings:
            yield f"{what}: {finding.code} {finding.location.shown}  {finding.message}"
    for entry in target.fixed:
        yield f"fixed: {entry.code} {entry.file} in {entry.function}: {entry.message}"
    accepted = {"in the baseline": target.known, "ignored": target.ignored}
    for what, items in accepted.items():
        if items:
            yield f"{what}: {counted(len(items), 'finding')}"


def _line(text: str) -> str:
    """Return a line as an element or an attribute can hold it."""
    return _FORBIDDEN.sub("\ufffd", printable(text))
