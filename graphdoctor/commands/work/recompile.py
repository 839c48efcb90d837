"""Replays a recorded target's calls under each remedy for its recompiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphdoctor.fixes.what_if import what_if

if TYPE_CHECKING:
    from pathlib import Path

    from graphdoctor.trials.launch.child import Setup
    from graphdoctor.trials.launch.request import Request


def replay_under_remedies(request: Request, recording: Path, setup: Setup, *, jobs: int) -> None:
    """Replay the calls under each remedy; the recording holds the answer."""
    what_if(request, recording, setup, jobs=jobs)
