"""Logs that are still being written, look by look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphdoctor.trace.storage.places import Url

if TYPE_CHECKING:
    from graphdoctor.trace.follow import Follower
    from graphdoctor.trace.storage.places import Location

_PAUSE_S = 1.0
_REMOTE_PAUSE_S = 10.0


def follower_of(location: Location) -> Follower:
    """What follows the logs at a place.

    Args:
        location: A log, or a folder in which logs are or will be.
    """
    from graphdoctor.trace.follow import Follower

    return Follower(location)


def pause_s(location: Location) -> float:
    """Seconds from one look to the next: a store is asked less often."""
    return _REMOTE_PAUSE_S if isinstance(location, Url) else _PAUSE_S
