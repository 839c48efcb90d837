"""What is said of jobs of two ranks with gloo: DDP, FSDP2, compiled autograd, tensor parallelism,
checkpointing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.rules.catalog import ALL_RULES
from graphdoctor.rules.diagnosis.rule import Rule
from tests.conftest import clean_environment, run_command
from tests.rules.test_documentation import first_block

pytestmark = pytest.mark.nightly

PROGRAMS = Path(__file__).with_name("programs")
EXAMPLES = [ALL_RULES[code] for code in ("GD125", "GD126", "GD129", "GD130")]


def launched(program: str, *arguments: str) -> list[str]:
    """The arguments of ``graphdoctor run`` for a program under ``torch.distributed.run``."""
    ranks = ("--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0")
    return ["-m", "torch.distributed.run", *ranks, str(PROGRAMS / f"{program}.py"), *arguments]


def job_document(folder: Path, program: str, *arguments: str) -> dict[str, Any]:
    """The JSON document of a job."""
    command = ("run", "--quiet", "--report", "job.json", *launched(program, *arguments))
    done = run_command(
        *command, cwd=folder, env=clean_environment(OMP_NUM_THREADS="1"), timeout=150
    )
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads((folder / "job.json").read_text())
    return document


def found_in(document: dict[str, Any], program: str) -> dict[str, dict[str, Any]]:
    """The findings in a program's file by code."""
    name = f"/{program}.py"
    return {
        finding["code"]: finding
        for finding in document["findings"]
        if finding["location"]["file"].endswith(name)
    }


@pytest.fixture(scope="module")
def several_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("several")
    programs = (
        "ddp_compiled",
        "ddp_inside",
        "fsdp_whole",
        "fsdp_blocks",
        "fsdp_torch_layers",
        "tensor_parallel",
    )
    job_document(folder, "several", *programs, "checkpoint_hooks", "compiled_autograd")
    (recording,) = (path for path in (folder / ".graphdoctor").iterdir() if path.is_dir())
    return recording


@pytest.fixture(scope="module")
def several(several_recording: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        (several_recording.parent.parent / "job.json").read_text()
    )
    return document


