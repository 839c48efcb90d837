"""Whatever two commands state of one program is the same, and so is what torch does to it."""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import RunCli, clean_environment, run_script
from tests.each import at_night
from tests.sections import sections

pytestmark = pytest.mark.slow

PROGRAMS = sections(Path(__file__).with_suffix(".txt"))
_COUNTS = (
    "calls",
    "calls_failed",
    "compiles",
    "graphs",
    "break_sites",
    "break_records",
    "skipped_frames",
    "recompiles",
    "recompile_causes",
    "frames_over_limit",
    "coverage",
    "coverage_detail",
    "steadiness",
)
Facts = Mapping[str, Any]


class Voices:
    """What documents say of one program."""

    def __init__(self, run: RunCli, folder: Path) -> None:
        self._run, self._folder = run, folder
        self._stated: dict[str, dict[str, Any]] = defaultdict(dict)

    def ask(self, *command: object) -> Any:
        process = self._run(*command, "--format", "json", cwd=self._folder)
        assert process.stdout, process.stderr
        return json.loads(process.stdout)

    def hear(self, name: str, facts: Facts, of: str = "") -> None:
        """Keep what a document says; None is nothing."""
        for fact, value in facts.items():
            if value is not None:
                self._stated[f"{of}{fact}"][name] = value

    def hear_counts(self, name: str, summary: Facts, of: str = "") -> None:
        self.hear(name, {count: summary[count] for count in _COUNTS}, of)

    def hear_diagnosis(self, name: str, diagnosis: Facts, of: str = "") -> None:
        self.hear_counts(name, diagnosis["summary"], of)
        recording = diagnosis["recording"]
        findings = sorted(
            (finding["code"], finding["location"]["line"], finding["count"])
            for finding in diagnosis["findings"]
            # Rules about measurements that not every command makes.
            if finding["code"].startswith(("GD1", "GD2"))
        )
        compiles = [
            (compile_["compile_id"], compile_["call_index"], compile_["outcome"])
            for compile_ in recording["compiles"]
        ]
        calls = [(call["inputs"], call["compile_count"]) for call in recording["calls"]]
        facts = {"calls made": calls, "compiles made": compiles, "findings": findings}
        self.hear(name, {**facts, "repeats": recording["repeats"]}, of)

    def agree(self) -> None:
        assert any(len(values) > 1 for values in self._stated.values())
        different = {
            fact: values
            for fact, values in self._stated.items()
            if any(value != next(iter(values.values())) for value in values.values())
        }
        assert not different


@pytest.mark.parametrize(
    "name", ["print", "counter", "clean", at_night("gpt2"), at_night("slower")]
)
def test_commands_agree_on_a_program(run_cli: RunCli, tmp_path: Path, name: str) -> None:
    target = tmp_path / f"{name}.py"
    target.write_text(PROGRAMS[name])
    voices = Voices(run_cli, tmp_path)
    explained = voices.ask("explain", target)
    before = tmp_path / "before.json"
    before.write_text(json.dumps(explained))
    voices.hear_diagnosis("explain", explained)
    voices.hear_diagnosis("report", voices.ask("report"))
    voices.hear_diagnosis("recompiles", voices.ask("recompiles", target))
    voices.hear_diagnosis("guards", voices.ask("guards", target))
    (checked,) = voices.ask("check", target)["targets"]
    voices.hear_diagnosis("check", checked["diagnosis"])
    fixed = voices.ask("fix", target, "--unsafe-fixes", "--no-timing", "--budget", "600")
    voices.hear_diagnosis("fix", fixed)
    treatment = fixed["recording"]["treatment"]
    if treatment is not None and treatment["before"] is not None:
        voices.hear_counts("trials of fix", treatment["before"])
    if treatment is not None and treatment["diff"]:
        patch = tmp_path / "fix.diff"
        patch.write_text(treatment["diff"])
        tried = voices.ask("try", patch, target, "--no-timing", "--unsafe-fixes", "--apply")
        tried = tried["recording"]["treatment"]
        voices.hear_counts("trials of try", tried["before"])
        (verdict,) = {fix["verdict"] for fix in treatment["tried"] if fix["is_applied"]}
        voices.hear("fix", {"verdict": verdict})
        voices.hear("try", {"verdict": tried["patch"]["verdict"]})
        again = voices.ask("explain", target)
        voices.hear_diagnosis("explain", again, "after: ")
        voices.hear_counts("fix", treatment["after"], "after: ")
        voices.hear_counts("try", tried["after"], "after: ")
        compared = voices.ask("diff", before)
        voices.hear_counts("diff", compared["before"]["summary"])
        voices.hear_counts("diff", compared["after"]["summary"], "after: ")
    voices.agree()


