"""Redacts the files of a recording; its logs become logs that tlparse and our own reader can read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from graphdoctor.facts.recording import Environment
from graphdoctor.facts.wording import counted
from graphdoctor.probe.wire import EVENTS_FILE, META_FILE, TRACE_FOLDER
from graphdoctor.studies.bundle.redact.facts import Facts
from graphdoctor.studies.bundle.redact.public import Public
from graphdoctor.studies.bundle.redact.records import Redactor
from graphdoctor.trace.events import read_events
from graphdoctor.trace.folder import read_object
from graphdoctor.trace.grammar import LogDamage, Record, read_records
from graphdoctor.trace.logs import logs_of
from graphdoctor.trace.processes import named_rank
from graphdoctor.trace.storage.log_file import local_log

_LOGS = f"recording/{TRACE_FOLDER}/"
_PLACE = "torch/_logging/structured.py:1"
"""Replaces the line that wrote a record, which can be in the program."""


class Redaction(Facts):
    """Redacts one recording, facts and files. A name has the same pseudonym in all of its parts.

    ``root`` is the folder that the diagnosis' paths are relative to.
    """

    def __init__(self, environment: Environment, root: Path) -> None:
        shown = Public(environment, root)
        super().__init__(shown)
        self._public = shown
        self._left_out = {"records": 0, "lines": 0}

    def files(self, files: Iterable[tuple[str, Path]], notes: list[str]) -> Iterator[tuple[str, bytes]]:
        """The files by their names in the bundle, as far as they can be redacted; ``notes`` receives what can't."""
        logs = 0
        for name, path in files:
            if name.startswith(_LOGS):
                file = local_log(path)
                for log in logs_of(file) or [file]:
                    logs += 1
                    rank = named_rank(log)
                    with log.open() as lines:
                        content = b"".join(self._log(lines))
                    ranked = "" if rank is None else f"rank_{rank}_"
                    yield f"{_LOGS}dedicated_log_torch_trace_{ranked}{logs}.log", content
            elif name.endswith(f"/{META_FILE}"):
                yield name, json.dumps(Redactor(self._public).meta(read_object(path.read_bytes()))).encode()
            elif name.endswith(f"/{EVENTS_FILE}"):
                events = Redactor(self._public).events(read_events(path.read_bytes()).all)
                yield name, b"".join(json.dumps(event).encode() + b"\n" for event in events)
        if count := self._left_out["records"]:
            notes.append(f"{counted(count, 'record')} of the trace logs that can't be redacted.")
        if count := self._left_out["lines"]:
            notes.append(f"{counted(count, 'line')} between records of the trace logs.")

    def _log(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        damage, redactor = LogDamage(), Redactor(self._public)
        for record in read_records(lines, lambda _kind: True, damage):
            try:
                redacted = redactor.record(record)
            except (ValueError, TypeError, LookupError, AttributeError):
                redacted = None  # damaged, or from a torch that writes it differently
            if redacted is None:
                self._left_out["records"] += 1
            else:
                yield _written(record, *redacted)
        # The program's own output.
        self._left_out["lines"] += damage.stray_lines
        self._left_out["records"] += damage.broken_records


def _written(record: Record, metadata: dict[str, object], payload: str | None) -> bytes:
    """The record in torch's format (``torch/_logging/_internal.py``, 2.13, ``trace_structured``)."""
    if payload is None:
        return f"{record.stamp} {_PLACE}] {json.dumps(metadata)}\n".encode()
    total = hashlib.md5(payload.encode(), usedforsecurity=False).hexdigest()
    lines = "".join(f"\t{line}\n" for line in payload.split("\n"))
    return f"{record.stamp} {_PLACE}] {json.dumps(metadata | {'has_payload': total})}\n{lines}".encode()
