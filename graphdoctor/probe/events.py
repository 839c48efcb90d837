"""What the probe reports to its parent: events of ``wire``, one JSON object per line, each written
at once.

So a killed probe leaves a readable file. Facts about compilation go into torch's trace log; this
file has what must be reported without torch.
"""

from __future__ import annotations

import os
import threading

# By name: a program may replace what the module has.
from json import JSONEncoder, dumps, loads
from pathlib import Path

from ..facts.base import Fact
from ..facts.recording import GapKind
from ..facts.run import PhaseKind


class EventFile:
    """Appends events to a file, None for nowhere; a full disk never raises into the program.

    Raises:
        OSError: It can't be opened.
    """

    def __init__(self, path: Path | None) -> None:
        # Private: values of the program are in it.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor = None if path is None else os.open(path, flags, 0o600)
        self._lock = threading.Lock()
        self._phase = ""
        self._kind = "importing torch"
        self.error: OSError | None = None
        """Why the last events are missing; None while none is."""

    def write(self, name: str, fact: Fact | None = None, /, **fields: object) -> None:
        """Append one event: a fact, what no fact holds, or both."""
        event = {"event": name, **({} if fact is None else vars(fact)), **fields}
        line = f"{json_text(event)}\n".encode()
        with self._lock:
            if self._descriptor is None or self.error is not None:
                return
            try:
                # A line is in the kernel then, whatever kills the process next.
                while line:
                    line = line[os.write(self._descriptor, line) :]
            except OSError as error:
                self.error = error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = None

    def phase(self, kind: PhaseKind, text: str | None = None, **values: int) -> None:
        """Report what begins now; ``text``: of a variation; ``index``: of a call."""
        self._kind, self._phase = kind, text or kind.format(**values)
        self.step(None)

    def step(self, step: str | None) -> None:
        """Report which part of the phase begins now, such as ``compiling 0/1``; None when that part
        is over.
        """
        self.write(
            "phase",
            phase=self._phase if step is None else f"{self._phase}, {step}",
            kind=self._kind,
        )

    def gap(self, kind: GapKind, message: str) -> None:
        """Report something that the recording lacks."""
        self.write("gap", kind=kind, message=message)


def json_text(value: object) -> str:
    """ASCII JSON that every reader takes; a fact is its fields, and what JSON has no form for is
    ``str()``.

    Half a surrogate pair, which a Python string may hold and JSON may not, becomes a question mark.
    """
    text = _ENCODER.encode(value)
    if "\\ud" not in text:
        return text
    return dumps(loads(dumps(value, default=_plain, ensure_ascii=False).encode("utf-8", "replace")))


def _plain(value: object) -> object:
    return vars(value) if isinstance(value, Fact) else str(value)


_ENCODER = JSONEncoder(default=_plain)
