"""Redacts a whole recording: its diagnosis, its picture and its files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from graphdoctor.facts.diagnosis import Diagnosis
from graphdoctor.facts.picture import Picture
from graphdoctor.facts.recording import Environment
from graphdoctor.facts.wording import counted
from graphdoctor.probe.wire import EVENTS_FILE, META_FILE, TRACE_FOLDER
from graphdoctor.studies.bundle.redact.events import redacted_events, redacted_meta
from graphdoctor.studies.bundle.redact.facts import Facts
from graphdoctor.studies.bundle.redact.log import LeftOut, redacted_log
from graphdoctor.studies.bundle.redact.public import Public
from graphdoctor.studies.bundle.redact.records import Records
from graphdoctor.trace.events import read_events
from graphdoctor.trace.folder import read_object
from graphdoctor.trace.logs import logs_of
from graphdoctor.trace.storage.log_file import local_log
from graphdoctor.trace.writers import named_rank

_LOGS = f"recording/{TRACE_FOLDER}/"


class Redaction:
    """Redacts one recording. A name has the same pseudonym in all of its parts.

    Args:
        environment: Where it was made.
        root: The folder that the diagnosis' paths are relative to.
    """

    def __init__(self, environment: Environment, root: Path) -> None:
        self._shown = Public(environment, root)
        self._facts = Facts(self._shown)

    def diagnosis(self, diagnosis: Diagnosis) -> Diagnosis:
        """Redact the diagnosis."""
        return self._facts.diagnosis(diagnosis)

    def picture(self, picture: Picture) -> Picture:
        """Redact the picture."""
        return self._facts.picture(picture)

    def files(self, files: Iterable[tuple[str, Path]], notes: list[str]) -> Iterator[tuple[str, bytes]]:
        """Redact the recording's files, as far as they can be.

        Args:
            files: The files by their names in the bundle.
            notes: Receives what is left out, in sentences.
        """
        left_out = LeftOut()
        logs = 0
        for name, path in files:
            if name.startswith(_LOGS):
                file = local_log(path)
                for log in logs_of(file) or [file]:
                    logs += 1
                    rank = named_rank(log)
                    with log.open() as lines:
                        content = b"".join(redacted_log(lines, Records(self._shown), left_out))
                    ranked = "" if rank is None else f"rank_{rank}_"
                    yield f"{_LOGS}dedicated_log_torch_trace_{ranked}{logs}.log", content
            elif name.endswith(f"/{META_FILE}"):
                yield name, json.dumps(redacted_meta(read_object(path.read_bytes()), self._shown)).encode()
            elif name.endswith(f"/{EVENTS_FILE}"):
                events = redacted_events(read_events(path.read_bytes()).all, self._shown)
                yield name, b"".join(json.dumps(event).encode() + b"\n" for event in events)
        if left_out.records:
            notes.append(f"{counted(left_out.records, 'record')} of the trace logs that can't be redacted.")
        if left_out.lines:
            notes.append(f"{counted(left_out.lines, 'line')} between records of the trace logs.")
