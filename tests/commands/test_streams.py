"""Standard streams that are closed or full, files that can't be written: a sentence, and the right
exit code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from graphdoctor.commands.terminal import system_error_text
from graphdoctor.facts.reading import write_private
from tests.conftest import REPOSITORY, clean_environment, command_line

pytestmark = pytest.mark.slow

RECORDING = REPOSITORY / "tests" / "recordings" / "2.13.0" / "item"


def run(folder: Path, redirections: str, *args: object) -> subprocess.CompletedProcess[str]:
    """Run the command in a shell that redirects its streams."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirections}', "sh", *command_line(*args)],
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


FULL = "error: Standard output can't be written: No space left on device.\n"
CLOSED = "error: Standard output can't be written: it is closed.\n"


@pytest.mark.parametrize(
    ("redirections", "args", "status", "said"),
    [
        ("> /dev/full", ("report", RECORDING), 2, FULL),
        ("> /dev/full", ("report", RECORDING, "--format", "json"), 2, FULL),
        ("> /dev/full", ("rule", "GD101"), 2, FULL),
        ("> /dev/full", ("--help",), 2, FULL),
        (
            ">&-",
            ("report", RECORDING),
            2,
            "error: Standard output is closed.\nhint: Name a file: -o FILE.\n",
        ),
        (">&-", ("rule", "GD101"), 2, CLOSED),
        (">&-", ("report", RECORDING, "-q", "-o", "out.json"), 0, ""),
        ("2>&-", ("report", RECORDING, "-o", "out.json"), 0, ""),
        ("2> /dev/full", ("report", RECORDING, "-o", "out.json"), 0, ""),
        ("2> /dev/full", ("report", "nothing"), 2, ""),
        ("<&- >&- 2>&-", ("report", RECORDING, "-o", "out.json"), 0, ""),
    ],
)
def test_a_stream_that_takes_nothing(tmp_path, redirections, args, status, said):
    process = run(tmp_path, redirections, *args)
    assert (process.returncode, process.stderr, process.stdout) == (status, said, "")
    if "out.json" in args:
        assert (tmp_path / "out.json").read_text().startswith('{\n  "schema_version"')


def test_a_device_is_written_to_and_stays(tmp_path):
    process = run(tmp_path, "", "report", RECORDING, "--format", "json", "-o", "/dev/full")
    assert (process.returncode, process.stderr) == (
        2,
        "error: Can't write /dev/full: No space left on device.\n",
    )
    assert Path("/dev/full").is_char_device()
    process = run(tmp_path, "", "report", RECORDING, "--format", "json", "-o", "/dev/stdout", "-q")
    assert (process.returncode, process.stdout[:3]) == (0, "{\n ")


MODEL = """\
import shutil, torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1

def example_inputs():
    yield (torch.randn(4),)
    if REMOVED:
        shutil.rmtree(".graphdoctor")
    yield (torch.randn(5),)
"""


def test_a_recording_that_the_program_removes_is_missed(tmp_path, run_cli):
    (tmp_path / "model.py").write_text(MODEL.replace("REMOVED", "True"))
    process = run_cli("explain", "model.py", "--no-coverage", status=2)
    assert process.stderr.startswith("error: The recording ")
    assert process.stderr.endswith("was removed while the program ran.\n")


def test_a_script_that_removes_the_recording_keeps_its_exit_status(tmp_path, run_cli):
    program = (
        MODEL.replace("REMOVED", "True")
        + "for _ in example_inputs():\n    pass\nraise SystemExit(3)\n"
    )
    (tmp_path / "script.py").write_text(program)
    process = run_cli("run", "script.py", status=3)
    assert "was removed while the program ran." in process.stderr
    assert "please report" not in process.stderr


def test_log_above_the_size_limit_is_reported_as_cut(tmp_path):
    (tmp_path / "model.py").write_text(MODEL.replace("REMOVED", "False"))
    process = limited(tmp_path, "-f 40", "explain", "model.py", "--no-coverage")
    assert process.returncode == 2
    assert process.stderr == (
        "error: The trace log could not be written: File too large. What torch did afterwards is missing.\n"
    )
    assert "please report" not in process.stdout
    assert "changed torch's trace logger" not in process.stdout


def test_recordings_go_to_the_chosen_folder(tmp_path, run_cli, clean_target):
    run_cli("explain", clean_target, "--no-coverage", "-q", "--recordings", "there/inner", status=0)
    assert not (tmp_path / ".graphdoctor").exists()
    assert (
        "1 graph"
        in run_cli("report", env=clean_environment(GRAPHDOCTOR_RECORDINGS="there/inner")).stdout
    )
    shutil.rmtree(tmp_path / "there")
    (tmp_path / "there").write_text("")
    process = run_cli("explain", clean_target, "--recordings", "there/inner", status=2)
    assert "there/inner can't be written" in process.stderr


def test_a_full_folder_is_named(tmp_path):
    with pytest.raises(OSError, match="No space left") as caught:
        write_private(Path("/dev/full"), "x" * 100_000)
    assert system_error_text(caught.value) == "/dev/full can't be written: No space left on device."


def limited(folder: Path, limit: str, *args: object) -> subprocess.CompletedProcess[str]:
    """Run the command under a limit of the shell's."""
    command = ["bash", "-c", f'ulimit {limit}; exec "$@"', "bash", *command_line(*args)]
    return subprocess.run(
        command,
        cwd=folder,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize("count", [6, 8, 10])
def test_too_few_descriptors_are_said_to_be_that(tmp_path, clean_target, count):
    process = limited(tmp_path, f"-n {count}", "explain", clean_target, "--no-coverage")
    assert process.returncode == 2
    assert process.stderr.endswith(": Too many open files.\n")
    assert "Standard output" not in process.stderr


@pytest.mark.parametrize("before", [None, "# mine\n" * 140])
def test_half_a_section_is_taken_back(tmp_path, clean_target, before):
    config = tmp_path / "pyproject.toml"
    if before is not None:
        config.write_text(before)
    process = limited(tmp_path, "-f 1" if before else "-f 0", "init")
    assert (process.returncode, process.stderr) == (
        2,
        f"error: {config} can't be written: File too large.\n",
    )
    assert (config.read_text() if config.exists() else None) == before


TAKEN = MODEL.replace("shutil, torch", "json, os, torch").partition("    if REMOVED")[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("os.closerange(3, 1000)", "The program closed a file descriptor that isn't its own"),
        ("json.dumps = None", "The program failed in call 2: TypeError"),
    ],
)
def test_what_a_program_takes_away_is_named(tmp_path, run_cli, line, said):
    (tmp_path / "model.py").write_text(f"{TAKEN}    {line}\n    yield (torch.randn(5),)\n")
    process = run_cli("explain", "model.py", "--no-coverage", status=2)
    assert f"error: {said}" in process.stderr
    assert "disk may be full" not in process.stderr
    assert "ended the process" not in process.stderr
