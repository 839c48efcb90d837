"""Recordings of sample programs, made by a probe of their own, and logs of the recordings that are
kept."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from graphdoctor.facts.spec import RunSpec
from graphdoctor.trials.launch.child import Setup, record
from graphdoctor.trials.launch.request import Measured, Request
from tests.conftest import RECORDED_LOGS, probe_python


def recorded(
    folder: Path, program: str, measured: Measured, *, name: str | None = None, **asked: Any
) -> Path:
    """Write a program into a folder, and record it, or what it calls ``name``."""
    path, recording = folder / "model.py", folder / "recording"
    path.write_text(program)
    recording.mkdir()
    spec = RunSpec(target=f"{path}:{name}" if name else str(path), **asked)
    record(Request.of(spec, measured), recording, Setup(probe_python(), timeout_s=300))
    return recording


def kept_log(name: str) -> Path:
    """The only log of a recording, such as ``2.13.0/item``."""
    (log,) = (RECORDED_LOGS / name).rglob("*.log")
    return log


@cache
def log_content(name: str) -> bytes:
    return kept_log(name).read_bytes()
