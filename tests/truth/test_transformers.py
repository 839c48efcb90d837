"""Models of transformers with random weights against what torch logs of them."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunCli, clean_environment
from tests.truth.compare import HERE, Bare, BareRunner, counts_of, sites_of

if (
    importlib.util.find_spec("transformers") is None
):  # importing it here would cost every worker seconds
    pytest.skip(
        "transformers is not installed (it comes with the dev extra)", allow_module_level=True
    )

MODELS = HERE / "models"
pytestmark = pytest.mark.slow

Both = Callable[..., tuple[dict[str, Any], Bare]]


@pytest.fixture
def both(
    bare_runner: BareRunner, explain_json: Callable[..., dict[str, Any]], tmp_path: Path
) -> Both:
    """Run a model with and without graphdoctor; the counts are compared here, since they must
    always agree."""

    def run(
        name: str, *, backend: str = "eager", backward: bool = False
    ) -> tuple[dict[str, Any], Bare]:
        program = MODELS / f"{name}.py"
        folder = tmp_path / "bare"
        folder.mkdir()
        bare = bare_runner.run(program, folder, backend=backend, backward=backward)
        options = ["--backend", backend, *(["--backward"] if backward else [])]
        document = explain_json(program, *options, imported="packages")
        assert (sites_of(document, tmp_path), counts_of(document)) == (bare.sites, bare.counts)
        assert bare.error is None
        assert document["recording"]["calls"][-1]["outcome"] == "ok"
        return document, bare

    return run


@pytest.mark.parametrize(
    ("name", "backend"),
    [("gpt2", "inductor"), ("bert", "aot_eager"), ("t5", "eager"), ("granite", "eager")],
)
def test_a_model_without_breaks_is_one_graph(both: Both, name: str, backend: str) -> None:
    if backend == "inductor" and not shutil.which("c++"):
        pytest.skip("inductor needs a C++ compiler on a CPU")
    document, bare = both(name, backend=backend)

    assert (bare.sites, bare.graphs) == (set(), 1)
    assert document["summary"]["coverage"] == 1.0
    assert document["findings"] == []


def test_longformer_breaks_in_its_own_file(both: Both, run_cli: RunCli) -> None:
    document, bare = both("longformer")

    breaks = [finding for finding in document["findings"] if finding["break_effects"]]
    lines = {finding["location"]["text"] for finding in breaks}
    assert any("logger." in line for line in lines), lines
    assert any(".item()" in line for line in lines), lines
    for finding in breaks:
        assert Path(finding["location"]["file"]).name == "modeling_longformer.py"
        assert finding["location"]["package"] == "transformers"
        assert finding["location"]["origin"] == "third_party"
    assert bare.sites

    # The same recording without what lies in a package.
    own = json.loads(run_cli("report", "--own-code", "--format", "json").stdout)
    assert own["findings"] == []
    assert own["summary"]["hidden_findings"] == len(document["findings"]) > 0
    assert own["summary"]["break_sites"] == document["summary"]["break_sites"]


def test_longformer_of_four_lengths_is_answered_on_two_screens(
    run_cli: RunCli, tmp_path: Path
) -> None:
    program = tmp_path / "longformer.py"
    text = (MODELS / "longformer.py").read_text()
    four = "[{'input_ids': torch.arange(2, 2 + n).reshape(1, n)} for n in (10, 14, 18, 22)]"
    program.write_text(text[: text.index("    return [{")] + f"    return {four}\n")
    done = run_cli("explain", program, env=clean_environment(COLUMNS="120"), imported="packages")
    lines = done.stdout.splitlines()

    assert done.returncode == 0, done.stderr
    assert len(lines) <= 80, done.stdout
    assert "of operations compiled" in " ".join(lines[:5])
    assert any(line == "What to do" for line in lines[:10])
    # Code to paste is never broken; whether it is shown depends on what costs most.
    assert max(len(line) for line in lines if "ignore_logging_functions.add(" not in line) <= 120
    known = [number for number, line in enumerate(lines) if line.lstrip().startswith("try ")]
    unknown = [number for number, line in enumerate(lines) if "without a known fix" in line]
    assert known
    assert not unknown or min(unknown) > max(known)


def test_longformer_in_training_counts_the_forward_alone(both: Both) -> None:
    document, _ = both("longformer", backward=True, backend="aot_eager")

    assert 0 < document["summary"]["coverage"] < 1


@pytest.mark.nightly
def test_longformer_is_treated_without_touching_transformers(
    run_cli: RunCli, tmp_path: Path
) -> None:
    program = tmp_path / "longformer.py"
    program.write_bytes((MODELS / "longformer.py").read_bytes())
    options = ("--unsafe-fixes", "--no-timing", "--jobs", "2", "--format", "json")
    done = run_cli("fix", program, *options, imported="packages")
    treatment = json.loads(done.stdout)["recording"]["treatment"]
    tried, before, after = treatment["tried"], treatment["before"], treatment["after"]

    # The settings alone are written, and into the program's own file.
    assert treatment["settings_file"] == str(program)
    assert treatment["diff"].count("+++ b/") == 1
    assert {case["kind"] for case in tried} == {"config", "call"}
    assert all(case["diff"] is None and case["snippet"] for case in tried)
    helpless = {"no effect", "makes it worse", "unproven"}
    assert {case["verdict"] for case in tried} <= {"verified", *helpless}
    assert all(case["reason"] for case in tried if case["verdict"] in helpless)

    kept = {
        snippet for case in tried if case["is_applied"] for snippet in case["snippet"].splitlines()
    }
    assert any(
        line.startswith("torch._dynamo.config.ignore_logging_functions.add(") for line in kept
    )
    nested = [
        case
        for case in tried
        if "nested_graph_breaks" in case["snippet"] and case["verdict"] == "unproven"
    ]
    assert [case["reason"] for case in nested] == ["the break stays, and the call wasn't timed"]
    assert after["graphs"] < before["graphs"]
    assert (after["break_sites"], before["break_sites"]) == (1, 2)

    # It lets torch come as far as a break that it cannot resume from.
    [read] = [case for case in tried if "capture_scalar_outputs" in case["snippet"]]
    assert (read["verdict"], read["is_applied"]) == ("makes it worse", False)
    assert "is skipped because of the next break" in read["reason"]
    assert read["reason"].endswith("no fix that was tried helps")

    [left] = treatment["left"]
    assert left["place"].startswith("transformers/models/longformer/modeling_longformer.py:")
    assert "the line belongs to transformers, whose files aren't edited" in left["reason"]
