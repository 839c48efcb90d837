"""The hooks under the real pre-commit, in a repository of their own, without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, clean_environment
from tests.sections import texts_beside

pytest.importorskip("pre_commit")

MODEL, HELPER, USER = texts_beside(__file__)


def _git(folder: Path, *args: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *args],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One with graphdoctor's console script on its path, and nobody's git or pre-commit
    settings."""
    scripts = tmp_path / "bin"
    scripts.mkdir()
    for name, main in (("graphdoctor-lint", "main_lint"), ("graphdoctor", "main")):
        script = scripts / name
        script.write_text(
            f"#!/bin/sh\nexec '{sys.executable}' -c 'from graphdoctor.commands import {main}; {main}()' \"$@\"\n"
        )
        script.chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    names = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
    return clean_environment(
        PATH=f"{scripts}{os.pathsep}{os.environ['PATH']}",
        HOME=str(home),
        PRE_COMMIT_HOME=str(home / "pre-commit"),
        GIT_CONFIG_NOSYSTEM="1",
        **{f"GIT_{name}": "tester" for name in names},
    )


@pytest.fixture
def repository(tmp_path: Path, environment: dict[str, str]) -> Path:
    """A project whose .pre-commit-config.yaml names the hooks of this one."""
    hooks = tmp_path / "graphdoctor hooks"
    project = tmp_path / "my project"
    for folder in (hooks, project):
        folder.mkdir()
        _git(folder, "init", "-q", env=environment)
    shutil.copy(REPOSITORY / ".pre-commit-hooks.yaml", hooks)
    _git(hooks, "add", "-A", env=environment)
    _git(hooks, "commit", "-qm", "hooks", env=environment)
    revision = _git(hooks, "rev-parse", "HEAD", env=environment).stdout.strip()
    (project / ".pre-commit-config.yaml").write_text(
        f"repos:\n  - repo: '{hooks}'\n    rev: {revision}\n    hooks:\n      - id: graphdoctor-lint\n"
        "      - id: graphdoctor-check\n        stages: [manual]\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "pre_commit", "install"],
        cwd=project,
        env=environment,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return project


@pytest.mark.slow
def test_a_print_in_a_compiled_forward_is_not_committed(
    repository: Path, environment: dict[str, str]
) -> None:
    path = repository / "the models" / "my net.py"
    path.parent.mkdir()
    path.write_text(MODEL)
    (repository / "notes.txt").write_text("nothing for the hook\n")
    _git(repository, "add", "-A", env=environment)
    red = _git(repository, "commit", "-m", "a print", env=environment)
    said = red.stdout + red.stderr
    assert red.returncode == 1, said
    assert "graphdoctor lint" in said and "Failed" in said
    assert "the models/my net.py:6:9: GD101" in said
    path.write_text(MODEL.replace('        print("forward")\n', ""))
    _git(repository, "add", "-A", env=environment)
    green = _git(repository, "commit", "-m", "no print", env=environment)
    assert green.returncode == 0, green.stdout + green.stderr
    assert "Passed" in green.stdout + green.stderr
    (repository / "notes.txt").write_text("no Python is staged\n")
    skipped = _git(repository, "commit", "-am", "notes", env=environment)
    assert skipped.returncode == 0
    assert "Skipped" in skipped.stdout + skipped.stderr


@pytest.mark.slow
def test_the_gate_runs_where_a_staged_file_reaches_a_target(
    repository: Path, environment: dict[str, str]
) -> None:
    def gate(*files: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-m",
            "pre_commit",
            "run",
            "graphdoctor-check",
            "--hook-stage",
            "manual",
            "-v",
        ]
        _git(repository, "add", "-A", env=environment)
        return subprocess.run(
            [*command, "--files", *files],
            cwd=repository,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    # Python's compiled files, which a run writes, are nothing to commit.
    (repository / ".gitignore").write_text("__pycache__/\n")
    (repository / "net.py").write_text(USER)
    (repository / "helper.py").write_text(HELPER)
    (repository / "unrelated.py").write_text("x = 1\n")
    (repository / "pyproject.toml").write_text(
        '[[tool.graphdoctor.targets]]\nname = "net"\ntarget = "net.py"\n'
    )

    skipped = gate("unrelated.py")
    assert skipped.returncode == 0, skipped.stdout
    assert "No targets ran: 1 target skipped" in skipped.stdout

    (repository / "helper.py").write_text(
        HELPER.replace("    return", '    print("doubling")\n    return')
    )
    red = gate("helper.py", "unrelated.py")
    assert red.returncode == 1, red.stdout
    assert "GD101" in red.stdout and "helper.py:2" in red.stdout

    (repository / "helper.py").write_text(HELPER)
    green = gate("helper.py")
    assert green.returncode == 0, green.stdout
