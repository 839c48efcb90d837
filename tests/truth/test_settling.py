"""Programs that recompile in every call: repeats of the last call are calls like any other."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import clean_environment, run_script
from tests.sections import texts_beside

pytestmark = pytest.mark.slow

Explain = Callable[..., dict[str, Any]]

COUNTER, GROWING, AUTOMATIC = texts_beside(__file__)


def explained(
    explain_json: Explain, tmp_path: Path, program: str, name: str, calls: int = 3
) -> dict[str, Any]:
    target = tmp_path / "program.py"
    target.write_text(program.replace("{calls}", str(calls)))
    return explain_json(f"{target}:{name}", cwd=tmp_path)


def test_a_counter_never_settles_and_no_other_line_is_blamed(
    explain_json: Explain, tmp_path: Path
) -> None:
    document = explained(explain_json, tmp_path, COUNTER, "Net")
    summary = document["summary"]
    steadiness = summary["steadiness"]
    assert steadiness["state"] == "never"
    assert steadiness["changing"] == ["self.seen"]
    assert steadiness["function"] == "Net.forward"
    assert steadiness["compiles_per_call"] == [2, 2, 2]
    assert steadiness["compiles_repeated"] == [2, 2, 2, 2, 2, 0, 0]
    assert steadiness["compiles_to_limit"] == 8
    assert steadiness["limit_call"] == 9
    assert summary["recompiles"] == 14
    assert summary["frames_over_limit"] == 1
    assert summary["coverage"] == 0
    assert document["recording"]["gaps"] == []
    codes = {"GD101", "GD205", "GD217"}
    assert {finding["code"] for finding in document["findings"]} == codes
    assert not [
        finding
        for finding in document["findings"]
        if (finding["cost"] or {}).get("call_us") is not None
    ]
    assert {finding["code"] for finding in document["findings"] if finding["is_unsettling"]} == {
        "GD205",
        "GD217",
    }


def test_repeats_end_without_a_steady_call(explain_json: Explain, tmp_path: Path) -> None:
    target = tmp_path / "program.py"
    target.write_text(COUNTER.replace("{calls}", "1"))
    limit = "--config", "torch._dynamo.config.recompile_limit=64"
    document = explain_json(f"{target}:Net", *limit, cwd=tmp_path)
    recording, summary = document["recording"], document["summary"]
    assert recording["repeats"] == {"count": 24, "is_steady": False}
    assert summary["graphs"] == summary["compiles"] == 50
    assert summary["recompiles"] == 48
    assert (summary["coverage"], summary["frames_over_limit"]) == (None, 0)
    assert [gap["kind"] for gap in recording["gaps"]] == ["unsettled"]


def test_one_call_shows_that_it_never_settles(explain_json: Explain, tmp_path: Path) -> None:
    document = explained(explain_json, tmp_path, COUNTER, "Net", calls=1)
    (finding,) = [found for found in document["findings"] if found["code"] == "GD217"]
    assert finding["severity"] == "error"
    assert [change["expression"] for change in finding["changes"]] == ["self.seen"]
    assert "allow_unspec_int_on_nn_module" in finding["fixes"][0]["snippet"]
    assert document["summary"]["steadiness"]["compiles_to_limit"] == 8


def test_calls_hitting_the_limit_are_measured_unchanged(
    explain_json: Explain, tmp_path: Path
) -> None:
    document = explained(explain_json, tmp_path, GROWING, "build()", calls=10)
    summary = document["summary"]
    assert summary["steadiness"]["state"] == "over_limit"
    assert summary["steadiness"]["limit_call"] == 9
    assert summary["steadiness"]["compiles_to_limit"] == 8
    assert summary["steadiness"]["changing"] == ["name"]
    assert summary["steadiness"]["compiles_per_call"] == [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]
    assert summary["frames_over_limit"] == 1
    assert summary["coverage"] == 0
    assert "GD217" not in {finding["code"] for finding in document["findings"]}


def test_sizes_that_become_dynamic_settle(explain_json: Explain, tmp_path: Path) -> None:
    steadiness = explained(explain_json, tmp_path, AUTOMATIC, "build()")["summary"]["steadiness"]
    assert steadiness["state"] == "settled"
    assert steadiness["compiles_per_call"] == [1, 1, 0]
    assert steadiness["compiles_repeated"] == [0]


@pytest.mark.parametrize("calls", [4, 11])
def test_recompiles_are_those_that_torch_logs(
    explain_json: Explain, tmp_path: Path, calls: int
) -> None:
    document = explained(explain_json, tmp_path, GROWING, "build()", calls=calls)
    script = tmp_path / "script.py"
    script.write_text(
        "from program import build, example_inputs\nimport torch\n"
        "compiled = torch.compile(build(), backend='eager')\n"
        "for call in example_inputs():\n    compiled(*call)\n"
    )
    logged = run_script(script, cwd=tmp_path, env=clean_environment(TORCH_LOGS="recompiles")).stderr
    assert "Recompiling function" in logged
    flags = [compile_ for compile_ in document["recording"]["compiles"] if compile_["is_recompile"]]
    # torch also logs the one that the limit refuses.
    assert len(flags) == len(re.findall(r"Recompiling function", logged))
    refused = [compile_ for compile_ in flags if compile_["outcome"] == "limit"]
    assert len(refused) == (calls > 8)
    assert document["summary"]["recompiles"] == len(flags) - len(refused)
