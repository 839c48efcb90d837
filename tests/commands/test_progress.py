"""What standard error shows while programs run."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from graphdoctor.commands.phases import Phases, phases_of
from graphdoctor.commands.progress import Progress, _Line
from graphdoctor.facts.fixes import Reason
from graphdoctor.facts.progress import DecidedTrial, TimedPrograms, TrialEvent
from graphdoctor.trials.launch.store import Store
from tests.commands.test_cli import read_all

TRIALS: tuple[TrialEvent, ...] = (
    DecidedTrial(1, "Skip `print(…)` while compiling\x1b[2J", (("model.py:3", "verified"),)),
    DecidedTrial(2, "Choose `x` with `torch.where`", (("model.py:5", "no effect"),)),
    TimedPrograms(1, "eager", None, Reason(kind="too_short")),
)


def test_a_line_of_ours_begins_on_a_line_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
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
        "trial 1 · verified · model.py:3 · Skip `print(…)` while compiling\N{REPLACEMENT CHARACTER}[2J",
        "trial 2 · no effect · model.py:5 · Choose `x` with `torch.where`",
        "timing 1 · eager · not timed: the call is too short to time",
    ]


def test_quiet_prints_no_verdicts(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress(is_quiet=True) as progress:
        for event in TRIALS:
            progress.show_trial(event)
    assert capfd.readouterr().err == ""


EARLIER = (("importing torch", 4.0), ("call 1", 12.0), ("comparing results", 4.0))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def shown(phases: Phases, width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    with console.capture() as captured:
        console.print(console.status(_Line(phases)).renderable)
    lines = captured.get().rstrip().splitlines()
    assert len(lines) == 1
    return lines[0].lstrip("⠋━╸╺ ")


def test_without_an_earlier_run_nothing_is_estimated() -> None:
    clock = Clock()
    phases = Phases(clock=clock)
    assert shown(phases) == "starting · 0:00"
    phases.show("importing torch")
    clock.now += 65
    assert shown(phases) == "importing torch · 1:05"
    assert (phases.share, phases.left_s, phases.overdue_s) == (None, None, None)


def test_what_is_left_comes_from_the_last_run_and_never_grows() -> None:
    clock = Clock()
    phases = Phases((), EARLIER, clock=clock)
    phases.show("importing torch")
    clock.now += 2
    assert (shown(phases), phases.share) == (
        "importing torch · 0:02 · about 20 seconds left",
        pytest.approx(0.1),
    )
    phases.show("call 1")
    phases.show("call 1, compiling 0/0")
    clock.now += 9
    assert (phases.left_s, phases.share) == (pytest.approx(7.0), pytest.approx(0.65))
    assert shown(phases) == "call 1, compiling 0/0 · 0:11 · about 7 seconds left"
    clock.now += 30
    assert shown(phases) == "call 1, compiling 0/0 · 0:41 · longer than last time (12 s)"
    assert phases.share == pytest.approx(0.8), "the bar waits"
    phases.show("something new")
    assert (shown(phases), phases.share) == ("something new · 0:41", pytest.approx(0.8))
    phases.show("comparing results")
    assert shown(phases) == "comparing results · 0:41 · about 4 seconds left"
    clock.now += 60
    assert phases.share == pytest.approx(1.0)


@pytest.mark.parametrize("width", [20, 40, 72, 80, 140])
def test_the_status_is_one_line_however_narrow(width: int) -> None:
    phases = Phases((), EARLIER, clock=Clock())
    phases.show("call 1, " + "compiling " * 40)
    assert len(shown(phases, width)) <= width
    if width >= 40:
        assert shown(phases, width).endswith(" · about 15 seconds left")


def test_what_a_bench_found_so_far_comes_before_the_bar() -> None:
    phases = Phases((), (("timing calls in turns", 12.0),), clock=Clock())
    phases.show("timing calls in turns, default 1.52× so far, round 8")
    assert "default 1.52× so far" in shown(phases, 80)
    assert "━" not in shown(phases, 80)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "2.13.0")
    return Store(tmp_path, keep_count=9)


def run_once(store: Store, *command: str, took_s: float) -> Path:
    clock = Clock()
    phases = Phases(phases_of(command, store, None).command, clock=clock)
    phases.show("call 1")
    clock.now += took_s
    recording = store.create("model").path
    phases.keep(recording)
    return recording


def left_s(store: Store, *command: str, python: str | None = None) -> float | None:
    phases = phases_of(command, store, python)
    phases.show("call 1")
    return None if phases.left_s is None else round(phases.left_s)


def test_the_newest_run_of_the_same_command_counts(store: Store) -> None:
    run_once(store, "explain", "model.py", took_s=90)
    run_once(store, "explain", "model.py", took_s=30)
    run_once(store, "explain", "other.py", took_s=60)
    store.create("model")  # it failed, and kept nothing
    assert left_s(store, "explain", "model.py") == 30
    assert left_s(store, "explain", "other.py") == 60
    assert left_s(store, "bench", "model.py") is None


def test_another_torch_takes_another_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    run_once(store, "explain", "model.py", took_s=30)
    assert left_s(store, "explain", "model.py", python="/elsewhere/python") is None
    monkeypatch.setattr("importlib.metadata.version", lambda _name: "2.14.0")
    assert left_s(store, "explain", "model.py") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"command": 3, "phases": []}', "\xff"])
def test_what_cannot_be_read_estimates_nothing(store: Store, text: str) -> None:
    (run_once(store, "explain", "model.py", took_s=30) / "phases.json").write_text(
        text, encoding="latin-1"
    )
    assert left_s(store, "explain", "model.py") is None


PROGRAM = """
import time
from graphdoctor.commands.phases import Phases
from graphdoctor.commands.progress import Progress
with Progress(Phases((), (("call 1", 12.0),)), is_quiet=False) as progress:
    progress.show_phase("call 1")
    time.sleep(0.5)
"""
"""Long enough for the status to be drawn twice."""


@pytest.mark.slow
@pytest.mark.parametrize("term, is_live", [("xterm-256color", True), ("dumb", False)])
def test_only_a_terminal_shows_the_status_and_keeps_none_of_it(term: str, *, is_live: bool) -> None:
    environment = {**os.environ, "TERM": term, "NO_COLOR": "1", "COLUMNS": "80"}
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=theirs, env=environment)
    os.close(theirs)
    seen = read_all(ours).decode()
    assert process.wait() == 0
    assert ("call 1 · 0:00 · about 10 seconds left" in seen) is is_live
    # The last thing that happens on the line is that it's erased.
    assert seen.rpartition("\x1b[2K")[2].strip() == ""
    assert not re.search(r"\x1b\[[\d;]*3\d", seen), "colors, under NO_COLOR"


def test_off_a_terminal_no_status_is_written() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
