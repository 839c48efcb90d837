"""What standard error shows while programs run."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from graphdoctor.commands.progress import Progress, _Ticking
from graphdoctor.facts.progress import DecidedTrial, TimedPrograms, TrialCounts, TrialEvent

TRIALS: tuple[TrialEvent, ...] = (
    TrialCounts(1, 2),
    TrialCounts(1, 2, left_s=12.0),
    DecidedTrial(1, "Skip `print(…)` while compiling\x1b[2J", (("model.py:3", "verified"),)),
    TrialCounts(2, 2, left_s=0.0),
    DecidedTrial(2, "Choose `x` with `torch.where`", (("model.py:5", "no effect"),)),
    TrialCounts(2, 2, timing=1, timings=1, is_open=False),
    TimedPrograms(1, "eager", None, "the call is too short to time"),
)


def test_a_line_of_ours_begins_on_a_line_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress(is_quiet=False) as progress:
        progress.say("first")
        progress.setup(None, None).on_output(b"50%")
        progress.say("second")
        progress.setup(None, None).on_output(b"done\n")
        progress.say("third\x1b[2J")
        progress.setup(None, None).on_output(b"open")
    assert capfd.readouterr().err == "first\n50%\nsecond\ndone\nthird\N{REPLACEMENT CHARACTER}[2J\nopen\n"


def test_verdicts_are_plain_lines_off_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress(is_quiet=False) as progress:
        for event in TRIALS:
            progress.show_trial(event)
    assert capfd.readouterr().err.splitlines() == [
        "trial 1 of 2 · verified · model.py:3 · Skip `print(…)` while compiling\N{REPLACEMENT CHARACTER}[2J"
        " · at least 10 seconds left",
        "trial 2 of 2 · no effect · model.py:5 · Choose `x` with `torch.where`",
        "timing 1 of 1 · eager · not timed: the call is too short to time",
    ]


def test_quiet_prints_no_verdicts(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress(is_quiet=True) as progress:
        for event in TRIALS:
            progress.show_trial(event)
    assert capfd.readouterr().err == ""


def test_on_a_terminal_a_line_counts_down_below_the_verdicts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [100.0]
    monkeypatch.setattr("graphdoctor.commands.progress.time.monotonic", lambda: now[0])
    ticking = _Ticking(TrialCounts(3, 8, left_s=12.0))
    console = Console(width=40, file=io.StringIO(), color_system=None)

    def shown() -> str:
        with console.capture() as captured:
            console.print(ticking)
        return captured.get().strip()

    assert shown() == "trial 3 of 8 · at least 10 seconds left"
    now[0] += 5
    assert shown() == "trial 3 of 8 · at least 7 seconds left"
    now[0] += 60
    assert shown() == "trial 3 of 8", "never below zero"
    console.width = 14
    assert len(shown().splitlines()) == 1, "one line, however narrow"
