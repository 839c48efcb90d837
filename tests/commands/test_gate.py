"""``check`` and ``baseline`` as a user has them, from red to green and back; test_bad_gate has what
starts no probe."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import CLEAN_TARGET, clean_environment, run_command
from tests.each import at_night

pytestmark = pytest.mark.slow

PRINTS = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        x = torch.relu(x)
        print("seen")
        return x + 1


def example_inputs():
    return (torch.randn(4),)
"""
SETTINGS = """\
[[tool.graphdoctor.targets]]
name = "clean"
target = "my models/clean.py"

[[tool.graphdoctor.targets]]
name = "prints"
target = "my models/prints.py"
"""


class Project:
    """A project of two targets, and the commands run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.models = folder / "my models"
        self.models.mkdir()
        (self.models / "clean.py").write_text(CLEAN_TARGET)
        self.prints(PRINTS)
        (folder / "pyproject.toml").write_text(SETTINGS)

    @property
    def baseline(self) -> Path:
        return self.folder / "graphdoctor-baseline.json"

    def prints(self, text: str) -> None:
        (self.models / "prints.py").write_text(text)

    def run(self, *args: object, cwd: Path | None = None) -> Any:
        return run_command(*args, cwd=cwd or self.folder)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_a_project_from_red_to_green_and_back(project: Project) -> None:
    red = project.run("check", "--output", "json=check.json")
    assert red.returncode == 1, red.stderr
    assert re.search(r"clean +passed", red.stdout)
    assert re.search(r"prints +failed +1 ", red.stdout)
    assert "--> my models/prints.py:7:9 in Net.forward" in red.stdout
    assert "graphdoctor baseline accepts the current findings" in red.stdout
    assert "Checking prints (2 of 2)" in red.stderr
    document = json.loads((project.folder / "check.json").read_text())
    assert [target["state"] for target in document["targets"]] == ["passed", "failed"]

    written = project.run("baseline", "prints")
    assert written.returncode == 0, written.stderr
    assert (
        "prints: 1 finding added, 0 dropped\n  + GD101 my models/prints.py Net.forward"
        in written.stdout
    )
    assert "Next: graphdoctor check prints" in written.stderr
    before = project.baseline.read_bytes()
    (torch,) = json.loads(before)["targets"]["prints"]

    # One break more, above the known one, whose line moves; from a folder below, by name.
    more = PRINTS.replace(
        "        x = torch.relu(x)\n", "        x = torch.relu(x)\n        print('new')\n"
    )
    project.prints(more)
    red = project.run("check", "prints", "-q", cwd=project.models)
    assert red.returncode == 1, red.stderr
    assert re.search(r"prints +failed +1 .*1 known", red.stdout)
    assert "--> my models/prints.py:7:9" in red.stdout
    assert "prints.py:8" not in red.stdout
    refused = project.run("baseline")
    assert (refused.returncode, project.baseline.read_bytes()) == (2, before)
    assert "--update" in refused.stderr

    # Both gone: one was never known, the other is fixed until the file says so. The other target
    # has gone too.
    (project.folder / "pyproject.toml").write_text(SETTINGS[SETTINGS.rindex("[[") :])
    project.prints(CLEAN_TARGET + "\n\n# graphdoctor: ignore[GD101] long ago\n")
    green = project.run("check", "-q")
    assert green.returncode == 0, green.stderr
    assert "1 fixed" in green.stdout
    assert "GD101  my models/prints.py in Net.forward" in green.stdout
    assert "my models/prints.py:13 ignore[GD101] matches no finding" in green.stdout
    assert "graphdoctor baseline --update removes the fixed findings." in green.stdout
    assert (
        "prints: 0 findings added, 1 dropped"
        in project.run("baseline", "--update", "-q", "prints").stdout
    )
    assert json.loads(project.baseline.read_text())["targets"] == {"prints": {torch: []}}


@pytest.mark.parametrize(
    ("line", "variable", "why"),
    [
        ("", "TORCH_COMPILE_DISABLE", "TORCH_COMPILE_DISABLE is set."),
        at_night("", "TORCHDYNAMO_DISABLE", "TORCHDYNAMO_DISABLE is set."),
        ("torch._dynamo.config.disable = True", None, "torch._dynamo.config.disable is True."),
        (
            'torch.compiler.set_stance("force_eager")',
            None,
            'torch.compiler.set_stance("force_eager") is in effect.',
        ),
        ("torch.compile = lambda model, **_: model", None, "prints.py:3) replaced torch.compile."),
    ],
)
def test_disabled_torch_compile_fails_and_writes_no_baseline(
    project: Project, line: str, variable: str | None, why: str
) -> None:
    project.run("baseline", "prints", "-q")
    before = project.baseline.read_bytes()
    project.prints(PRINTS.replace("import torch\n", f"import torch\n\n{line}\n", 1))
    environment = clean_environment() | ({variable: "1"} if variable else {})
    off = run_command(
        "check",
        "prints",
        "-q",
        cwd=project.folder,
        env=environment,
        is_forked=not variable,
        status=2,
    )
    assert f"torch.compile {'compiled nothing' if 'replaced' in why else 'was off'}:" in " ".join(
        off.stdout.split()
    )
    assert why.replace(" ", "") in "".join(off.stdout.split())
    refused = run_command(
        "baseline",
        "--update",
        "prints",
        "-q",
        cwd=project.folder,
        env=environment,
        is_forked=not variable,
    )
    assert (refused.returncode, project.baseline.read_bytes()) == (2, before)
    assert "--allow-empty" in refused.stderr


def test_run_without_compiles_fails_until_allowed(project: Project) -> None:
    project.run("baseline", "prints", "-q")
    project.prints(
        PRINTS.replace("    def forward", "    @torch.compiler.disable\n    def forward")
    )
    empty = project.run("check", "prints", "-q")
    assert empty.returncode == 1, empty.stdout
    shown = " ".join(empty.stdout.split())
    assert "Nothing was compiled: no graph reached the backend; the baseline has 2 graphs" in shown
    assert project.run("baseline", "--update", "prints", "-q").returncode == 2
    allowed = project.run("baseline", "--update", "--allow-empty", "prints", "-q")
    assert allowed.returncode == 0, allowed.stderr
    assert "graphs: 2 → 0" in allowed.stdout
    assert "coverage: 100% → 0%" in allowed.stdout
    assert project.run("check", "prints", "-q").returncode == 0


STEP = """\
import torch


