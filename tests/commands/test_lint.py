"""``graphdoctor lint`` as a person uses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.fixes.lint import RecordedNames, lint_files
from graphdoctor.rules.gate.baseline import read_baseline, write_baseline
from tests.conftest import RunCli

BAD = """\
import torch


@torch.compile
def step(x: torch.Tensor):
    print("a")
    return x * x.sum().item()
"""
CLEAN = "import torch\n\n\n@torch.compile\ndef step(x):\n    return x.sin()\n"
PLAIN = """\
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        print("a")
        return x.sin()


def example_inputs():
    import torch

    return (torch.ones(4),)
"""
"""A model that its own file never compiles."""

RunHere = RunCli


def test_findings_are_lines_that_editors_understand(tmp_path: Path, run_here: RunHere) -> None:
    (tmp_path / "my model.py").write_text(BAD)
    done = run_here("lint", "my model.py", status=1)
    assert (
        "my model.py:6:5: GD101 `print` has a side effect, so torch can't put it in a graph"
        in done.stdout
    )
    assert (
        "my model.py:7:16: GD103 `x.sum().item()` reads a tensor's value into Python" in done.stdout
    )
    assert "help: Let torch call `print` after the graph has run" in done.stdout
    assert done.stdout.endswith(
        "2 findings in 1 compiled function of 1 file.\nNext: graphdoctor rule GD101\n"
    )
    assert "\x1b" not in done.stdout


def test_github_gets_an_annotation_for_each_new_finding(tmp_path: Path, run_here: RunHere) -> None:
    (tmp_path / "broken.py").write_text("def f(:\n")
    (tmp_path / "model.py").write_text(
        "import torch\n\n\n@torch.compile\ndef f(x):\n    print(x)\n    return x\n"
    )
    found = run_here(
        "lint", "model.py", "broken.py", "--format", "github", status=2
    ).stdout.splitlines()
    assert found[0].startswith("::error title=graphdoctor lint::broken.py:1 ")
    assert found[1].startswith(
        "::warning file=model.py,line=6,endLine=6,col=5,endColumn=13,title=GD101 print-or-log::"
    )
    assert len(found) == 2


def test_a_clean_file_exits_with_0(tmp_path: Path, run_here: RunHere) -> None:
    (tmp_path / "clean.py").write_text(CLEAN)
    done = run_here("lint", ".")
    assert (done.returncode, done.stdout) == (0, "No findings in 1 compiled function of 1 file.\n")


def test_json_has_each_finding_with_its_columns(tmp_path: Path, run_here: RunHere) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    findings = json.loads(run_here("lint", "bad.py", "--format", "json").stdout)["findings"]
    assert [(found["code"], found["location"]["end_column"]) for found in findings] == [
        ("GD101", 15),
        ("GD103", 30),
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"def broken(:\n", "broken.py:1 can't be parsed: invalid syntax."),
        (b"\xff\xfe\x00", "broken.py can't be parsed"),
        (b"x = 1\0", "broken.py can't be parsed"),
        (b"<<<<<<< HEAD\nx = 1\n", "broken.py:1 can't be parsed"),
        (b"# coding: nonsense\n", "broken.py can't be parsed"),
    ],
)
def test_a_broken_file_is_named_and_the_others_are_linted(
    content: bytes, words: str, tmp_path: Path, run_here: RunHere
) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    (tmp_path / "broken.py").write_bytes(content)
    done = run_here("lint", "bad.py", "broken.py", "gone.py", status=2)
    assert words in done.stderr
    assert "gone.py can't be read: No such file or directory." in done.stderr
    assert "GD101" in done.stdout


def test_comments_and_selection_leave_findings_out(tmp_path: Path, run_here: RunHere) -> None:
    (tmp_path / "bad.py").write_text(
        BAD.replace('"a")', '"a")  # graphdoctor: ignore[GD101] wanted')
    )
    done = run_here("lint", "bad.py")
    assert "GD101" not in done.stdout and "GD103" in done.stdout
    assert "1 ignored" in done.stdout
    assert run_here("lint", "bad.py", "--ignore", "GD103").returncode == 0
    assert run_here("lint", "bad.py", "--select", "GD104").returncode == 0
    (tmp_path / "bad.py").write_text(BAD.replace('"a")', '"a")  # graphdoctor: ignore[GD102]'))
    assert "GD101" in run_here("lint", "bad.py").stdout


@pytest.mark.parametrize(
    ("setting", "left"),
    [
        ("torch._dynamo.config.capture_scalar_outputs = True", {"GD101"}),
        ("torch._dynamo.config.reorderable_logging_functions.add(print)", {"GD103"}),
        ("@torch._dynamo.config.patch(capture_scalar_outputs=True)\ndef f(): ...", {"GD101"}),
        ('torch._dynamo.config.patch({"capture_scalar_outputs": True})', {"GD101"}),
        ('"""Do not set capture_scalar_outputs."""', {"GD101", "GD103"}),
    ],
)
def test_what_a_setting_of_the_project_mends_is_left_out(
    setting: str, left: set[str], tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    (tmp_path / "train.py").write_text(setting)
    report = lint_files([tmp_path / "bad.py"], root=tmp_path, version="0")
    assert {finding.code for finding in report.findings} == left
    assert bool(report.notes) == (len(left) == 1)
    assert all("train.py sets torch._dynamo.config." in note for note in report.notes)


def test_what_a_recording_saw_is_found_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "plain.py"
    path.write_text(PLAIN)
    assert lint_files([path], root=tmp_path, version="0").findings == ()
    recorded = RecordedNames({path: frozenset({"Net.forward", "Gone.forward"})})
    report = lint_files([path], root=tmp_path, version="0", recorded=recorded)
    assert [finding.location.line for finding in report.findings] == [6]


def test_a_setting_that_the_recording_was_given_counts(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    recorded = RecordedNames(settings=frozenset({"capture_scalar_outputs"}))
    report = lint_files([tmp_path / "bad.py"], root=tmp_path, version="0", recorded=recorded)
    assert {finding.code for finding in report.findings} == {"GD101"}


def baseline_of(findings: list[dict[str, Any]], **changed: str) -> str:
    """A baseline of one target with findings of a JSON document."""
    entries = [
        {
            "fingerprint": one["fingerprint"],
            "code": one["code"],
            "file": one["location"]["file"],
            "function": one["location"]["function"],
            "text": one["location"]["text"],
            "message": "known",
            "count": 1,
        }
        | changed
        for one in findings
    ]
    return write_baseline(
        read_baseline(
            json.dumps(
                {"graphdoctor_baseline": "1.0", "targets": {"net": {"2.13.0": entries}}}
            ).encode(),
            "it",
        )
    )


@pytest.fixture
def known(tmp_path: Path, run_here: RunHere) -> list[dict[str, Any]]:
    """The findings of a project that knows the first of them, in a file below a folder."""
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "bad.py").write_text(BAD)
    found: list[dict[str, Any]] = json.loads(run_here("lint", "src", "--format", "json").stdout)[
        "findings"
    ]
    (tmp_path / "pyproject.toml").write_text("[tool.graphdoctor]\nkeep-recordings = 3\n")
    (tmp_path / "graphdoctor-baseline.json").write_text(baseline_of(found[:1]))
    return found


def test_what_the_baseline_knows_is_not_new(
    tmp_path: Path, run_here: RunHere, known: list[dict[str, Any]]
) -> None:
    done = run_here("lint", "src", status=1)
    assert "GD101" not in done.stdout and "GD103" in done.stdout
    assert "1 new finding in 1 compiled function of 1 file, 1 in the baseline." in done.stdout
    (tmp_path / "graphdoctor-baseline.json").write_text(baseline_of(known))
    done = run_here("lint", "src")
    assert (done.returncode, done.stdout) == (
        0,
        "No new findings in 1 compiled function of 1 file, 2 in the baseline.\n",
    )
    assert run_here("lint", "src", "--no-baseline").returncode == 1


@pytest.mark.parametrize("folder", ["src", "..", "."])
def test_the_verdict_does_not_depend_on_the_working_directory(
    folder: str, tmp_path: Path, run_here: RunHere, known: list[dict[str, Any]]
) -> None:
    document = json.loads(
        run_here("lint", tmp_path / "src", "--format", "json", cwd=tmp_path / folder).stdout
    )
    assert [one["fingerprint"] for one in document["findings"]] == [known[1]["fingerprint"]]
    assert [one["fingerprint"] for one in document["known"]] == [known[0]["fingerprint"]]
    shown = Path(tmp_path / folder, document["findings"][0]["location"]["file"])
    assert shown.resolve() == (tmp_path / "src" / "bad.py").resolve()


def test_break_is_matched_by_place_across_torch_versions(
    tmp_path: Path, run_here: RunHere, known: list[dict[str, Any]]
) -> None:
    (tmp_path / "graphdoctor-baseline.json").write_text(
        baseline_of(known, fingerprint="0" * 16, code="GD100")
    )
    assert run_here("lint", "src").returncode == 0
    (tmp_path / "src" / "bad.py").write_text(
        BAD.replace('    print("a")\n', '    print("a")\n    print("a")\n')
    )
    done = run_here("lint", "src")
    assert done.returncode == 1 and "src/bad.py:7:5: GD101" in done.stdout, "a second one is new"


@pytest.mark.parametrize(
    ("configured", "code", "words"),
    [
        (
            '[tool.graphdoctor]\nfail-on = "error"\n',
            0,
            "2 findings in 1 compiled function of 1 file, 2 below fail-on.",
        ),
        (
            '[tool.graphdoctor]\n[[tool.graphdoctor.targets]]\ntarget = "a.py"\nfail-on = "error"\n'
            '[[tool.graphdoctor.targets]]\ntarget = "b.py"\n',
            0,
            "2 below fail-on",
        ),
        ('[tool.graphdoctor.per-path-ignores]\n"src/*" = ["GD101"]\n', 1, "1 ignored"),
        ('[tool.graphdoctor]\nselect = ["GD2"]\n', 0, "2 ignored"),
    ],
)
def test_lint_lets_pass_what_the_configuration_lets_pass(
    configured: str, code: int, words: str, tmp_path: Path, run_here: RunHere
) -> None:
    (tmp_path / "pyproject.toml").write_text(configured)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "bad.py").write_text(BAD)
    done = run_here("lint", "src")
    assert (done.returncode, words in done.stdout) == (code, True), done.stdout


def test_each_file_is_judged_by_its_own_project(
    tmp_path: Path, run_here: RunHere, known: list[dict[str, Any]]
) -> None:
    package = tmp_path / "package"
    (package / "src").mkdir(parents=True)
    (package / "src" / "bad.py").write_text(BAD)
    (package / "pyproject.toml").write_text("[tool.graphdoctor]\n")
    (package / "graphdoctor-baseline.json").write_text(baseline_of(known))
    document = json.loads(run_here("lint", ".", "--format", "json").stdout)
    assert [one["location"]["file"] for one in document["findings"]] == ["src/bad.py"]
    assert [one["location"]["file"] for one in document["known"]] == ["package/src/bad.py"] * 2 + [
        "src/bad.py"
    ]


@pytest.mark.slow
def test_lint_agrees_with_the_run_that_was_recorded(
    tmp_path: Path, explain_json: Callable[..., dict[str, Any]], run_here: RunHere
) -> None:
    (tmp_path / "plain.py").write_text(PLAIN)
    seen = explain_json("plain.py", "--no-coverage")["findings"]
    # The file has changed since: what was compiled is known by its name.
    (tmp_path / "plain.py").write_text("import os\n" + PLAIN)
    document = json.loads(run_here("lint", "plain.py", "--recording", "--format", "json").stdout)
    assert [one["fingerprint"] for one in document["findings"]] == [
        one["fingerprint"] for one in seen
    ]
    assert document["findings"][0]["location"]["line"] == seen[0]["location"]["line"] + 1
    assert (
        document["recording"]
        == f".graphdoctor/{(tmp_path / '.graphdoctor' / 'last').read_text().strip()}"
    )
    assert (
        f"note: also checks functions seen in the last run ({document['recording']})"
        in run_here("lint", "plain.py", "--recording").stdout
    )
    done = run_here("lint", "plain.py")
    assert (done.returncode, "note" in done.stdout) == (0, False)


@pytest.mark.slow
def test_lint_passes_where_the_gate_passes(tmp_path: Path, run_here: RunHere) -> None:
    (tmp_path / "net.py").write_text(
        BAD + "\n\ndef example_inputs():\n    return (torch.ones(4),)\n"
    )
    (tmp_path / "pyproject.toml").write_text(
        '[[tool.graphdoctor.targets]]\ntarget = "net.py:step"\n'
    )
    assert run_here("lint", "net.py").returncode == 1
    assert run_here("baseline").returncode == 0
    assert run_here("check").returncode == 0
    done = run_here("lint", "net.py")
    assert (done.returncode, done.stdout) == (
        0,
        "No new findings in 1 compiled function of 1 file, 2 in the baseline.\n",
    )


def test_without_files_those_of_the_configured_targets_are_linted(
    tmp_path: Path, run_here: RunCli
) -> None:
    (tmp_path / "model.py").write_text(BAD)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "net.py").write_text(BAD)
    (tmp_path / "other.py").write_text(BAD)
    run_here("lint", status=2)
    targets = ("model.py:step", "package.net:step", "package.missing:step")
    text = "".join(f'[[tool.graphdoctor.targets]]\ntarget = "{target}"\n' for target in targets)
    (tmp_path / "pyproject.toml").write_text(text)
    found = json.loads(run_here("lint", "--format", "json", status=1).stdout)["findings"]
    assert {finding["location"]["file"] for finding in found} == {"model.py", "package/net.py"}
