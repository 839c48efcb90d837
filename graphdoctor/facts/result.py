"""What one recording gave: the diagnosis or the profile, and the picture that some formats need
besides it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .diagnosis import Diagnosis
    from .picture import Picture
    from .profile import ProfileReport


@dataclass(frozen=True)
class Result:
    """A diagnosis, ready to be written in any format.

    Args:
        diagnosis: Findings, counts and facts.
        picture: Graphs, phases and calls to draw; None if it wasn't read, see
            ``Format.needs_picture``.
    """

    diagnosis: Diagnosis
    picture: Picture | None = None


@dataclass(frozen=True)
class ProfileResult:
    """A profile, ready to be written in any format.

    Args:
        report: Where the time goes.
        picture: Source files and generated code; None if it wasn't read, or there is nothing left
            to read it from.
    """

    report: ProfileReport
    picture: Picture | None = None
