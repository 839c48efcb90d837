"""The gate's answer as GitHub workflow commands."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from graphdoctor.facts.check import CheckReport
from graphdoctor.facts.stack import StackEntry
from graphdoctor.views.github import render_github
from graphdoctor.views.printable import printable
from tests.views.check_reports import FORMS, ROOT, failed_report, finding, placed, report, target

CODES = {"%25": "%", "%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ","}


def decoded(text: str, codes: tuple[str, ...]) -> str:
    """As the runner does it: one code after the other, the percent sign last."""
    for code in codes:
        text = text.replace(code, CODES[code])
    return text.replace("%25", "%")


def read(output: str) -> list[tuple[str, dict[str, str], str]]:
    """Commands as the runner reads them: level, properties, message."""
    commands = []
    for line in output.split("\n")[:-1]:
        head, message = line.removeprefix("::").split("::", 1)
        level, _, listed = head.partition(" ")
        properties = dict(pair.split("=", 1) for pair in listed.split(","))
        commands.append(
            (
                level,
                {
                    name: decoded(value, ("%0D", "%0A", "%3A", "%2C"))
                    for name, value in properties.items()
                },
                decoded(message, ("%0D", "%0A")),
            )
        )
    return commands


def commands_of(answer: CheckReport) -> list[tuple[str, dict[str, str], str]]:
    return read(render_github(answer, root=ROOT))


def test_annotations_read_as_they_should(snapshot: SnapshotAssertion):
    assert render_github(failed_report(), root=ROOT) == snapshot


def test_passed_gate_without_news_says_nothing():
    assert render_github(report(target(known=(finding(),))), root=ROOT) == ""


def test_each_form_of_a_finding(snapshot: SnapshotAssertion):
    told = {
        name: commands_of(report(target(state="failed", new=(found,))))
        for name, found in FORMS.items()
    }
    assert [f"{name}: {command}" for name, (command,) in told.items()] == snapshot


def test_one_finding_of_two_targets_is_one_annotation():
    answer = report(target("train", new=(finding(),)), target("serve", new=(finding(),)))
    ((_, _, message),) = commands_of(answer)
    assert "Seen in train, serve." in message


def test_worst_come_first_and_github_counts_the_hidden():
    many = [
        finding(fingerprint=f"w{n}", location=StackEntry(file="m.py", line=n, function="f"))
        for n in range(1, 13)
    ]
    many += [
        finding(fingerprint=f"i{n}", severity="info", location=many[0].location) for n in range(12)
    ]
    many += [finding(fingerprint="e", severity="error")]
    commands = commands_of(report(target(state="failed", new=tuple(many))))
    assert [level for level, _, _ in commands] == ["error"] + ["warning"] * 12 + ["notice"] * 13
    assert commands[13][2] == (
        "GitHub shows 10 annotations of each kind; this step has 1 error, 12 warnings, 12 notices. "
        "Its log has all of them."
    )
    assert [int(properties["line"]) for _, properties, _ in commands[1:13]] == list(range(1, 13))


def test_a_target_that_crashed_is_an_error_without_a_file():
    level, properties, message = commands_of(
        report(target(state="crashed", diagnosis=None, error="a\nb"))
    )[0]
    assert (level, properties, message) == ("error", {"title": "train crashed"}, "a\nb")


@given(st.text(), st.text(), st.text(min_size=1))
def test_whatever_is_in_them_is_read_back(message, name, file):
    found = placed(file, function="f").replace(message=message, rule=name)
    output = render_github(report(target(new=(found,))), root=ROOT)
    # A line end of any other kind is none to the runner.
    assert re.fullmatch(r"::warning [^\r\n]*\n", output)
    ((_, properties, told),) = read(output)
    assert properties["title"] == printable(f"GD101 {name}")
    assert told.startswith(printable(message) + "\n")
