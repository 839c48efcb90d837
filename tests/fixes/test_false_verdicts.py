"""Programs on which a fix looks good and isn't: each gets the verdict that says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import run_command
from tests.sections import texts_beside

pytestmark = pytest.mark.slow

NOISE, SCALE, LOOP, HEAD, NET, TRAIN = texts_beside(__file__)
INPUTS = "\n\ndef example_inputs():\n    return torch.randn(4, 8)\n"


def in_class(forward: str) -> str:
    return f"{HEAD}\n\n{NET}\n{forward}{INPUTS}"


def treated(folder: Path, text: str, *arguments: str, target: str = "Net") -> dict[str, Any]:
    (folder / "model.py").write_text(text)
    done = run_command("fix", f"model.py:{target}", "--unsafe-fixes", *arguments, "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def fixes_of(document: dict[str, Any], word: str) -> list[dict[str, Any]]:
    found = [
        case for case in document["recording"]["treatment"]["tried"] if word in (case["snippet"] or "") + case["title"]
    ]
    assert found
    return found


def test_what_torch_compile_changes_by_itself_leaves_every_fix_unproven(tmp_path: Path) -> None:
    document = treated(tmp_path, in_class(NOISE), "--no-timing")
    tried = document["recording"]["treatment"]["tried"]
    assert {case["verdict"] for case in tried} == {"unproven"}
    assert all("torch.compile changes outputs and gradients even without the fix" in case["reason"] for case in tried)
    assert not any(finding["is_mended"] for finding in document["findings"])


def test_a_break_that_comes_back_on_the_next_line_has_moved(tmp_path: Path) -> None:
    document = treated(tmp_path, in_class(SCALE), "--no-timing")
    [case] = fixes_of(document, "capture_scalar_outputs")
    assert (case["verdict"], case["is_applied"]) == ("moved", False)
    assert "(GB0170) instead" in case["reason"]
    [finding] = [found for found in document["findings"] if found["code"] == "GD103"]
    is_gone = any(one["verdict"] == "verified" for one in finding["fixes"])
    assert finding["is_mended"] is is_gone


def test_a_fix_that_silences_a_log_says_so(tmp_path: Path) -> None:
    document = treated(tmp_path, in_class(LOOP), "--no-timing")
    verified = [case for case in document["recording"]["treatment"]["tried"] if case["verdict"] == "verified"]
    assert verified
    for case in verified:
        kinds = {difference["kind"] for difference in case["compared"]["differences"]}
        assert kinds in (set(), {"logs", "stderr"})
        reason = "the compiled program logs 0 of 3 lines; the first missing one: 'WARNING net: layer 0'"
        assert (reason in (case["reason"] or "")) is bool(kinds)


@pytest.mark.nightly
def test_an_edit_that_leaves_the_optimizer_s_step_to_eager_mode_is_not_written(tmp_path: Path) -> None:
    document = treated(tmp_path, f"{HEAD}\n\n{TRAIN}", "--no-timing", "--apply", target="train_step")
    before, after = document["recording"]["treatment"]["before"], document["recording"]["treatment"]["after"]
    applied = [case for case in document["recording"]["treatment"]["tried"] if case["is_applied"]]
    assert all(case["after"]["coverage"] > case["before"]["coverage"] - 0.01 for case in applied)
    assert after is None or after["coverage"] > before["coverage"] - 0.01
    for case in document["recording"]["treatment"]["tried"]:
        if case["after"] and case["after"]["coverage"] < 0.5 < before["coverage"]:
            assert (case["verdict"], case["is_applied"]) == ("makes it worse", False)
    if not applied:
        assert (tmp_path / "model.py").read_text() == f"{HEAD}\n\n{TRAIN}"
