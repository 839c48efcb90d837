"""Ends this process with the one that started it, where the system doesn't (``graphdoctor/trials/launch/lifeline.py``).

Comes in: the reading end of a pipe that nobody writes to. Imports the standard library only.
"""

from __future__ import annotations

import os
import signal
import threading


def end_with(descriptor: int) -> None:
    """End with whoever holds the other end."""
    threading.Thread(target=_wait, args=(descriptor,), name="graphdoctor", daemon=True).start()


def _wait(descriptor: int) -> None:
    os.read(descriptor, 1)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
