"""Recordings of sample programs, made by a probe of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graphdoctor.facts.spec import RunSpec
from graphdoctor.trials.launch.child import Setup, record
from graphdoctor.trials.launch.request import Measured, Request


def recorded(folder: Path, program: str, measured: Measured, *, name: str | None = None, **asked: Any) -> Path:
    """Write a program into a folder, and record it, or what it calls ``name``."""
    path, recording = folder / "model.py", folder / "recording"
    path.write_text(program)
    recording.mkdir()
    spec = RunSpec(target=f"{path}:{name}" if name else str(path), **asked)
    record(Request.of(spec, measured), recording, Setup(timeout_s=300))
    return recording
