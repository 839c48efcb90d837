"""What standard error shows while a survey runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from graphdoctor.commands import survey_progress
from graphdoctor.commands.survey_progress import SurveyProgress
from tests.studies.survey.reports import failed, row

WHY = {
    "stage": "inductor",
    "error": "an operator isn't\nsupported",
    "error_type": "torch._inductor.exc.InductorError",
}


def run(progress: SurveyProgress) -> None:
    with progress:
        progress.planned(412, 9)
        progress.began(("bert", "default"), None)
        progress.began(("t5\x1b[2J", "default"), "node-1")
        progress.finished(
            row("bert", break_sites=2, speedup=1.43, speedup_low=1.4, speedup_high=1.46)
        )
        progress.retrying(("t5\x1b[2J", "default"), "crashed")
        progress.finished(
            failed(
                "t5\x1b[2J",
                "compile_failed",
                **WHY,
                attempts=2,
                earlier=("crashed",),
                seconds=200.0,
            )
        )


def test_each_piece_is_a_plain_line_off_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    run(SurveyProgress(is_quiet=False))
    assert capfd.readouterr().err.splitlines() == [
        "9/412 kept from an earlier run",
        "10/412 bert default: ok, 2 breaks, 1.43× (1.40 to 1.46), 21 s",
        "t5\N{REPLACEMENT CHARACTER}[2J default: crashed, running it again",
        "11/412 t5\N{REPLACEMENT CHARACTER}[2J default: compile failed (Inductor), 2 attempts, 3 min: "
        "InductorError: an operator isn't supported",
    ]


def test_quiet_shows_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    run(SurveyProgress(is_quiet=True))
    assert capfd.readouterr().err == ""


def test_a_terminal_has_a_bar_and_what_is_running(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(width=80, file=io.StringIO(), color_system=None, force_terminal=True)
    monkeypatch.setattr(survey_progress, "live_console", lambda **_: console)
    progress = SurveyProgress(is_quiet=False)
    with progress:
        progress.planned(412, 12)
        progress.began(("bert", "default"), None)
        progress.began(("gpt2\x1b[2J", "default"), "slot 2")
        progress.finished(row("bert"))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    for shown in ("13 of 412", "gpt2\N{REPLACEMENT CHARACTER}[2J default on slot 2", "13/412 bert"):
        assert shown in text
