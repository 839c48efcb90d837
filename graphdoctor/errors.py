"""The one exception that graphdoctor raises for trouble that it can name.

Only ``graphdoctor.cli`` turns it into an exit code. This module imports nothing.
"""

from __future__ import annotations


class GraphDoctorError(Exception):
    """Something that the person at the terminal can act on.

    Args:
        message: What happened and where, one sentence.
        hint: What to do next, or None when the message says it all.
        exit_code: The process's exit status: 2 for bad usage, configuration or target, 130 when interrupted.
    """

    def __init__(self, message: str, *, hint: str | None = None, exit_code: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
