"""``graphdoctor fix``: fixes are tried on the very program, judged, put together, and written only
when asked."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import (
    REPOSITORY,
    clean_environment,
    interrupted,
    probe_python,
    run_command,
    run_script,
)
from tests.factories import in_words, why

pytestmark = pytest.mark.slow

DRAWING = """\
import random

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        y = torch.relu(self.linear(x))
        y = y * random.random()  # hidden
        return self.linear(y)


def example_inputs():
    return (torch.randn(4, 8),)
"""
TRACED = DRAWING.replace("random.random()", "random.uniform(0.0, 1.0)")
"""With the one edit that is safe."""
QUICK = ("--no-timing", "--jobs", "2", "--budget", "600")


def tried(folder: Path, name: str, *options: str, is_forked: bool = True) -> dict[str, Any]:
    """The document of ``fix``."""
    quick = () if "--no-try" in options else QUICK
    done = run_command(
        "fix", name, *quick, "--format", "json", *options, cwd=folder, is_forked=is_forked
    )
    assert done.stdout, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.fixture(scope="module")
def peeled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The sample whose second break hides a third, treated once."""
    folder = tmp_path_factory.mktemp("peeled")
    text = (REPOSITORY / "sample_models" / "hidden_second_break.py").read_text()
    (folder / "model.py").write_text(text)
    return folder, tried(folder, "model.py", "--unsafe-fixes")


def test_rounds_go_on_until_nothing_is_left(peeled):
    _, document = peeled
    treatment = document["recording"]["treatment"]
    before, after = treatment["before"], treatment["after"]
    assert (before["break_sites"], before["skipped_frames"], before["graphs"]) == (2, 1, 1)
    assert (after["break_sites"], after["skipped_frames"], after["graphs"]) == (0, 0, 1)
    assert after["coverage"] == 1.0
    assert treatment["left"] == []
    assert [case["code"] for case in treatment["tried"] if case["is_applied"]] == [
        "GD101",
        "GD101",
        "GD102",
    ]
    rounds = [case["round"] for case in treatment["tried"] if case["is_applied"]]
    assert rounds[0] == rounds[1] == 1 < rounds[2]


def test_each_trial_is_a_recording_that_report_shows(peeled):
    folder, document = peeled
    recording = folder / ".graphdoctor" / (folder / ".graphdoctor" / "last").read_text().strip()
    trials = sorted(path.name for path in (recording / "fixes").iterdir())
    assert len(trials) == document["recording"]["treatment"]["trial_count"]
    report = run_command(
        "report", recording / "fixes" / "untouched", "--format", "json", cwd=folder
    )
    assert (
        json.loads(report.stdout)["summary"]["graphs"]
        == document["recording"]["treatment"]["before"]["graphs"]
    )
    report = run_command("report", "--format", "json", cwd=folder)
    assert json.loads(report.stdout)["recording"]["treatment"] == document["recording"]["treatment"]
    # Only the recording itself keeps the text of files.
    for pattern, is_kept in (("trace/*.log", True), ("fixes/*/trace/*.log", False)):
        assert {b'"graphdoctor_file"' in log.read_bytes() for log in recording.glob(pattern)} == {
            is_kept
        }


ORACLE = REPOSITORY / "tests" / "fixes" / "oracle.py"


def asked_of_torch(program: Path) -> tuple[int, str | None]:
    """How many lines of a program break the graph, in torch's own words, and what ended it."""
    done = run_script(ORACLE, program, cwd=program.parent, env=clean_environment())
    [examined] = json.loads(done.stdout).values()
    return len(examined["sites"]), examined["error"]


def test_what_is_written_is_all_that_torch_needs(peeled):
    folder, _ = peeled
    program = folder / "model.py"
    text = program.read_text()
    options = (*QUICK, "--unsafe-fixes", "--apply")
    try:
        done = run_command("fix", "model.py", *options, cwd=folder, status=0)
        assert "nothing changed since" in done.stderr
        # The operator that prints stands after the imports, and takes no setting.
        written = program.read_text()
        assert "nn\n\n\n@torch.library.custom_op(" in written
        assert "ORDERED)\n\n\nclass" in written
        assert "torch.compiler.config" not in written
        assert asked_of_torch(program) == (0, None)
        assert "To write" not in run_command("report", cwd=folder, status=0).stdout
    finally:
        program.write_text(text)


