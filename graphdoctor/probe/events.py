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
        self._phase = ""

    def write(self, event: str, **values: Any) -> None:  # noqa: ANN401
        """Append one event."""
        line = json_text({"event": event, **values}) + "\n"
        with self._lock:
            self._stream.write(line.encode())

    def close(self) -> None:
        """Write no more."""
        self._stream.close()

    def phase(self, phase: str) -> None:
        """Say what begins now, such as ``importing the target`` or ``call 2``."""
        self._phase = phase
        self.write("phase", phase=phase)

    def step(self, step: str | None) -> None:
        """Say which part of the phase begins now, such as ``compiling 0/1``; None when that part is over."""
        self.write("phase", phase=self._phase if step is None else f"{self._phase}, {step}")


def json_text(value: object) -> str:
    """ASCII JSON that every reader takes; what JSON has no form for is written as ``str()``.

    Half a surrogate pair, which a Python string may hold and JSON may not, becomes a question mark.
    """
    text = json.dumps(value, default=str)
    if "\\ud" not in text:
        return text
    return json.dumps(json.loads(json.dumps(value, default=str, ensure_ascii=False).encode("utf-8", "replace")))
