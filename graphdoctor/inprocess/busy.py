"""One recording at a time: torch's trace and hooks are the whole process's."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from graphdoctor.errors import GraphDoctorError

_lock = threading.Lock()


@contextlib.contextmanager
def recording_alone() -> Iterator[None]:
    """Be the only one that records in this process.

    Raises:
        GraphDoctorError: Another explain or record is under way, in any thread, or ``graphdoctor`` runs this program.
    """
    from graphdoctor.probe.torch_private.torch_loan import BusyError

    if not _lock.acquire(blocking=False):
        raise _busy("graphdoctor.explain or graphdoctor.record is at work in this process already.")
    try:
        yield
    except BusyError:
        raise _busy("graphdoctor records this whole program already.") from None
    finally:
        _lock.release()


def _busy(message: str) -> GraphDoctorError:
    return GraphDoctorError(message, hint="Only one recording can be made at a time: torch has one trace a process.")