TRAINING = """\
import torch
from torch import nn


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def forward(self, x, y):
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def example_inputs():
    return torch.randn(8, 8), torch.randint(0, 4, (8,))
"""


@pytest.mark.nightly
def test_torch_traces_the_backward_pass_of_a_training_step(tmp_path):
    (tmp_path / "model.py").write_text(TRAINING)
    treatment = tried(tmp_path, "model.py", "--unsafe-fixes", "--apply", "--force")["recording"][
        "treatment"
    ]
    assert [fix["title"] for fix in treatment["tried"] if fix["is_applied"]] == [
        "Let torch trace the backward pass, and detach `loss` after it"
    ]
    assert (
        "        loss.backward()\n        loss = loss.detach()\n"
        in (tmp_path / "model.py").read_text()
    )
    # Plain torch agrees: two lines break, the backward pass isn't one of them.
    assert asked_of_torch(tmp_path / "model.py") == (2, None)


def test_apply_writes_once_and_changes_nothing_else(tmp_path):
    path = tmp_path / "model.py"
    text = "# -*- coding: latin-1 -*-\n" + DRAWING.replace("hidden", "café").replace("    ", "\t")
    path.write_bytes(text.replace("\n", "\r\n").encode("latin-1"))
    path.chmod(0o640)
    assert (
        f"Wrote {path}"
        in run_command("fix", "model.py", *QUICK, "--apply", cwd=tmp_path, status=0).stderr
    )
    wanted = text.replace("random.random()", "random.uniform(0.0, 1.0)")
    assert path.read_bytes() == wanted.replace("\n", "\r\n").encode("latin-1")
    assert path.stat().st_mode & 0o777 == 0o640
    again = run_command("fix", "model.py", *QUICK, "--apply", cwd=tmp_path, status=0)
    assert "There is nothing to write." in again.stderr
    assert "Nothing to fix" in again.stdout


def test_files_with_uncommitted_changes_are_refused_before_the_first_trial(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(DRAWING)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    done = run_command("fix", "model.py", *QUICK, "--apply", cwd=tmp_path, status=2)
    assert "model.py is not in git yet." in done.stderr
    assert "--force" in done.stderr
    assert path.read_text() == DRAWING
    assert list(tmp_path.glob(".graphdoctor/*/trace/*")), "it was run"
    assert not list(tmp_path.glob(".graphdoctor/*/fixes")), "nothing was tried"


def test_unsafe_fixes_are_told_and_not_tried_unless_asked_for(tmp_path):
    (tmp_path / "model.py").write_text(
        (REPOSITORY / "sample_models" / "explicit_graph_break.py").read_text()
    )
    document = tried(tmp_path, "model.py")
    [case] = [
        case for case in document["recording"]["treatment"]["tried"] if case["kind"] == "code"
    ]
    assert (case["verdict"], case["is_safe"]) == ("not tried", False)
    assert "--unsafe-fixes" in (why(case) or "")
    assert document["recording"]["treatment"]["after"] is None


def test_no_try_runs_once_and_writes_a_git_patch(tmp_path):
    counting = 'import pathlib\n\nwith pathlib.Path(__file__).with_name("runs").open("a") as runs:\n    runs.write("x")\n'
    (tmp_path / "model.py").write_text(counting + DRAWING)
    patch = run_command("fix", "model.py", "--no-try", "--diff", cwd=tmp_path).stdout
    assert (tmp_path / "runs").read_text() == "x"
    treatment = json.loads(run_command("report", "--format", "json", cwd=tmp_path).stdout)[
        "recording"
    ]["treatment"]
    assert {case["verdict"] for case in treatment["tried"] if case["kind"] == "code"} == {
        "not tried"
    }
    assert treatment["after"] is None
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=patch, text=True, check=True)
    assert (tmp_path / "model.py").read_text() == counting + TRACED


