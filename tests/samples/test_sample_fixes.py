"""Every break site of the sample models ends with a fix that works, or the guide to fix says which does not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, run_command

SITES = {
    "break_in_try": (1, 0, 0),
    "break_under_with": (0, 1, 0),
    "data_dependent_branch": (1, 0, 0),
    "deepcopy_state": (1, 0, 0),
    "disabled_call": (1, 0, 0),
    "explicit_graph_break": (1, 0, 0),
    "hidden_second_break": (3, 0, 0),
    "item": (1, 0, 0),
    "logger_call": (1, 0, 0),
    "nonzero": (1, 0, 0),
    "numpy_roundtrip": (1, 0, 0),
    "print_in_forward": (1, 0, 0),
    "print_in_helper": (1, 0, 0),
    "print_in_loop": (1, 0, 0),
    "training_step": (0, 0, 3),
    "warn_call": (1, 0, 0),
}
"""By sample how many break sites go away, stay with less running eagerly because of them, and are left as they are."""


def test_the_guide_to_fix_has_the_numbers() -> None:
    gone, contained, left = (sum(counts) for counts in zip(*SITES.values(), strict=True))
    text = " ".join((REPOSITORY / "docs" / "guide" / "fix.md").read_text().split())
    said = re.search(r"have (\d+) break sites in \d+ programs.*?: (\d+) go away, (\d+) stays.*? The (\d+) of", text)
    assert said is not None
    assert [int(number) for number in said.groups()] == [gone + contained + left, gone, contained, left]


def test_every_sample_with_a_break_is_listed() -> None:
    broken = {
        path.stem
        for path in (REPOSITORY / "sample_models").glob("*.py")
        if not re.search(r"break_sites=0", path.read_text())
    }
    assert broken == SITES.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", SITES)
def test_every_break_site_ends_as_listed(tmp_path: Path, name: str) -> None:
    text = (REPOSITORY / "sample_models" / f"{name}.py").read_text()
    (tmp_path / "model.py").write_text(text)
    done = run_command("fix", "model.py", "--unsafe-fixes", "--no-timing", "--format", "json", cwd=tmp_path)
    document: dict[str, Any] = json.loads(done.stdout)
    treatment = document["recording"]["treatment"]
    gone, contained, others = SITES[name]
    verified = {
        case["fingerprint"]
        for case in treatment["tried"]
        if case["verdict"] in ("verified", "contained") and case["is_applied"] and case["code"].startswith("GD1")
    }
    left = [finding for finding in treatment["left"] if finding["code"] not in ("GD111",)]
    assert len(left) == contained + others
    assert len(verified) >= gone + contained
    if others:
        assert treatment["after"] is None
        assert "makes it worse" in {case["verdict"] for case in treatment["tried"]}
        return
    assert treatment["after"]["break_sites"] == contained
    if contained:
        assert treatment["after"]["coverage"] > treatment["before"]["coverage"] + 0.5
    assert {difference["kind"] for difference in treatment["compared"]["differences"]} <= {"stdout", "logs", "stderr"}
