"""Runs in another dtype and with another batch size, of programs that show what they got."""

import json

import pytest

from tests.sections import texts_beside

(PROGRAM,) = texts_beside(__file__)
SHOWN = "torch.bfloat16 torch.complex64 torch.float32 (3, 4) [0, 1, {}]"


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(PROGRAM)
    return path


@pytest.mark.slow
def test_fixes_are_tried_in_the_runs_dtype_and_batch_size(run_cli, program):
    changed = ("--dtype", "bf16", "--batch", "3")
    flags = ("--unsafe-fixes", "--no-timing", "--budget", "600", "--format", "json")
    done = run_cli("fix", "model.py:call", *changed, *flags)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(SHOWN.format(0)) == 1
    assert done.stderr.count(SHOWN.format(2)) == 1
    diagnosis = json.loads(done.stdout)
    target = diagnosis["recording"]["target"]
    summary = diagnosis["summary"]
    assert (target["call_options"]["dtype"], target["call_options"]["batch"]) == ("bfloat16", 3)
    assert [tensor["expression"] for tensor in target["batched"]] == ["batch.x", "batch.ids[0]"]
    assert (len(diagnosis["recording"]["calls"]), summary["recompiles"]) == (2, 0)
    assert "verified with loss" in [
        fix["verdict"] for tensor in diagnosis["findings"] for fix in tensor["fixes"]
    ]


@pytest.mark.slow
def test_batch_that_does_not_fit_is_reported(run_cli, program):
    done = run_cli(
        "explain", "model.py:pooled", "--input", "f32[4,8]", "--batch", "5", "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    gaps = {gap["kind"]: gap["message"] for gap in json.loads(done.stdout)["recording"]["gaps"]}
    assert (
        gaps["batch"]
        == "Whether the calls have a batch of 5: nothing that the first returned has such a size."
    )
    done = run_cli(
        "explain",
        "model.py:shared",
        "--input",
        "f32[34,16]",
        "--input",
        "i64[2,156]",
        "--batch",
        "3",
    )
    assert done.returncode == 2
    assert (
        "--batch 3: it isn't clear which size is the batch in x [34, 16], edges [2, 156]."
        in done.stderr
    )
    assert "Traceback" not in done.stderr
    done = run_cli(
        "explain", "model.py:narrow", "--input", "f32[4,8]", "--batch", "3", "--format", "json"
    )
    assert done.returncode == 2
    assert (
        "The call was made with --batch 3 in place of its own. Does it work without?" in done.stderr
    )
    diagnosis = json.loads(done.stdout)
    assert diagnosis["recording"]["exit"]["hint_code"] == "changed_call"
    (finding,) = diagnosis["findings"]
    assert finding["code"] == "GD901"
    assert finding["fixes"][0]["title"].startswith("Make the call with its own dtype")
