"""Lints files, with what the last recording saw compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from graphdoctor import __version__
from graphdoctor.errors import GraphDoctorError
from graphdoctor.lint import Recorded, lint_files, python_files, recorded_in

if TYPE_CHECKING:
    from graphdoctor.config import Settings
    from graphdoctor.diagnosis.selection import Selection
    from graphdoctor.model.lint import LintReport


def lint(named: Sequence[Path], settings: Settings, selection: Selection, *, is_recording_used: bool) -> LintReport:
    """Lint files and folders.

    Args:
        named: Python files, or folders with Python files.
        settings: The project's settings.
        selection: Which findings to report.
        is_recording_used: Take functions that the last recording saw compiled, too.

    Raises:
        GraphDoctorError: A file or folder isn't there.
    """
    return lint_files(
        [path for each in named for path in python_files(each)],
        root=Path.cwd(),
        version=__version__,
        selection=selection,
        recorded=_last_recording(settings) if is_recording_used else None,
    )


def _last_recording(settings: Settings) -> Callable[[], Recorded]:
    """What the last recording saw, where there is one that can be read: lint doesn't need it."""

    def read() -> Recorded:
        from graphdoctor.runs.named import last_recording
        from graphdoctor.trace.reader import read_recording

        try:
            return recorded_in(read_recording(last_recording(settings).path))
        except GraphDoctorError:
            return Recorded()

    return read
