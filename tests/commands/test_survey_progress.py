"""What standard error shows while a survey runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

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


def shown(board: SurveyProgress, width: int, height: int = 24) -> list[str]:
    console = Console(
        width=width, height=height, file=io.StringIO(), color_system=None, force_terminal=True
    )
    console.print(board)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found = [1000.0]
    monkeypatch.setattr("graphdoctor.commands.survey_progress.time.monotonic", lambda: found[0])
    return found


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


def test_board_shows_counts_running_and_last_finished_pieces(now: list[float]) -> None:
    board = SurveyProgress(is_quiet=True)
    board.on_phase("reading survey.toml")
    board.on_phase("listing what transformers has")
    now[0] += 5
    assert shown(board, 80) == ["listing what transformers has · 0:05 so far"]
    board.planned(412, 12)
    board.began(("bert", "default"), None)
    board.began(("gpt2", "default"), "cores 0-1")
    now[0] += 60
    board.finished(row("bert"))
    board.finished(failed("t5", "compile_failed", **WHY))
    board.retrying(("vit", "default"), "crashed")
    now[0] += 10
    bar, *lines = shown(board, 80)
    assert bar.strip() == "━━╸"
    assert lines == [
        "14 of 412 · 1:15 so far · 1 ok · 1 compile failed · 12 kept",
        "  gpt2 default on cores 0-1: running for 70 s",
        "  vit default: crashed, running it again",
        "  t5 default: compile failed (Inductor), 21 s: InductorError: an operator isn't…",
        "  bert default: ok, 1.50× (1.45 to 1.55), 21 s",
    ]


@pytest.mark.parametrize(("width", "height"), [(20, 24), (40, 10), (80, 5), (140, 50), (8, 2)])
def test_hundreds_of_pieces_fit_on_any_terminal(now: list[float], width: int, height: int) -> None:
    board = SurveyProgress(is_quiet=True)
    board.planned(400, 0)
    for number in range(400):
        board.began(
            (f"a_rather_long_name_of_a_model_{number}\n", "max-autotune-no-cudagraphs"), "node"
        )
    for number in range(300):
        board.finished(
            row(f"a_rather_long_name_of_a_model_{number}\n", "max-autotune-no-cudagraphs")
        )
    lines = shown(board, width, height)
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    if height > 20:
        assert any("92 more are" in line for line in lines)