@pytest.mark.skipif(not shutil.which("c++"), reason="inductor needs a C++ compiler on a CPU")
@pytest.mark.parametrize("name", [at_night("counter"), "slower"])
def test_speeds_are_of_the_program_that_is_explained(
    run_cli: RunCli, tmp_path: Path, name: str
) -> None:
    target = tmp_path / f"{name}.py"
    target.write_text(PROGRAMS[name])
    voices = Voices(run_cli, tmp_path)
    voices.hear_counts("explain", voices.ask("explain", target)["summary"])
    bench = voices.ask("bench", target)
    (default,) = [variant for variant in bench["variants"] if variant["name"] == "default"]
    counts = ("graphs", "break_sites", "recompiles")
    voices.hear("bench", {count: default[count] for count in counts})
    voices.hear("bench", {"best": bench["verdict"]["best"]})
    voices.hear("cure", {"best": voices.ask("cure", target)["best"]})
    voices.agree()


_FIGURES = {
    "speed": r"([\d.]+)× (?:faster|slower)",
    "speed per call": r"by ([\d.]+ \S?s) per call|adds ([\d.]+ \S?s) per call",
    "other inputs": r"on (\d+) other inputs",
    "recompiles": r"(?<!→ )\b(\d+) recompiles?\b|recompiled (\d+) times",
    "recompiles after": r"recompiles? → (\d+)|→ (\d+) recompiles?",
    "recompiles before": r"(\d+) → \d+ recompiles?|(\d+) recompiles? →",
    "graphs after": r"→ (\d+) graphs|^graphs +\d+ +(\d+) ",
    "compiles to the limit": r"eagerly\s+after\s+(\d+) compiles",
    "coverage": r"(\d+)% of operations compiled|(\d+)% compiled:",
}


@pytest.mark.skipif(not shutil.which("c++"), reason="inductor needs a C++ compiler on a CPU")
@pytest.mark.parametrize(("name", "least"), [at_night("print", 1), ("counter", 7)])
def test_a_report_has_one_figure_of_a_kind(
    run_cli: RunCli, tmp_path: Path, name: str, least: int
) -> None:
    (tmp_path / f"{name}.py").write_text(PROGRAMS[name])
    environment = clean_environment(COLUMNS="200")
    seen = set()
    # A slow machine has no time for the edit whose figures are read, and a busy one may refuse it.
    fix = "fix --budget 600 --no-timing"
    for command in ("explain -v", "recompiles", "check", fix, "report --format markdown"):
        first, *rest = command.split()
        target = [] if first == "report" else [f"{name}.py"]
        text = run_cli(first, *target, *rest, cwd=tmp_path, env=environment).stdout
        for kind, pattern in _FIGURES.items():
            matches = re.finditer(pattern, text, re.MULTILINE)
            figures = {next(filter(None, match.groups())) for match in matches}
            assert len(figures) <= 1, (command, kind, figures, text)
            seen.update([kind] if figures else [])
    assert len(seen) >= least


def test_a_script_is_the_same_in_each_report(run_cli: RunCli, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAMS["script"])
    voices = Voices(run_cli, tmp_path)
    report = tmp_path / "run.json"
    run_cli("run", "--report", report, script)
    voices.hear_diagnosis("run", json.loads(report.read_text()))
    voices.hear_diagnosis("report", voices.ask("report"))
    compared = voices.ask("diff", report)
    voices.hear_counts("diff", compared["before"]["summary"])
    voices.hear_counts("diff", compared["after"]["summary"])
    again = tmp_path / "again.json"
    run_cli("run", "--report", again, script)
    voices.hear_diagnosis("run again", json.loads(again.read_text()))
    voices.agree()


def test_a_counter_is_what_plain_torch_makes_of_it(run_cli: RunCli, tmp_path: Path) -> None:
    (tmp_path / "counter.py").write_text(PROGRAMS["counter"])
    (tmp_path / "plain.py").write_text(PLAIN)
    environment = clean_environment()
    plain = run_script(tmp_path / "plain.py", cwd=tmp_path, env=environment).stdout.split()
    fixed = Voices(run_cli, tmp_path).ask("fix", "counter.py", "--no-timing", "--budget", "600")
    treatment = fixed["recording"]["treatment"]
    counts = [treatment[when]["graphs"] for when in ("before", "after")]
    assert plain == [str(count) for count in counts] == ["8", "2"]
    assert {fix["verdict"] for fix in treatment["tried"] if fix["is_applied"]} == {"verified"}
    assert treatment["after"]["frames_over_limit"] == 0


PLAIN = """
import torch
from counter import Net, example_inputs


def graph_count(is_dynamic):
    torch._dynamo.reset()
    torch._dynamo.config.allow_unspec_int_on_nn_module = is_dynamic
    graphs = []
    compiled = torch.compile(Net(), backend=lambda graph, inputs: graphs.append(graph) or graph)
    for _ in range(12):
        compiled(*example_inputs())
    return len(graphs)


print(graph_count(False), graph_count(True))
"""
