"""docs/ci.md, followed word by word in a fresh repository: from nothing to a green gate, to a red
one, and back."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.conftest import CLEAN_TARGET, REPOSITORY, clean_environment, command_folder

PAGE = (REPOSITORY / "docs" / "ci.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)
WORKFLOW = yaml.safe_load(next(text for language, text in BLOCKS if language == "yaml"))
STEPS = {step["name"]: step for step in WORKFLOW["jobs"]["compiled"]["steps"] if "run" in step}
FIRST, COMMIT = [text for language, text in BLOCKS if language == "console"]


@pytest.fixture
def shell(tmp_path):
    """Runs a script as a workflow's step does, in a repository whose path has a space."""
    repository = tmp_path / "my project"
    repository.mkdir()
    environment = clean_environment(
        PATH=os.pathsep.join(
            [str(command_folder()), str(Path(sys.executable).parent), os.environ["PATH"]]
        ),
        GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"),
        GIT_CONFIG_GLOBAL=os.devnull,
    )

    def run(script: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=repository,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    run.repository = repository
    run.summary = tmp_path / "summary.md"
    made = run(
        "git init -q && git config user.name Test && git config user.email test@example.invalid"
    )
    assert made.returncode == 0, made.stderr
    # Python's own, when it imports the model.
    (repository / ".git" / "info" / "exclude").write_text("__pycache__/\n")
    return run


def test_only_installation_steps_cannot_run_here() -> None:
    assert list(STEPS) == ["Install", "Check", "Summarise"]
    assert "graphdoctor" in STEPS["Install"]["run"]


@pytest.mark.slow
def test_new_gate_fails_on_a_break_until_it_goes(shell) -> None:
    model = shell.repository / "model.py"
    model.write_text(CLEAN_TARGET)
    (shell.repository / "requirements.txt").write_text("torch\n")

    found = shell(FIRST)
    assert found.returncode == 0, found.stderr
    found = shell("git add model.py requirements.txt\n" + COMMIT)
    assert found.returncode == 0, found.stderr
    assert shell("git status --porcelain").stdout == ""

    broken = CLEAN_TARGET.replace("        return", '        print("a new break")\n        return')
    model.write_text(broken)
    found = shell(STEPS["Check"]["run"])
    assert found.returncode == 1, found.stderr
    line = 1 + broken.splitlines().index('        print("a new break")')
    assert re.search(
        rf"^::warning file=model.py,line={line},.*GD101", found.stdout, re.MULTILINE
    ), found.stdout
    for file in ("graphdoctor.sarif", "graphdoctor.xml", "graphdoctor.md"):
        assert "GD101" in (shell.repository / file).read_text()
    assert shell(STEPS["Summarise"]["run"]).returncode == 0
    assert "GD101" in shell.summary.read_text()

    model.write_text(CLEAN_TARGET)
    found = shell(STEPS["Check"]["run"])
    assert found.returncode == 0, found.stdout
    assert not re.search(r"^::(error|warning)", found.stdout, re.MULTILINE)