class Timed:
    def __enter__(self):
        pass

    def __exit__(self, *error):
        pass


class Net(torch.nn.Module):
    def step(self, x):
        for _ in range(1):
            print("seen")
        return x + 1

    def forward(self, x):
        x = torch.relu(x)
        x = self.step(x)
        return x * 2


def example_inputs():
    return (torch.randn(4),)
"""


def test_a_known_finding_that_skips_one_more_function_fails(project: Project) -> None:
    project.prints(STEP)
    project.run("baseline", "prints", "-q")
    green = project.run("check", "prints", "-q")
    assert green.returncode == 0, green.stdout
    project.prints(
        STEP.replace(
            "        x = self.step(x)", "        with Timed():\n            x = self.step(x)"
        )
    )
    worse = project.run("check", "prints", "-q")
    shown = " ".join(worse.stdout.split())
    assert worse.returncode == 1, worse.stdout
    assert "2 worse, 2 known" in shown
    assert "Worse in prints" in shown
    assert "torch skips `Net.forward` now, unlike in the baseline" in shown
    assert (
        "coverage is 0% (3 of 3 operations run eagerly); in the baseline it is 67% (1 of 3)"
        in shown
    )


def test_what_crashes_is_never_green_and_never_written_down(project: Project) -> None:
    project.prints(PRINTS.replace('print("seen")', 'raise ValueError("no luck")'))
    (project.folder / "pyproject.toml").write_text(
        SETTINGS + '\n[[tool.graphdoctor.targets]]\nname = "gone"\ntarget = "gone.py"\n'
    )
    crashed = project.run("check", "prints", "gone", "--fail-on", "never", "-q")
    assert crashed.returncode == 2
    shown = " ".join(crashed.stdout.split())
    assert re.search(r"crashed The program failed in call 1, at .*:\d+: ValueError: no luck", shown)
    assert "crashed  There is no file gone.py." in crashed.stdout
    assert "2 targets crashed" in crashed.stdout
    refused = project.run("baseline", "gone", "-q")
    assert (refused.returncode, project.baseline.exists()) == (2, False)
    assert "error: gone: There is no file gone.py." in refused.stderr


def test_a_target_without_configuration_is_held_to_budgets(tmp_path: Path) -> None:
    (tmp_path / "prints.py").write_text(
        PRINTS.replace('print("seen")', 'print("seen")  # graphdoctor: ignore[GD101] wanted')
    )
    found = run_command(
        "check",
        "prints.py",
        "--max-breaks",
        0,
        "--min-coverage",
        1,
        "--format",
        "json",
        cwd=tmp_path,
        status=1,
    )
    (target,) = json.loads(found.stdout)["targets"]
    assert [
        (budget["name"], budget["value"], budget["is_kept"]) for budget in target["budgets"]
    ] == [("max-breaks", 1, False), ("min-coverage", 1, True)]
    assert [(item["by"], item["reason"]) for item in target["ignored"]] == [("comment", "wanted")]
    assert (target["name"], target["new"]) == ("prints.py", [])
