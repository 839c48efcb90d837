"""Real jobs of two ranks over gloo: what the report says, against what each rank did."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("job.py")
LAUNCHER = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
GRAPHDOCTOR = [sys.executable, "-m", "graphdoctor"]


def environment(**more):
    return {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **more}


def run_job(what, folder):
    """Run it under graphdoctor, which writes its report."""
    command = [
        *GRAPHDOCTOR,
        "run",
        "--quiet",
        "--report",
        f"{what}.json",
        *LAUNCHER,
        str(SCRIPT),
        what,
    ]
    ended = subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (folder / f"{what}.json").exists(), ended.stderr
    return ended.returncode


def trace_job(what, folder):
    """Run it as anyone would, with torch's own logs."""
    command = [sys.executable, *LAUNCHER, str(SCRIPT), what]
    env = environment(TORCH_TRACE=str(folder / what))
    return subprocess.run(
        command, cwd=folder, env=env, check=False, capture_output=True, timeout=240
    ).returncode


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """The reports of jobs, those of our own recordings and, after ``log:``, of torch's logs."""
    folder = tmp_path_factory.mktemp("jobs")
    with ThreadPoolExecutor(2) as pool:
        ends = {
            what: pool.submit(run_job, what, folder)
            for what in ("equal", "sizes", "alone", "branch", "silent", "dies")
        }
        ends["log:sizes"] = pool.submit(trace_job, "sizes", folder)
    found = {
        what: json.loads((folder / f"{what}.json").read_text()) for what in ends if ":" not in what
    }
    command = [*GRAPHDOCTOR, "report", "sizes", "--format", "json"]
    found["log:sizes"] = json.loads(subprocess.check_output(command, cwd=folder))
    found["statuses"] = {what: end.result() for what, end in ends.items()}
    yield found


def test_the_status_is_the_job_s_own(jobs):
    assert {what for what, status in jobs["statuses"].items() if status} == {"dies", "silent"}


def test_equal_ranks_agree(jobs):
    found = jobs["equal"]
    assert [(each["rank"], each["complete"]) for each in found["ranks"]] == [(0, True), (1, True)]
    assert [each["summary"]["compiles"] for each in found["ranks"]] == [2, 2]
    assert [row["agree"] for row in found["agreement"]] == [True, True]
    assert found["first_divergence"] is None
    assert found["hangs"] == []


@pytest.mark.parametrize("name", ["sizes", "log:sizes"])
def test_a_rank_with_other_sizes_recompiles_alone(jobs, name):
    found = jobs[name]
    assert [each["summary"]["recompiles"] for each in found["ranks"]] == [0, 1]
    parted = found["first_divergence"]
    assert (parted["compile"], parted["what"], parted["ranks"]) == ("0/1", "presence", [1])
    assert {tuple(value["ranks"]): value["value"] for value in parted["values"]} == {
        (0,): "-",
        (1,): "x.shape[0]: 4 → 5",
    }
    (recompiled,) = [finding for finding in found["findings"] if finding["code"] == "GD202"]
    assert recompiled["ranks"] == [1]
    # Whether that is long beside the first compile is the machine's affair; test_skew.py has when a
    # rank is named.
    straggler = found["skew"]["straggler"]
    assert straggler is None or straggler["rank"] == 0 or straggler["why"] == "alone"


def test_a_rank_that_changes_an_attribute_recompiles_alone(jobs):
    parted = jobs["alone"]["first_divergence"]
    assert parted["ranks"] == [1]
    assert "self.scale: 1 → 2" in {value["value"] for value in parted["values"]}


def test_code_that_one_rank_alone_runs_is_a_branch_on_the_rank(jobs):
    parting = jobs["branch"]["first_divergence"]["parting"]
    assert (parting["kind"], parting["reads"]) == ("branch", "dist.get_rank()")
    assert parting["location"]["text"].startswith("if WHAT")
    finding = jobs["branch"]["findings"][0]
    assert (finding["code"], finding["location"]) == ("GD209", parting["location"])
    fixes = finding["fixes"]
    assert [fix["title"][:14] for fix in fixes] == ["Do what only s", "Put it in a fu"]
    assert jobs["sizes"]["first_divergence"]["parting"]["kind"] == "sizes"
    assert jobs["alone"]["first_divergence"]["parting"]["kind"] == "state"


def test_a_rank_that_compiles_less_is_there(jobs):
    found = jobs["silent"]
    # It ended by an exception, after all that the other rank did too.
    assert found["ranks"][1]["complete"] is False
    assert [each["summary"]["compiles"] for each in found["ranks"]] == [1, 0]
    parted = found["first_divergence"]
    assert [value["ranks"] for value in parted["values"] if value["value"] == "-"] == [[1]]
    (gap,) = [gap for gap in found["gaps"] if gap["kind"] == "nothing_compiled"]
    assert gap["message"].startswith("Rank 1: ")
    # It did call torch.compile, for the head that it never called.
    assert "did not call torch.compile" not in gap["message"]


def test_a_rank_that_dies_is_not_complete(jobs):
    found = jobs["dies"]
    assert [each["complete"] for each in found["ranks"]][1] is False
    parted = found["first_divergence"]
    assert parted is not None and parted["what"] == "presence"
    assert [value["ranks"] for value in parted["values"] if value["value"] == "-"] == [[1]]
    assert found["ranks"][1]["missed"] == 1
    (hang,) = found["hangs"]
    assert hang["missing"] == [1]
