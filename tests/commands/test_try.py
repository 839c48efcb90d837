"""``graphdoctor try``: edits that others wrote are tried as our own are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import run_command
from tests.factories import why

pytestmark = pytest.mark.slow

MODEL = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.w = torch.nn.Parameter(torch.ones(8))

    def forward(self, x):
        h = self.linear(x)
        rows = [[v * 2 for v in row] for row in x.tolist()]
        y = torch.tensor(rows) * self.w
        return torch.relu(h) + y

    def unused(self, x):
        return x + 1


model = Net()
example_inputs = (torch.randn(4, 8),)
"""
OLD = """\
-        rows = [[v * 2 for v in row] for row in x.tolist()]
-        y = torch.tensor(rows) * self.w
"""


def diff(*new: str, old: str = OLD) -> str:
    return (
        "--- a/model.py\n+++ b/model.py\n@@ -12,2 +12,1 @@\n"
        + old
        + "".join(f"+{line}\n" for line in new)
    )


GOOD = diff("        y = (x * 2) * self.w")
DETACHED = diff("        y = (x * 2) * self.w.detach()")
FAILING = diff("        y = (x * 2) * self.v")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def tried(folder: Path, patch: str, *options: str, status: int) -> tuple[dict[str, Any], str]:
    """The verdict, and what was said on standard error."""
    (folder / "my edit.diff").write_text(patch)
    done = run_command(
        "try",
        "my edit.diff",
        "model.py",
        "--no-timing",
        "--format",
        "json",
        *options,
        cwd=folder,
        status=status,
    )
    document: dict[str, Any] = json.loads(done.stdout)["recording"]["treatment"]
    return document, done.stderr


def test_a_patch_that_holds(folder: Path) -> None:
    treatment, _ = tried(folder, GOOD, status=0)
    patch = treatment["patch"]
    assert (patch["verdict"], why(patch), patch["name"]) == ("verified", None, "my edit.diff")
    assert (treatment["before"]["break_sites"], patch["after"]["break_sites"]) == (1, 0)
    assert patch["sites_gone"] == ["model.py:12 (GB0109)"]
    assert patch["attacked"]["count"] > 5
    assert patch["compared"]["differences"] == []
    assert (folder / "model.py").read_text() == MODEL
    shown = run_command("report", cwd=folder).stdout
    assert "my edit.diff holds (one graph): same outputs, gradients" in shown
    assert "Next: graphdoctor try 'my edit.diff' model.py --no-timing --apply" in shown
    assert "try" in run_command("list", cwd=folder).stdout
    _, said = tried(folder, GOOD, "--apply", status=0)
    assert "Wrote" in said
    assert (folder / "model.py").read_text() == MODEL.replace(
        OLD.replace("-  ", "  "), "        y = (x * 2) * self.w\n"
    )
    # It doesn't fit twice.
    again = run_command("try", "my edit.diff", "model.py", cwd=folder, status=2)
    assert "The patch can't be tried: hunk 1 of model.py doesn't fit: line 12 is" in again.stderr


@pytest.mark.parametrize(
    ("patch", "verdict", "reason"),
    [
        (DETACHED, "changes results", "call 1, gradient of w: None instead of f32[8]"),
        (FAILING, "failed", "model.py:12: AttributeError: 'Net' object has no attribute 'v'"),
        # Right for the call that was made, and for no input with a NaN.
        (diff("        y = torch.nan_to_num(x * 2) * self.w"), "changes results", "when x"),
        (
            diff("        y = torch.tensor([[2 * v for v in row] for row in x.tolist()]) * self.w"),
            "no effect",
            "better",
        ),
        (
            diff("        return x + 2 - 1", old="-        return x + 1\n"),
            "no effect",
            "nothing that torch compiles is better",
        ),
    ],
    ids=["gradients", "fails", "nan", "no effect", "not run"],
)
def test_a_patch_that_does_not_hold(folder: Path, patch: str, verdict: str, reason: str) -> None:
    treatment, _ = tried(folder, patch, "--apply", status=1)
    assert treatment["patch"]["verdict"] == verdict
    assert reason in (why(treatment["patch"]) or "")
    assert treatment["after"] is None
    assert (folder / "model.py").read_text() == MODEL
    if "x + 2 - 1" in patch:
        assert treatment["patch"]["lines_not_run"] == ["model.py:17"]


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("I would drop the list.", "it holds no diff"),
        (GOOD.replace("row in x.tolist()", "row in y.tolist()"), "hunk 1 of model.py doesn't fit"),
        (GOOD.replace("model.py", "models.py"), "there is no file models.py"),
    ],
)
def test_a_patch_that_does_not_apply_runs_nothing(folder: Path, patch: str, said: str) -> None:
    (folder / "patch.diff").write_text(patch)
    done = run_command("try", "patch.diff", "model.py", cwd=folder, status=2)
    assert f"The patch can't be tried: {said}" in done.stderr
    assert not (folder / ".graphdoctor").exists()
    assert (
        "can't be read: No such file"
        in run_command("try", "no.diff", "model.py", cwd=folder, status=2).stderr
    )