TROUBLE = {
    "an import that fails": ("raise ImportError('not me')", "ImportError: not me"),
    "a hang": ("import time; time.sleep(600)", "Stopped"),
    "memory": (
        "hoard = bytearray(b'x' * 1_500_000_000); import time; time.sleep(600)",
        "too much memory",
    ),
}


@pytest.mark.parametrize("name", TROUBLE)
def test_broken_trial_is_failed_and_others_go_on(tmp_path, name):
    statement, says = TROUBLE[name]
    # The program compares its own text as Python sees it with the one on disk, so only an edited
    # one misbehaves.
    guard = (
        'import linecache\nif "".join(linecache.getlines(__file__)) != open(__file__).read():\n    '
    )
    (tmp_path / "model.py").write_text(f"{guard}{statement}\n{DRAWING}")
    # Long enough for the program as it is, which is tried under the same limit.
    limits = ["--trial-timeout", "30" if name == "a hang" else "100", "--trial-memory", "1"]
    # The memory of the process that was started is watched, so it must be the one that takes it.
    document = tried(tmp_path, "model.py", *limits, is_forked=name != "memory")
    [case] = [
        case
        for case in document["recording"]["treatment"]["tried"]
        if case["kind"] == "code" and case["is_safe"]
    ]
    assert case["verdict"] == "failed"
    assert says in (why(case) or "")
    assert (tmp_path / "model.py").read_text() == f"{guard}{statement}\n{DRAWING}"


SCALED = re.sub(
    r"        y = torch.*linear\(y\)",
    "        y = self.linear(x)\n        return y / y.square().sum().item()",
    DRAWING,
    flags=re.DOTALL,
)


def test_dropping_a_read_that_cut_gradients_changes_results(tmp_path, monkeypatch):
    from graphdoctor.facts.spec import RunSpec
    from graphdoctor.fixes import options
    from graphdoctor.fixes.moves.stay import keep_tensor
    from graphdoctor.fixes.patch import SearchOptions
    from graphdoctor.fixes.recipe import Edit, recipe
    from graphdoctor.fixes.search import search
    from graphdoctor.rules.diagnosis.selection import Selection
    from graphdoctor.trace.reader import read_recording
    from graphdoctor.trials.launch.child import Setup
    from graphdoctor.trials.launch.request import Request

    path = tmp_path / "model.py"
    path.write_text(SCALED)
    assert run_command("explain", "model.py", cwd=tmp_path).returncode == 0
    recording = tmp_path / ".graphdoctor" / (tmp_path / ".graphdoctor" / "last").read_text().strip()
    monkeypatch.chdir(tmp_path)

    @recipe("GD103")
    def drop_item(place):
        content = place.source.content.replace(b".item()", b"")
        return Edit("Keep the tensor, and let gradients flow through it", content)

    monkeypatch.setattr(options, "recipes_for", lambda _code: (drop_item, keep_tensor))
    treatment = search(
        Request.of(RunSpec(target="model.py")), recording,
        read_recording(recording), root=tmp_path, setup=Setup(python=probe_python()),
        options=SearchOptions(Selection(), is_timed=False, jobs=2),
    ).treatment  # fmt: skip
    dropped, kept = treatment.tried
    assert (dropped.verdict, kept.verdict) == ("changes results", "verified")
    assert "let gradients flow" in dropped.title
    assert re.fullmatch(r"call 1, gradient of linear\.\w+ differs by [\d.]+", why(dropped) or "")
    # The outputs are equal: only the gradients tell.
    assert [difference.kind for difference in dropped.compared.differences] == ["gradients"]
    assert kept.compared.differences == ()
    assert "gradients" in kept.compared.kinds
    assert treatment.diff.count("+        return y / y.square().sum().detach()") == 1


def test_a_program_that_is_not_deterministic_proves_nothing(tmp_path):
    noise = "y = torch.relu(self.linear(x)) + int.from_bytes(self.noise)"
    text = DRAWING.replace("y = torch.relu(self.linear(x))", noise).replace(
        "        self.linear =",
        "        self.noise = __import__('os').urandom(2)\n        self.linear =",
    )
    (tmp_path / "model.py").write_text(text)
    document = tried(tmp_path, "model.py")
    [case] = [case for case in document["recording"]["treatment"]["tried"] if case["is_safe"]]
    assert case["verdict"] == "unproven"
    assert "differ from run to run" in (why(case) or "")
    assert any(
        "two runs without torch.compile differ in" in (note or "")
        for note in in_words(document["recording"]["treatment"]["notes"])
    )
    assert document["recording"]["treatment"]["after"] is None


