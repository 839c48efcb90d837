"""Real jobs of two ranks over gloo: what the report says, against what each rank did."""

import json
from pathlib import Path

import pytest

from tests.conftest import clean_environment, run_command, run_script
from tests.each import at_night

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("job.py")
LAUNCHER = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Runs a job once, and returns its exit status and report; of ``log:sizes``, that of torch's
    own log."""
    folder = tmp_path_factory.mktemp("jobs")
    jobs = {}

    def run(what):
        environment = clean_environment(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="lo")
        if what in jobs:
            return jobs[what]
        if what.startswith("log:"):
            name = what.removeprefix("log:")
            traced = environment | {"TORCH_TRACE": str(folder / name)}
            run_script(*LAUNCHER, SCRIPT, name, cwd=folder, env=traced)
            done = run_command("report", name, "--format", "json", cwd=folder, status=0)
            jobs[what] = 0, json.loads(done.stdout)
        else:
            command = ("run", "--quiet", "--report", f"{what}.json", *LAUNCHER, SCRIPT, what)
            done = run_command(*command, cwd=folder, env=environment)
            assert (folder / f"{what}.json").exists(), done.stderr
            jobs[what] = done.returncode, json.loads((folder / f"{what}.json").read_text())
        return jobs[what]

    return run


@pytest.mark.nightly
def test_the_status_is_the_job_s_own(job):
    whole = ("equal", "sizes", "alone", "branch", "silent", "dies")
    assert {what for what in whole if job(what)[0]} == {"dies", "silent"}


@pytest.mark.nightly
def test_equal_ranks_agree(job):
    found = job("equal")[1]
    assert [(each["rank"], each["complete"]) for each in found["ranks"]] == [(0, True), (1, True)]
    assert [each["summary"]["compiles"] for each in found["ranks"]] == [2, 2]
    assert [row["agree"] for row in found["agreement"]] == [True, True]
    assert found["first_divergence"] is None
    assert found["hangs"] == []


@pytest.mark.parametrize("name", ["sizes", at_night("log:sizes")])
def test_a_rank_with_other_sizes_recompiles_alone(job, name):
    found = job(name)[1]
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


@pytest.mark.nightly
def test_a_rank_that_changes_an_attribute_recompiles_alone(job):
    parted = job("alone")[1]["first_divergence"]
    assert parted["ranks"] == [1]
    assert "self.scale: 1 → 2" in {value["value"] for value in parted["values"]}


@pytest.mark.nightly
def test_code_that_one_rank_alone_runs_is_a_branch_on_the_rank(job):
    parting = job("branch")[1]["first_divergence"]["parting"]
    assert (parting["kind"], parting["reads"]) == ("branch", "dist.get_rank()")
    assert parting["location"]["text"].startswith("if WHAT")
    finding = job("branch")[1]["findings"][0]
    assert (finding["code"], finding["location"]) == ("GD209", parting["location"])
    fixes = finding["fixes"]
    assert [fix["title"][:14] for fix in fixes] == ["Do what only s", "Put it in a fu"]
    assert job("sizes")[1]["first_divergence"]["parting"]["kind"] == "sizes"
    assert job("alone")[1]["first_divergence"]["parting"]["kind"] == "state"


@pytest.mark.nightly
def test_a_rank_that_compiles_less_is_there(job):
    found = job("silent")[1]
    # It ended by an exception, after all that the other rank did too.
    assert found["ranks"][1]["complete"] is False
    assert [each["summary"]["compiles"] for each in found["ranks"]] == [1, 0]
    parted = found["first_divergence"]
    assert [value["ranks"] for value in parted["values"] if value["value"] == "-"] == [[1]]
    (gap,) = [gap for gap in found["gaps"] if gap["kind"] == "nothing_compiled"]
    assert gap["message"].startswith("Rank 1: ")
    # It did call torch.compile, for the head that it never called.
    assert "did not call torch.compile" not in gap["message"]


@pytest.mark.nightly
def test_a_rank_that_dies_is_not_complete(job):
    found = job("dies")[1]
    assert [each["complete"] for each in found["ranks"]][1] is False
    parted = found["first_divergence"]
    assert parted is not None and parted["what"] == "presence"
    assert [value["ranks"] for value in parted["values"] if value["value"] == "-"] == [[1]]
    assert found["ranks"][1]["missed"] == 1
    (hang,) = found["hangs"]
    assert hang["missing"] == [1]
