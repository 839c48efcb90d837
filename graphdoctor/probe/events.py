"""What the probe says to its parent: one JSON object a line, each written at once.

So a killed probe leaves a readable file. Facts about compilation go into torch's trace log; this file has what must
be told without torch.
"""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any


class EventFile:
    """Appends events to ``probe.jsonl``.

    Args:
        path: The file; created when missing.
    """

    def __init__(self, path: Path) -> None:
        # Unbuffered bytes: a line is in the kernel when write() returns, whatever kills the process next.
        self._stream = path.open("ab", buffering=0)
        self._lock = threading.Lock()

    def write(self, event: str, **values: Any) -> None:  # noqa: ANN401
        """Append one event; values that JSON has no form for are written as ``str()``."""
        line = json.dumps({"event": event, **values}, default=str) + "\n"
        with self._lock:
            self._stream.write(line.encode("utf-8", "replace"))

    def phase(self, phase: str) -> None:
        """Say what begins now, such as ``importing`` or ``call 2``."""
        self.write("phase", phase=phase)
