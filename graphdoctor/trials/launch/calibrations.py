"""Keeps what profiles measured of this machine's devices: ``calibrations.json`` in the user's state
folder.

A device reaches the same in every program, so it is measured once for each torch, number of threads
and precision.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from graphdoctor.facts.base import InvalidFactError
from graphdoctor.facts.profiled import Calibration
from graphdoctor.facts.reading import plain, read_fact
from graphdoctor.trials.launch.store import state_folder

_FILE = "calibrations.json"
_MOST = 20
"""Of so many devices, versions and settings; the oldest go."""


def kept_calibrations() -> tuple[Calibration, ...]:
    """Read what earlier profiles measured, the latest last; empty if nothing can be read."""
    kept: list[Calibration] = []
    with contextlib.suppress(OSError, ValueError):
        stored = json.loads(file.read_bytes()) if (file := _file()) is not None else []
        for item in stored if isinstance(stored, list) else ():
            with contextlib.suppress(InvalidFactError):
                kept.append(read_fact(Calibration, item))
    return tuple(kept)


def keep_calibration(calibration: Calibration) -> None:
    """Keep what a profile measured, in place of what was kept for the same; where nothing can be
    written, don't.
    """
    file = _file()
    if file is None:
        return
    others = [item for item in kept_calibrations() if item.conditions != calibration.conditions]
    with contextlib.suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = file.with_name(f"{_FILE}.{os.getpid()}")
        written.write_text(
            json.dumps([plain(item) for item in (*others, calibration)][-_MOST:]), encoding="utf-8"
        )
        written.replace(file)


def _file() -> Path | None:
    folder = state_folder()
    return None if folder is None else folder / _FILE
