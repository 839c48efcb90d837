"""Where a test's server listens."""

from __future__ import annotations

import random
import socket

_FIRST, _END = 10_000, 20_000
"""Below those that Linux gives out by itself and those that Ray Client's servers look for (23000 to
24000)."""


def free_port(host: str) -> int:
    """A port of ``host`` that nobody listens at."""
    while True:
        port = random.randrange(_FIRST, _END)
        with socket.socket() as listening:
            try:
                listening.bind((host, port))
            except OSError:
                continue
            return port
