"""One recording at a time: torch's trace and hooks belong to the whole process."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from graphdoctor.errors import GraphDoctorError

_lock = threading.Lock()


@contextlib.contextmanager
def recording_alone() -> Iterator[None]:
    """Be the only recording in this process.

    Raises:
        GraphDoctorError: Another explain or record is running, in any thread, or ``graphdoctor run`` runs this program.
    """
    from graphdoctor.probe.torch_private.torch_loan import BusyError

    if not _lock.acquire(blocking=False):
        raise _busy("graphdoctor.explain or graphdoctor.record is already running in this process.")
    try:
        yield
    except BusyError:
        raise _busy("graphdoctor is already recording this whole program.") from None
    finally:
        _lock.release()


def _busy(message: str) -> GraphDoctorError:
    return GraphDoctorError(message, hint="Only one recording can run at a time: torch has one trace per process.")