SOURCELESS = {
    "made by exec": 'exec("def speak(x):\\n    print(1)\\n    return x.cos()\\n")',
    "in a zip file": 'import sys\nsys.path.insert(0, "lib.zip")\nfrom speaking import speak',
    "compiled only": "from speaking import speak",
}


@pytest.mark.parametrize("name", SOURCELESS)
def test_code_without_a_source_file_is_never_edited(tmp_path, name):
    helper = tmp_path / "speaking.py"
    helper.write_text("def speak(x):\n    print(1)\n    return x.cos()\n")
    if name == "in a zip file":
        import zipfile

        with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
            archive.write(helper, "speaking.py")
        helper.unlink()
    elif name == "compiled only":
        import py_compile

        py_compile.compile(str(helper), str(tmp_path / "speaking.pyc"), doraise=True)
        helper.unlink()
    text = f"import torch\n{SOURCELESS[name]}\n\n\ndef forward(x):\n    return speak(x.sin()) + 1\n\n\n"
    (tmp_path / "model.py").write_text(
        f"{text}def example_inputs():\n    return (torch.randn(4),)\n"
    )
    done = run_command(
        "fix", "model.py:forward", "--no-try", "--format", "json", cwd=tmp_path, status=0
    )
    document = json.loads(done.stdout)
    assert document["findings"]
    assert document["recording"]["treatment"]["diff"] == ""
    assert all(case["kind"] != "code" for case in document["recording"]["treatment"]["tried"])


def test_times_are_taken_in_turns_under_the_backend_that_decides(tmp_path):
    (tmp_path / "model.py").write_text(DRAWING)
    document = json.loads(
        run_command("explain", "model.py", "--try", "--format", "json", cwd=tmp_path).stdout
    )
    treatment = document["recording"]["treatment"]
    assert [times["backend"] for times in treatment["times"]] == ["inductor"]
    for times in treatment["times"]:
        assert times["turns"] >= 5
        assert times["ratio_low"] <= times["ratio"] <= times["ratio_high"]
        assert times["before_us"] > 0 < times["after_us"]
    # What Inductor compiled for timing is where nothing else finds it, and gone.
    asked = {
        path.parent.name: json.loads(path.read_text())["trial"]
        for path in tmp_path.glob("*/*/fixes/*/request.json")
    }
    timed = {name for name in asked if name.startswith("time-")}
    assert {name for name, trial in asked.items() if trial.get("compiled")} == timed
    assert len({trial["compiled"] for trial in asked.values() if trial.get("compiled")}) == 1
    assert not list(tmp_path.glob("*/*/fixes/compiled"))


def test_what_was_tried_before_ctrl_c_is_kept(tmp_path):
    (tmp_path / "model.py").write_text(DRAWING)
    printed, said = interrupted(
        "fix", "model.py", cwd=tmp_path, once=".graphdoctor/*/fixes/time*/probe.jsonl"
    )
    assert "interrupted before everything was tried" in " ".join(printed.split())
    assert said.endswith("Interrupted. The same command goes on.\n")
    assert (tmp_path / "model.py").read_text() == DRAWING
    treatment = json.loads(run_command("report", "--format", "json", cwd=tmp_path).stdout)[
        "recording"
    ]["treatment"]
    assert [case["verdict"] for case in treatment["tried"] if case["is_applied"]] == ["verified"]
    assert treatment["after"]["break_sites"] == 0
    assert any("interrupted" in (note or "") for note in in_words(treatment["notes"]))
    # By the same interpreter.
    options = ("--no-timing", "--budget", "600")
    again = run_command("fix", "model.py", *options, cwd=tmp_path, is_forked=False, status=0)
    assert "Going on with the trials of" in again.stderr
    assert len(list(tmp_path.glob(".graphdoctor/2*"))) == 1, "it goes on in the same recording"


