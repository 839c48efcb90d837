"""Whether other programs took a processor from this one."""

from __future__ import annotations

import resource


def preemptions() -> int:
    """How often the system took a processor from a thread of this process that had more to do.

    A call in which it did took longer than its own work: all other threads wait for that one.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
