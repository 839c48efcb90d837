"""``graphdoctor cure`` on programs whose calls take a known time."""

import json
from pathlib import Path

import pytest

from tests import napping
from tests.conftest import run_command

pytestmark = pytest.mark.slow

PROGRAM = Path(napping.__file__)


def cure(folder, target, *options):
    """The JSON document and what was said meanwhile."""
    (folder / "napping.py").write_bytes(PROGRAM.read_bytes())
    process = run_command(
        *(
            "cure",
            f"napping.py:{target}",
            "--backend",
            "aot_eager",
            "--budget",
            "600",
            "--format",
            "json",
            *options,
        ),
        cwd=folder,
        timeout=600,
        is_brief=True,
        status=0,
    )
    return json.loads(process.stdout), process.stderr


@pytest.mark.nightly
def test_fixes_that_make_calls_faster_are_kept_and_written(tmp_path):
    document, said = cure(tmp_path, "Skipped", "--unsafe-fixes", "--apply", "--force")
    assert document["best"] == "cured"
    (step,) = document["steps"]
    assert (step["name"], step["outcome"]) == ("fixes", "kept")
    assert 1.5 < step["speedup"]["ratio"] < 3.3
    assert document["eager"]["call_us"]["min"] >= 30_000
    assert document["as_it_was"]["call_us"]["min"] >= 30_000
    assert 10_000 <= document["cured"]["call_us"]["min"] < 20_000
    assert document["cured"]["correct"] is True
    assert "→ as you had it 3" in document["text"]
    assert ", same results on your call; compile " in document["text"]
    assert "kept · fixes · " in said
    assert "best so far 1" in said
    assert "torch.where" in (tmp_path / "napping.py").read_text()
    assert "torch.where" in document["diff"]
    assert "Wrote " in said


def test_nothing_is_written_where_eager_mode_is_fastest(tmp_path):
    document, said = cure(tmp_path, "Slower", "--apply", "--force")
    assert document["best"] == "eager"
    assert document["text"].startswith("Plain eager is fastest (1")
    assert document["cured"] is None
    assert document["diff"] == ""
    assert (tmp_path / "napping.py").read_text() == PROGRAM.read_text()
    assert "There is nothing to write." in said


def test_what_must_not_be_written_is_refused_before_the_search(tmp_path):
    program = tmp_path / "napping.py"
    program.write_bytes(PROGRAM.read_bytes())
    program.chmod(0o444)
    process = run_command(
        *("cure", "napping.py:Skipped", "--backend", "aot_eager", "--unsafe-fixes", "--apply"),
        cwd=tmp_path,
    )
    assert (process.returncode, process.stdout) == (2, "")
    assert "is read-only." in process.stderr
    assert not [*tmp_path.glob(".graphdoctor/*/cure")]


def test_where_any_compiled_call_takes_longer_nothing_is_tried(tmp_path):
    (tmp_path / "short.py").write_text(
        "import torch\n\n\ndef add(x):\n    return x + 1\n\n\ndef example_inputs():\n    return torch.ones(4)\n"
    )
    process = run_command("cure", "short.py:add", "--format", "json", cwd=tmp_path, status=0)
    document = json.loads(process.stdout)
    assert (document["best"], document["steps"], document["cured"]) == ("eager", [], None)
    assert " Calling any compiled function costs about " in document["text"]
    assert document["eager"]["call_us"]["median"] < document["as_it_was"]["call_us"]["median"]
