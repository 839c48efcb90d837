"""Reads source files as they were while the program ran, from ``graphdoctor_file`` records."""

from __future__ import annotations

from pathlib import Path

from graphdoctor.facts.picture import SourceText
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import Environment
from graphdoctor.trace.grammar import LogDamage, Record, read_records
from graphdoctor.trace.logs import find_logs
from graphdoctor.trace.origin import Origins
from graphdoctor.trace.sections import Collector


def read_files(recording: Path, environment: Environment) -> tuple[SourceText, ...]:
    """Read only a recording's source files."""
    files = Files()
    for log in find_logs(recording):
        with log.open() as lines:
            for record in read_records(lines, Files.KINDS.__contains__, LogDamage()):
                try:
                    files.add(record)
                except (ValueError, TypeError, LookupError):
                    continue  # a damaged record; the recording has a gap for it
    return files.finish(Origins(environment))


class Files(Collector):
    """Collects files in the order of the log."""

    KINDS = frozenset({"graphdoctor_file"})

    def _clear(self) -> None:
        self._texts: dict[str, str | None] = {}

    def add(self, record: Record) -> None:
        """See ``Collector``."""
        value = record.json()
        self._texts[value["file"]] = value["text"]

    def finish(self, origins: Origins) -> tuple[SourceText, ...]:
        """The files in the order of the log."""
        return tuple(
            read_fact(SourceText, {"file": file, "text": text, **origins.named(file)})
            for file, text in self._texts.items()
        )
