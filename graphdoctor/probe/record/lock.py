"""Marks a recording as being made, for as long as this process and those that it forks live.

Whoever removes old recordings (``graphdoctor/trials/launch/store.py``) asks for the lock. Standard library only, and
little of it: every Python that a program starts waits for this.
"""

from __future__ import annotations

import os

from ..file_names import LOCK_FILE


def hold(recording: str) -> None:
    """Hold the recording's lock until the process ends, however it ends; the system lets it go then.

    Args:
        recording: Its folder; without a lock, as in a replay's, there is nothing to hold.
    """
    try:
        import fcntl

        descriptor = os.open(os.path.join(recording, LOCK_FILE), os.O_RDONLY)  # noqa: PTH118
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return
