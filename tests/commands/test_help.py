"""What ``--help`` says: headings, examples that run, and nothing cut off in a narrow terminal."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from graphdoctor.commands.app import HEADINGS, command_of
from graphdoctor.commands.commands import COMMANDS, FOR_TOOLS, NAMES, overview
from graphdoctor.fixes.patch import unified
from tests.conftest import CLEAN_TARGET, RunCli, clean_environment, run_command
from tests.each import at_night

PROJECT = '[tool.graphdoctor]\n[[tool.graphdoctor.targets]]\nname = "net"\ntarget = "model.py"\n'
SCRIPT = """\
import sys
import torch

assert sys.argv[1:] in ([], ["--epochs", "2"])
torch.compile(torch.sin, backend="eager")(torch.ones(3))
"""
TRAINED = """\
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

"""
IS_GATE = {"accuracy", "check", "try"}
"""Exits with 1 where it finds something, or where nothing is gained."""


EXAMPLES: dict[str, list[str]] = {
    command: re.findall(r"^ +(graphdoctor .*): ", command_of(command).__doc__ or "", re.MULTILINE)
    for command in NAMES
}
SUMMARIES = {
    name: summary for group in (*COMMANDS.values(), FOR_TOOLS) for name, summary in group.items()
}
IS_LONG = {"accuracy", "cure", "survey", "bench", "fix", "export"}
"""Their own tests run them; their examples wait for the night, as all second ones do."""


@pytest.mark.parametrize("command", NAMES)
def test_help_fits_two_screens_and_counts_hidden_options(run_here: RunCli, command: str) -> None:
    short, whole = (
        run_here(command, option, env=clean_environment(COLUMNS="80")).stdout
        for option in ("--help", "--help-all")
    )
    assert short.count("\n") <= 50
    flags = [re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.MULTILINE) for text in (short, whole)]
    assert {*flags[0]} <= {*flags[1]}
    more = re.search(r"^(\d+) more options?: --help-all$", short, re.MULTILINE)
    assert len(flags[1]) - len(flags[0]) == (int(more[1]) if more else 0)


@pytest.mark.parametrize("command", NAMES)
def test_help_has_headings_and_examples_and_is_not_cut_off(run_here: RunCli, command: str) -> None:
    assert len(EXAMPLES[command]) == 2
    for width in (60, 80):
        done = run_here(command, "--help-all", env=clean_environment(COLUMNS=str(width)))
        lines = done.stdout.splitlines()
        assert f"graphdoctor {command}" in done.stdout
        assert max(map(len, lines)) <= width
        assert SUMMARIES[command] in " ".join(done.stdout.split())
        assert "…" not in done.stdout.replace("name=…", "")
        assert "..." not in done.stdout.replace("]...", "")
        assert "<str>" not in done.stdout
        assert "<list[" not in done.stdout
        for example in EXAMPLES[command]:
            assert any(line.startswith(f"  {example}") for line in lines)
        heading, found = "", {}
        for line in lines:
            if re.fullmatch(r"\S.*:", line):
                heading = line[:-1]
            elif flags := re.match(r"  (-\S.*?)(?:  |$)", line):
                found |= dict.fromkeys(re.findall(r"(?<!\S)--?[a-z][a-z-]*", flags[1]), heading)
        assert found["--help"] == "Help"
        assert {*found.values()} <= {*HEADINGS}


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_overview_fits_and_is_whole(run_here: RunCli, width: int) -> None:
    text = run_here("--help", env=clean_environment(COLUMNS=str(width))).stdout
    assert text == overview(min(width, 80))
    assert max(map(len, text.splitlines())) <= min(width, 80)
    assert " ".join(text.split()).count("…") == 0
    for group in COMMANDS.values():
        for summary in group.values():
            assert summary in " ".join(text.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "example",
    [
        at_night(example) if number or command in IS_LONG else example
        for command, examples in EXAMPLES.items()
        for number, example in enumerate(examples)
    ],
)
def test_each_example_runs_as_it_stands(project: Path, tmp_path: Path, example: str) -> None:
    _, command, *rest = shlex.split(example)
    folder = shutil.copytree(project, tmp_path / "project")
    for file, without in (("pyproject.toml", "init"), ("graphdoctor-baseline.json", "baseline")):
        if command == without and "--update" not in rest:
            (folder / file).unlink()
    done = run_command(command, *rest, cwd=folder, is_brief=True)
    assert done.returncode in ((0, 1) if command in IS_GATE else (0,)), done.stdout + done.stderr
    assert done.stdout or done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder under git with a model, a script, a section, a baseline, and a run."""
    folder = tmp_path_factory.mktemp("project")
    speaking = CLEAN_TARGET.replace("return", "print(1)\n        return", 1)
    # A training step needs something to train.
    speaking = speaking.replace("(x) + 1", "(x) + self.weight").replace(
        "    def forward", TRAINED + "    def forward"
    )
    (folder / "model.py").write_text(speaking)
    guarded = speaking.replace(
        "print(1)", "if not torch.compiler.is_compiling():\n            print(1)"
    )
    (folder / "PATCH.diff").write_text(unified(speaking.encode(), guarded.encode(), "model.py"))
    (folder / "train.py").write_text(SCRIPT)
    (folder / "pyproject.toml").write_text(PROJECT)
    for command in ("init", "add .", "-c user.name=a -c user.email=a@b commit -m x"):
        subprocess.run(["git", *command.split()], cwd=folder, check=True, capture_output=True)
    for arguments in (
        ("explain", "model.py", "-o", "before.json"),
        ("baseline",),
        ("keep", "nightly"),
    ):
        run_command(*arguments, cwd=folder, status=0)
    shutil.copy(folder / "before.json", folder / "after.json")
    shutil.copytree(next((folder / ".graphdoctor").glob("*/trace")), folder / "logs")
    return folder
