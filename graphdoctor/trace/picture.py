"""Collects what the picture of a run needs beside the recording."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from graphdoctor.facts.picture import CompileArtifacts, Picture, SourceText
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.record_kinds import UNSHOWN_KINDS
from graphdoctor.facts.recording import Environment, Recording
from graphdoctor.trace.events import Events, read_lanes
from graphdoctor.trace.grammar import LogDamage, Record, read_records
from graphdoctor.trace.logs import find_logs
from graphdoctor.trace.merge import Part
from graphdoctor.trace.origin import Origins
from graphdoctor.trace.phases import Phases
from graphdoctor.trace.sections import Collector, Details, Section
from graphdoctor.trace.stages import Stages

_MAX_COMPILES = 100


class Artifacts(Collector):
    """Counts the records that a report doesn't show."""

    KINDS = UNSHOWN_KINDS

    def _clear(self) -> None:
        self._kinds: dict[str | None, Counter[str]] = {}
        self._sizes: Counter[str | None] = Counter()
        self.hidden: set[str | None] = set()

    def add(self, record: Record) -> None:
        """See ``Collector``."""
        compile_id = record.compile_id
        if record.is_extra:
            return
        if compile_id not in self._kinds and (
            len(self._kinds) >= _MAX_COMPILES or not (compile_id is None or self._keeps(compile_id))
        ):
            self.hidden.add(compile_id)
            return
        self._kinds.setdefault(compile_id, Counter())[record.kind] += 1
        self._sizes[compile_id] += record.payload_bytes

    def finish(self) -> Iterator[CompileArtifacts]:
        """Yield the collected records."""
        for compile_id, kinds in self._kinds.items():
            yield CompileArtifacts(
                compile_id=compile_id, counts=dict(kinds), size_bytes=self._sizes[compile_id]
            )


class Files(Collector):
    """Collects source files as they were while the program ran, in the order of the log."""

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


def picture_collectors(details: Details | None = None) -> tuple[Collector, ...]:
    """Return collectors of the records; only of some compiles in detail if ``details`` says so."""
    return Artifacts(details), Stages(details), Phases(details), Files(details)


def picture_of(
    parts: Sequence[tuple[Part, Section]],
    recording: Recording,
    events: Events,
    details: Details | None,
) -> Picture:
    """Make the picture of several processes."""
    files: dict[str, SourceText] = {}
    drawn: dict[str, list[Any]] = {
        name: [] for name in ("graphs", "generated", "autotuned", "phases", "artifacts")
    }
    hidden = first_index = 0
    for part, section in parts:
        for file in section.collector(Files).finish(section.intake.origins):
            # Each process records files itself, and a late one may have had no room for a file.
            if file.file not in files or files[file.file].text is None:
                files[file.file] = file
        stages, phases = section.collector(Stages), section.collector(Phases)
        artifacts = section.collector(Artifacts)
        for name, facts in (
            ("graphs", stages.graphs(part.recording, first_index)),
            ("generated", stages.generated(part.recording, first_index)),
            ("autotuned", phases.autotuned()),
            ("phases", phases.finish()),
            ("artifacts", artifacts.finish()),
        ):
            drawn[name] += map(part.named, facts)
        hidden += len(artifacts.hidden)
        first_index += len(part.recording.graphs)
    compile_ids = (compile_.compile_id for compile_ in recording.compiles)
    return Picture(
        files=tuple(files.values()),
        **{name: tuple(facts) for name, facts in drawn.items()},
        detailed=None if details is None else tuple(filter(details.keeps, compile_ids)),
        lanes=read_lanes(events, recording),
        hidden_artifacts=hidden,
        # The last one, because calls can set values.
        config=events.fields("config").get("values"),
    )
