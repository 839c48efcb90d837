"""What standard error shows while programs run."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading

import pytest

from graphdoctor.commands.terminal import Progress
from graphdoctor.facts.fixes import Reason
from graphdoctor.facts.progress import DecidedTrial, TimedPrograms, TrialEvent
from tests.commands.test_cli import read_all

TRIALS: tuple[TrialEvent, ...] = (
    DecidedTrial(1, "Skip `print(…)` while compiling\x1b[2J", (("model.py:3", "verified"),)),
    DecidedTrial(2, "Choose `x` with `torch.where`", (("model.py:5", "no effect"),)),
    TimedPrograms(1, "eager", None, Reason(kind="too_short")),
)


def test_our_output_begins_on_a_new_line(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress(is_quiet=False) as progress:
        progress.say("first")
        progress.setup(None, None).on_output(b"50%")
        progress.say("second")
        progress.setup(None, None).on_output(b"done\n")
        progress.say("third\x1b[2J")
        progress.setup(None, None).on_output(b"open")
    assert (
        capfd.readouterr().err
        == "first\n50%\nsecond\ndone\nthird\N{REPLACEMENT CHARACTER}[2J\nopen\n"
    )


def test_verdicts_are_plain_lines_off_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress(is_quiet=False) as progress:
        for event in TRIALS:
            progress.show_trial(event)
    assert capfd.readouterr().err.splitlines() == [
        "trial 1 · gone · model.py:3 · Skip `print(…)` while compiling\N{REPLACEMENT CHARACTER}[2J",
        "trial 2 · no effect · model.py:5 · Choose `x` with `torch.where`",
        "timing 1 · eager · not timed: the call is too short to time",
    ]


def test_quiet_prints_no_verdicts(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress(is_quiet=True) as progress:
        for event in TRIALS:
            progress.show_trial(event)
    assert capfd.readouterr().err == ""


def test_off_a_terminal_a_long_silence_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    said, has_spoken = list[str](), threading.Event()

    def say(line: str) -> None:
        said.append(line)
        has_spoken.set()

    monkeypatch.setattr("graphdoctor.commands.terminal._SILENT_S", 0.0)
    progress = Progress(is_quiet=False)
    monkeypatch.setattr(progress, "say", say)
    progress.show_phase("trial 3: 5 fixes together")
    with progress:
        assert has_spoken.wait(60)
    assert said[0].startswith("trial 3: 5 fixes together · 0:")


PROGRAM = """
import time
from graphdoctor.commands.terminal import Progress
with Progress(is_quiet=False) as progress:
    progress.show_phase("call 1")
    time.sleep(0.5)
"""
"""Long enough for the status to be drawn twice."""


@pytest.mark.slow
@pytest.mark.parametrize("term, is_live", [("xterm-256color", True), ("dumb", False)])
def test_only_a_terminal_shows_the_status_and_clears_it(term: str, *, is_live: bool) -> None:
    environment = {**os.environ, "TERM": term, "NO_COLOR": "1", "COLUMNS": "80"}
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=theirs, env=environment)
    os.close(theirs)
    seen = read_all(ours).decode()
    assert process.wait() == 0
    assert ("call 1 · 0:00" in seen) is is_live
    # The last thing that happens on the line is that it's erased.
    assert seen.rpartition("\x1b[2K")[2].strip() == ""
    assert not re.search(r"\x1b\[[\d;]*3\d", seen), "colors, under NO_COLOR"


def test_off_a_terminal_no_status_is_written() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