@pytest.mark.parametrize(
    ("program", "shown", "left_out"),
    [
        ((REPOSITORY / "sample_models" / "item.py").read_text(), "GD103", "Graph break"),
        (
            "import time\nimport torch\n\n\ndef model(x):\n    return x + time.time()\n\n\n"
            "def example_inputs():\n    return (torch.ones(3),)\n",
            "time.time()",
            "does not know how to trace",
        ),
    ],
    ids=["logged", "warned"],
)
def test_torch_does_not_say_what_the_report_says(tmp_path, program, shown, left_out):
    (tmp_path / "program.py").write_text(program)
    done = run_command("explain", "program.py", cwd=tmp_path)
    assert shown in done.stdout
    assert left_out not in done.stderr


READING = f"""\
import json
import os
import pathlib

import helper

DATA = pathlib.Path(__file__).with_name("data.csv")
try:
    open("optional.json")
except FileNotFoundError:
    pass
DATA.with_name("log.txt").write_text("started")
SIZE = len(DATA.read_text()) + len(open("data.csv").read()) + os.stat("unread.txt").st_size

{DRAWING}"""


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A program that reads files, treated once; and what that printed."""
    folder = tmp_path_factory.mktemp("verified")
    (folder / "helper.py").write_text("VALUE = 1\n")
    (folder / "data.csv").write_text("1,2\n")
    (folder / "unread.txt").write_text("1")
    (folder / "model.py").write_text(READING)
    time.sleep(0.05)
    return folder, run_command("fix", "model.py", *QUICK, cwd=folder, status=0).stderr


def test_apply_after_fix_tries_nothing_again(verified):
    folder, _ = verified
    text = (folder / "model.py").read_text()
    runs = sorted(folder.glob(".graphdoctor/2*"))
    for extra in (("--diff",), ("--format", "json"), ("--format", "markdown"), ()):
        again = run_command("fix", "model.py", *QUICK, *extra, cwd=folder, status=0)
        assert re.search(
            r"Tried \d+ seconds? ago, and nothing changed since: \S+-model \(--again tries anew\)\.",
            again.stderr,
        )
    quiet = run_command("fix", "model.py", *QUICK, "-q", "--diff", cwd=folder)
    assert quiet.stderr == ""
    assert "+        y = y * random.uniform(0.0, 1.0)" in quiet.stdout
    done = run_command("fix", "model.py", *QUICK, "--apply", cwd=folder)
    try:
        assert done.returncode == 0, done.stderr
        assert "nothing changed since" in done.stderr
        assert f"Wrote {folder / 'model.py'}" in done.stderr
        assert "--apply" not in done.stdout
        assert (folder / "model.py").read_text() == READING.replace(DRAWING, TRACED)
        assert sorted(folder.glob(".graphdoctor/2*")) == runs, "nothing ran"
    finally:
        # For the other tests; the same content counts as the same file.
        (folder / "model.py").write_text(text)


def test_a_program_that_forks_is_never_taken_as_unchanged(tmp_path):
    forking = "import os\nif (child := os.fork()) == 0:\n    os._exit(0)\nos.waitpid(child, 0)\n"
    (tmp_path / "model.py").write_text(forking + DRAWING)
    time.sleep(0.05)
    assert "trial 1 · gone" in run_command("fix", "model.py", *QUICK, cwd=tmp_path).stderr
    again = run_command("fix", "model.py", *QUICK, cwd=tmp_path)
    assert "the program forks processes, and what they read isn't known" in again.stderr
    assert "trial 1 · gone" in again.stderr


@pytest.mark.parametrize("options", [(), ("--diff",), ("--format", "json")])
def test_input_without_a_single_target_is_an_error(tmp_path, options):
    (tmp_path / "model.py").write_text(
        DRAWING.replace("def example_inputs", "class Other(Net):\n    pass\n\n\ndef example_inputs")
    )
    done = run_command("fix", "model.py", *options, cwd=tmp_path, status=2)
    assert done.stdout == "" or options[:1] == ("--format",)
    assert done.stderr.startswith("error: ")
    assert "more than one thing that could be the target" in done.stderr
    assert "o fix" not in done.stderr
