"""``graphdoctor bench`` on a program whose calls take a known time, however busy the machine is."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from graphdoctor.facts.bench import BenchReport
from graphdoctor.facts.reading import read_fact
from tests import napping
from tests.conftest import interrupted, run_command
from tests.each import for_each

pytestmark = pytest.mark.slow

PROGRAM = Path(napping.__file__)


@dataclass(frozen=True)
class Benched:
    """What the command wrote.

    Args:
        document: The JSON document.
        folder: Where it ran.
    """

    document: dict[str, Any]
    folder: Path

    def variant(self, name):
        """One variant."""
        (found,) = (variant for variant in self.document["variants"] if variant["name"] == name)
        return dict(found)


@pytest.fixture(scope="module")
def benched(tmp_path_factory):
    """The program with a break, run in several ways."""
    folder = tmp_path_factory.mktemp("benched")
    (folder / "napping.py").write_bytes(PROGRAM.read_bytes())
    texts = ("dynamic=true", "fullgraph=true", "mode=reduce-overhead backend=inductor", "mode=fast")
    variants = [part for text in texts for part in ("--variant", text)]
    process = run_command(
        *(
            "bench",
            "napping.py:Broken",
            "--backend",
            "aot_eager",
            *variants,
            "--thorough",
            "--format",
            "json",
        ),
        cwd=folder,
        status=0,
    )
    return Benched(json.loads(process.stdout), folder)


def test_the_document_has_every_variant(benched):
    report = read_fact(BenchReport, benched.document)
    assert [variant.name for variant in report.variants][:2] == ["eager", "backend=aot_eager"]
    default = benched.variant("backend=aot_eager")
    assert (default["status"], default["correct"]) == ("ok", True)
    assert (default["graphs"], default["break_sites"], default["recompiles"]) == (2, 1, 0)
    assert benched.variant("eager")["graphs"] is None


def test_times_are_those_of_the_calls_and_the_speed_up_their_ratio(benched):
    eager, default = benched.variant("eager"), benched.variant("backend=aot_eager")
    for variant, ms, most in ((eager, napping.LONG_MS, 1.5), (default, napping.SHORT_MS, 2)):
        times = variant["call_us"]
        assert ms * 1000 <= times["min"] <= times["q1"] < most * ms * 1000
    speedup, (slow, quick) = default["speedup"], (each["call_us"] for each in (eager, default))
    assert speedup["low"] <= speedup["ratio"] <= speedup["high"]
    assert 1.5 < speedup["ratio"] < 3.2
    assert speedup["ratio"] == pytest.approx(slow["median"] / quick["median"], rel=0.3)
    assert (default["judgement"], eager["judgement"]) == ("faster", "same")


def test_an_impossible_variant_says_why(benched):
    failed = benched.variant("fullgraph=true")
    assert (failed["status"], failed["stages"] is None) == ("failed", False)
    assert "graph_break" in failed["reason"]
    unknown = benched.variant("mode=fast")
    assert (unknown["status"], unknown["call_us"]) == ("failed", None)
    assert "torch.compile has no mode 'fast'" in unknown["reason"]
    skipped = benched.variant("mode=reduce-overhead backend=inductor")
    assert (skipped["status"], skipped["call_us"]) == ("skipped", None)
    assert "CUDA" in skipped["reason"]
    assert benched.variant("dynamic=true")["status"] == "ok"


QUICK = ("bench", "napping.py:Broken", "--backend", "aot_eager", "--variant", "dynamic=true")


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """The same program, as the command measures by default."""
    folder = tmp_path_factory.mktemp("quick")
    (folder / "napping.py").write_bytes(PROGRAM.read_bytes())
    process = run_command(
        *QUICK, "--variant", "fullgraph=true", "--format", "json", cwd=folder, status=0
    )
    return Benched(json.loads(process.stdout), folder)


def test_the_users_own_run_is_recorded_while_it_is_timed(quick):
    own = quick.variant("backend=aot_eager")
    assert (own["status"], own["judgement"]) == ("ok", "faster")
    assert 1.5 < own["speedup"]["ratio"] < 3.2
    assert (own["graphs"], own["break_sites"], own["recompiles"]) == (2, 1, 0)
    assert "GD" in own["findings"][0]["code"]
    assert own["compile_warm_s"] > 0
    assert own["break_even_calls"] == own["break_even_warm"]["calls"]
    found = json.loads(run_command("report", "--format", "json", cwd=quick.folder).stdout)
    assert found["recording"]["target"]["compile_arguments"]["backend"] == "aot_eager"
    assert found["recording"]["exit"]["reason"] == "finished"
    assert [call["index"] for call in found["recording"]["calls"]] == [1]


@pytest.mark.parametrize(
    ("option", "part", "known"),
    [
        ("--cold", "cold", ("compile_cold_s", "compile_warm_s", "break_even_cold")),
        ("--check-results", "results", ("correct", "correctness")),
        ("--why", "causes", ("graphs", "break_sites")),
    ],
)
def test_each_part_can_be_asked_for_alone(tmp_path, option, part, known):
    (tmp_path / "napping.py").write_bytes(PROGRAM.read_bytes())
    process = run_command(*QUICK, option, "--format", "json", cwd=tmp_path, status=0)
    found = Benched(json.loads(process.stdout), tmp_path)
    assert found.document["measured"] == [part]
    for name in ("backend=aot_eager", "dynamic=true"):
        assert all(found.variant(name)[field] is not None for field in known)
        assert (found.variant(name)["correctness"] is not None) == (part == "results")
        assert (found.variant(name)["compile_cold_s"] is not None) == (part == "cold")


@for_each("command", ["bench", "profile"])
def test_a_failing_program_is_reported_and_no_study_kept(command, tmp_path):
    (tmp_path / "failing.py").write_text(
        "import torch\n\n\ndef model(x):\n    return x @ x\n\n\ndef example_inputs():\n    return torch.ones(2, 3)\n"
    )
    process = run_command(command, "failing.py", cwd=tmp_path, status=2)
    assert "mat1 and mat2 shapes cannot be multiplied" in " ".join(process.stderr.split())
    assert not process.stdout
    assert f"holds no {command}" in " ".join(
        run_command(command, cwd=tmp_path, status=2).stderr.split()
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_reports_what_was_measured(tmp_path, number):
    (tmp_path / "napping.py").write_bytes(PROGRAM.read_bytes())
    second = ".graphdoctor/*/bench/dynamic-true-timed/probe.jsonl"
    printed, _ = interrupted(*QUICK, "--format", "json", cwd=tmp_path, once=second, number=number)
    _, own, dynamic = json.loads(printed)["variants"]
    assert own["compile_warm_s"] > 0
    assert (dynamic["status"], dynamic["exit"]) == ("skipped", None)
    assert "Interrupted: this is what" in run_command("bench", cwd=tmp_path, status=0).stdout


def test_an_interrupt_before_anything_was_measured_leaves_no_process(tmp_path):
    (tmp_path / "napping.py").write_bytes(PROGRAM.read_bytes())
    printed, said = interrupted(
        *QUICK, cwd=tmp_path, once=".graphdoctor/*/bench/eager-timed/probe.jsonl"
    )
    assert printed == ""
    assert said.endswith("Interrupted.\n")
    begun = [path.read_text().splitlines() for path in tmp_path.rglob("probe.jsonl")]
    processes = [
        event["pid"]
        for lines in begun
        for event in map(json.loads, lines)
        if event["event"] == "process"
    ]
    assert processes
    assert not [pid for pid in processes if Path(f"/proc/{pid}").exists()]
