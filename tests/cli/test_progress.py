"""What standard error shows while programs run."""

from __future__ import annotations

import pytest

from graphdoctor.cli.progress import Progress


def test_a_line_of_ours_begins_on_a_line_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    with Progress(is_quiet=False) as progress:
        progress.say("first")
        progress.watching.on_output(b"50%")
        progress.say("second")
        progress.watching.on_output(b"done\n")
        progress.say("third\x1b[2J")
        progress.watching.on_output(b"open")
    assert capfd.readouterr().err == "first\n50%\nsecond\ndone\nthird\N{REPLACEMENT CHARACTER}[2J\nopen\n"
