"""The one exception that graphdoctor raises for problems it can name.

Only ``graphdoctor.commands`` turns it into an exit code. This module imports little.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal


class GraphDoctorError(Exception):
    """A problem that the user can act on.

    Args:
        message: What happened and where, one sentence.
        hint: What to do next, or None if the message says it all.
        exit_code: The process's exit status: 2 for bad usage, configuration or target, 130 if
            interrupted.
    """

    def __init__(self, message: str, *, hint: str | None = None, exit_code: int = 2) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code


def missing_package(user: str, package: str, extra: str) -> GraphDoctorError:
    """Return the error for what needs a package that only an extra of graphdoctor's installs."""
    return GraphDoctorError(
        f"{user} needs the package {package}.", hint=f"pip install 'graphdoctor[{extra}]'"
    )


@contextmanager
def os_errors(place: object, what: Literal["read", "written"]) -> Iterator[None]:
    """Say in a sentence which file or folder the system doesn't let us read or write."""
    try:
        yield
    except OSError as error:
        raise GraphDoctorError(f"{place} can't be {what}: {error.strerror}.") from error
