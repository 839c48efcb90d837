"""Every break site of the sample models ends with a fix that works, or the guide to fix says which
does not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPOSITORY, run_command

SITES = {
    "break_in_try": (1, 0),
    "break_under_with": (0, 1),
    "data_dependent_branch": (1, 0),
    "deepcopy_state": (1, 0),
    "disabled_call": (1, 0),
    "explicit_graph_break": (1, 0),
    "hidden_second_break": (3, 0),
    "image_filter": (1, 0),
    "item": (1, 0),
    "logger_call": (1, 0),
    "nonzero": (1, 0),
    "numpy_roundtrip": (1, 0),
    "print_in_forward": (1, 0),
    "print_in_helper": (1, 0),
    "print_in_loop": (1, 0),
    "training_step": (0, 3),
    "warn_call": (1, 0),
}
"""By sample how many break sites go away, and are left as they are."""


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
    done = run_command(
        "fix", "model.py", "--unsafe-fixes", "--no-timing", "--format", "json", cwd=tmp_path
    )
    document: dict[str, Any] = json.loads(done.stdout)
    treatment = document["recording"]["treatment"]
    gone, left = SITES[name]
    verified = {
        case["fingerprint"]
        for case in treatment["tried"]
        if case["verdict"] == "verified" and case["is_applied"] and case["code"].startswith("GD1")
    }
    assert len([finding for finding in treatment["left"] if finding["code"] != "GD111"]) == left
    if left:
        assert treatment["after"] is None
        assert {"makes it worse", "unproven"}.intersection(
            case["verdict"] for case in treatment["tried"]
        )
        return
    assert len(verified) >= gone
    assert treatment["after"]["break_sites"] == 0
