"""What lint tells is what torch does: every bad program breaks where lint says so, no good one
does."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.fixes.lint import lint_files
from graphdoctor.rules.catalog import ALL_RULES
from tests.conftest import run_command
from tests.each import for_each
from tests.fixes.lint.programs import BAD, GOOD
from tests.rules.test_documentation import first_block

AS_ON_2_13 = version("torch").startswith("2.13.")
"""Lint gives the ids of 2.13; another torch may name a break otherwise, at the same line."""


def linted(text, folder, name="program.py"):
    path = folder / name
    path.write_text(text)
    report = lint_files([path], root=folder, version="0")
    assert not report.unreadable
    return list(report.findings)


def file_name(program):
    return f"{'bad' if program.codes else 'good'}-{program.name}.py"


@pytest.fixture(scope="session")
def compiled(tmp_path_factory):
    """Each program's findings after it was run, all of them in one process."""
    folder = tmp_path_factory.mktemp("programs")
    names = [file_name(program) for program in (*BAD, *GOOD)]
    for program in (*BAD, *GOOD):
        (folder / file_name(program)).write_text(program.text)
    script = Path(__file__).with_name("compile_programs.py")
    run_command("run", "-q", "--report", "all.json", script, *names, cwd=folder, status=0)
    by_name: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for finding in json.loads((folder / "all.json").read_text())["findings"]:
        # A skipped frame has its break beside it.
        if finding["code"] != "GD111" and finding["location"]["file"] in by_name:
            by_name[finding["location"]["file"]].append(finding)
    return by_name


@for_each("program", BAD)
def test_each_cause_is_found_at_its_line(program, tmp_path):
    findings = linted(program.text, tmp_path)
    assert {finding.location.line for finding in findings} == program.marked_lines
    assert {finding.code for finding in findings} == program.codes
    assert all(finding.count == 0 and finding.message for finding in findings)


@for_each("program", GOOD)
def test_nothing_is_found_where_torch_does_not_break(program, tmp_path):
    assert linted(program.text, tmp_path) == []


@pytest.mark.slow
@for_each("program", BAD)
def test_torch_breaks_where_lint_says_so(program, tmp_path, compiled):
    seen = compiled[file_name(program)]
    for finding in linted(program.text, tmp_path, file_name(program)):
        if not AS_ON_2_13:
            assert finding.location.line in {
                finding_seen["location"]["line"] for finding_seen in seen
            }
            continue
        same = [
            finding_seen
            for finding_seen in seen
            if finding_seen["fingerprint"] == finding.fingerprint
        ]
        assert same, (
            finding.location.text,
            [
                (finding_seen["code"], finding_seen["torch_id"], finding_seen["location"])
                for finding_seen in seen
            ],
        )
        assert finding.severity != "error" or same[0]["severity"] == "error"


@pytest.mark.slow
@for_each("program", GOOD)
def test_torch_does_not_break_in_a_good_program(program, compiled):
    assert compiled[file_name(program)] == []


def test_every_check_has_a_program():
    """A code that lint can give without a program that was compiled would be a guess."""
    source = Path("graphdoctor/fixes/lint/checks.py").read_text()
    codes = {code for code in ALL_RULES if f'"{code}"' in source}
    assert codes == set().union(*(program.codes for program in BAD))


@for_each("code", [code for code in ALL_RULES if code.startswith(("GD1", "GD2"))])
def test_what_a_rule_recommends_is_clean(code, tmp_path):
    text = first_block(ALL_RULES[code], "Use instead")
    assert linted(f"{text}\ncompiled = torch.compile(forward)\n", tmp_path) == []


@pytest.mark.parametrize(
    "code",
    ["GD101", "GD102", "GD103", "GD104", "GD105", "GD107", "GD108", "GD109", "GD110", "GD112", "GD114", "GD115",
     "GD116", "GD117", "GD118"],
)  # fmt: skip
def test_a_rules_example_is_found(code, tmp_path):
    text = first_block(ALL_RULES[code], "Example")
    assert code in {
        finding.code for finding in linted(f"{text}\ncompiled = torch.compile(forward)\n", tmp_path)
    }