@pytest.fixture(scope="module")
def sequential(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sequential")
    job_document(folder, "ddp_sequential")
    return folder


def test_ddp_s_own_code_is_one_finding_about_ddp(several: dict[str, Any]) -> None:
    findings = found_in(several, "ddp_compiled")
    assert set(findings) == {"GD125", "GD130"}
    assert findings["GD125"]["location"]["text"].startswith("compiled = torch.compile(model")
    assert findings["GD125"]["severity"] == "info"


def test_split_graph_reports_parts_parameters_and_crossing_values(several: dict[str, Any]) -> None:
    finding = found_in(several, "ddp_compiled")["GD130"]
    split = finding["ddp_split"]
    assert [bucket["parameters"][0] for bucket in split["buckets"]] == [
        "self.first.weight",
        "self.second.weight",
        "self.last.weight",
    ]
    assert [bucket["parameter_bytes"] for bucket in split["buckets"]] == [
        4 * (64 * 512 + 512),
        4 * (512 * 512 + 512),
        4 * (512 * 512 + 512),
    ]
    assert [bucket["op_count"] for bucket in split["buckets"]] == [2, 2, 1]
    assert (split["crossing_count"], split["crossing_bytes"]) == (2, 2 * 16 * 512 * 4)
    assert finding["fixes"][0]["snippet"] == "torch._dynamo.config.optimize_ddp = False"


def test_ddp_around_a_compiled_module_has_no_finding(several: dict[str, Any]) -> None:
    assert found_in(several, "ddp_inside") == {}


def test_fsdp_s_hooks_are_named_where_a_block_is_called(several: dict[str, Any]) -> None:
    findings = found_in(several, "fsdp_whole")
    assert {"GD126", "GD111"} <= set(findings)
    assert "`block`" in findings["GD126"]["message"]
    assert "fully_shard(block)" in findings["GD126"]["fixes"][0]["title"]
    assert findings["GD111"]["fixes"] == []
    assert findings["GD111"]["related"][0]["text"] == "for block in self.blocks:"


def test_blocks_that_are_compiled_by_themselves_have_no_break(several: dict[str, Any]) -> None:
    assert {code for code in found_in(several, "fsdp_blocks") if code.startswith("GD1")} == set()


def test_torchs_own_layers_are_compiled_before_sharding(several: dict[str, Any]) -> None:
    findings = found_in(several, "fsdp_torch_layers")
    assert "`fully_shard(torch.compile(block))`" in findings["GD126"]["fixes"][0]["title"]


def test_a_hook_s_own_break_stays_at_its_line(several: dict[str, Any]) -> None:
    assert (
        found_in(several, "checkpoint_hooks")["GD103"]["location"]["text"]
        == "seen.append(result.sum().item())"
    )


def test_recording_leaves_no_break_of_its_own_in_compiled_autograd(several: dict[str, Any]) -> None:
    assert set(found_in(several, "compiled_autograd")) == {"GD112"}
    assert not [
        finding
        for finding in several["findings"]
        if "graphdoctor/probe" in finding["location"]["file"]
    ]


def test_nothing_compiled_is_said_first(sequential: Path) -> None:
    document = json.loads((sequential / "job.json").read_text())
    first = document["findings"][0]
    assert (first["code"], first["severity"]) == ("GD129", "error")
    assert "`Sequential.forward`" in first["message"]
    assert [rank["summary"]["graphs"] for rank in document["ranks"]] == [0, 0]


def test_a_bare_log_of_the_same_job_says_so_too(sequential: Path, tmp_path: Path) -> None:
    """Without our records, whose payloads follow them in lines that begin with a tab."""
    (trace,) = sequential.glob(".graphdoctor/*/trace")
    (tmp_path / "logs").mkdir()
    for log in trace.iterdir():
        kept = []
        is_ours = False
        for line in log.read_text().splitlines(keepends=True):
            is_ours = is_ours if line.startswith("\t") else '"graphdoctor_' in line
            kept += [] if is_ours else [line]
        (tmp_path / "logs" / log.name).write_text("".join(kept))
    done = run_command("report", "logs", cwd=tmp_path)
    assert "GD129 nothing was compiled" in done.stdout
    assert "Not compiled" in done.stdout


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The codes of the findings in each snippet of the rules that need a process group."""
    folder = tmp_path_factory.mktemp("examples")
    names = []
    for rule in EXAMPLES:
        for section in ("Example", "Use instead"):
            names.append(_name(rule, section))
            (folder / names[-1]).write_text(first_block(rule, section))
    shutil.copy(PROGRAMS / "examples.py", folder)
    options = ("run", "--quiet", "--report", "all.json", "examples.py", *names)
    done = run_command(*options, cwd=folder, env=clean_environment(OMP_NUM_THREADS="1"))
    assert done.returncode == 0, done.stderr
    document = json.loads((folder / "all.json").read_text())
    return {
        name: {
            finding["code"]
            for finding in document["findings"]
            if finding["location"]["file"].endswith(name)
        }
        for name in names
    }


def _name(rule: Rule, section: str) -> str:
    return f"{rule.code}_{re.split(' ', section)[0].lower()}.py"


@pytest.mark.parametrize("rule", EXAMPLES, ids=lambda rule: rule.code)
def test_example_is_found_and_the_hint_to_alternatives_skipped(
    rule: Rule, examples: dict[str, set[str]]
) -> None:
    assert rule.code in examples[_name(rule, "Example")]
    assert examples[_name(rule, "Use instead")] == set()


def test_backward_passes_of_compiled_autograd_are_named(several_recording: Path) -> None:
    done = run_command(
        "report", several_recording, "--rank", "0", "--format", "json", cwd=several_recording
    )
    document = json.loads(done.stdout)
    names = {graph["function"] for graph in document["recording"]["graphs"]}
    assert "backward pass 0 (compiled autograd)" in names
    assert {item["compiled_autograd_id"] for item in document["recording"]["compiles"]} >= {None, 0}
