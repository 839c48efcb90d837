"""Whole programs: every recompile that torch tells of has a cause in words, and there are as
many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import clean_environment, run_command, run_script
from tests.sections import written

pytestmark = pytest.mark.slow

CHANGES = Path(__file__).with_name("changes.txt")


def recorded(program: str, folder: Path) -> dict[str, Any]:
    process = run_command(
        "run",
        "--report",
        "out.json",
        "-q",
        written(CHANGES, program, folder),
        cwd=folder,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr
    return json.loads((folder / "out.json").read_text())


def said_by_torch(program: str, folder: Path) -> int:
    """Recompiles that TORCH_LOGS tells of in a run of its own."""
    environment = clean_environment(TORCH_LOGS="recompiles")
    return run_script(written(CHANGES, program, folder), cwd=folder, env=environment).stderr.count(
        "Recompiling function"
    )


def check(program: str, folder: Path) -> dict[str, Any]:
    document = recorded(program, folder)
    caused = [item for item in document["recording"]["compiles"] if item["cause"] is not None]
    assert len(caused) == said_by_torch(program, folder)
    assert sum(len(report["compile_ids"]) for report in document["recompiles"]) == sum(
        item["outcome"] in ("compiled", "limit") for item in caused
    )
    for report in document["recompiles"]:
        assert report["is_exact"], report
        assert report["cause"], report
        assert all(change["kind"] != "unknown" for change in report["cause"]), report
    assert not [finding for finding in document["findings"] if finding["code"] == "GD200"]
    return document


def test_a_training_loop(tmp_path: Path) -> None:
    document = check("training", tmp_path)
    rates = [
        report for report in document["recompiles"] if "'lr'" in report["cause"][0]["expression"]
    ]
    assert [(item["old"], item["new"]) for item in rates[0]["cause"]] == [("0.5", "0.25")]
    flips = [
        report
        for report in document["recompiles"]
        if any(c["kind"] == "training" for c in report["cause"])
    ]
    assert {change["kind"] for change in flips[0]["cause"]} == {"training", "grad_mode"}
    assert flips[0]["call_site"]["line"] == 29
    assert {"GD204", "GD212"} <= {finding["code"] for finding in document["findings"]}


def test_a_decorated_forward_has_its_own_name(tmp_path: Path) -> None:
    document = check("decorated", tmp_path)
    frames = document["recording"]["frames"]
    assert [(frame["qualname"], frame["wraps"]) for frame in frames] == [
        ("alone.wrapper", "Alone.forward"),
        ("shared.wrapper", None),
    ]
    places = [
        frame["wraps_at"] and (frame["wraps_at"]["line"], frame["wraps_at"]["text"])
        for frame in frames
    ]
    assert places == [(27, "def forward(self, x):"), None]
    told = sorted(
        finding["message"] for finding in document["findings"] if finding["code"] == "GD202"
    )
    assert told[0].startswith("`Alone.forward` recompiled once because `x.shape[0]` changed: 3 → 4")
    assert all(message.startswith("`shared.wrapper` recompiled") for message in told[1:])


def test_decorator_arguments_are_named_by_their_receiver(tmp_path: Path) -> None:
    document = check("decorated_arguments", tmp_path)
    frames = [frame["qualname"].partition(".")[0] for frame in document["recording"]["frames"]]
    found = [
        change["expression"] for report in document["recompiles"] for change in report["cause"]
    ]
    certain = dict.fromkeys(
        ("handed_on", "with_self_among_them", "after_one", "by_keyword"), "y.shape[0]"
    )
    unknown = dict.fromkeys(("shifted", "set_anew", "twice"), "args[1].shape[0]")
    assert dict(zip(frames, found, strict=True)) == {
        **certain,
        "several": "inputs[1].shape[0]",
        **unknown,
    }


def test_what_a_program_calls_args_is_its_own(tmp_path: Path) -> None:
    document = check("named_args", tmp_path)
    assert {gap["kind"] for gap in document["recording"]["gaps"]} == {"coverage"}
    assert {frame["wraps"] for frame in document["recording"]["frames"]} == {None}
