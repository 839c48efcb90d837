"""Collects what the picture of a run needs beside the recording."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoctor.facts.picture import Picture, SourceText
from graphdoctor.facts.recording import Recording
from graphdoctor.trace.artifacts import Artifacts
from graphdoctor.trace.details import Details
from graphdoctor.trace.events import Event, read_lanes
from graphdoctor.trace.files import Files
from graphdoctor.trace.grammar import Record
from graphdoctor.trace.merge import Part
from graphdoctor.trace.origin import Origins
from graphdoctor.trace.phases import Phases
from graphdoctor.trace.stages import Stages


class PictureIntake:
    """Collects the records of one process until a reset of Dynamo, in the order of the log."""

    KINDS: frozenset[str] = Stages.KINDS | Phases.KINDS | Files.KINDS | Artifacts.KINDS

    def __init__(self, details: Details | None = None) -> None:
        self._details = details
        self.stages = Stages(details)
        self.phases = Phases(details)
        self.files = Files()
        self.artifacts = Artifacts(details)

    def after_reset(self) -> PictureIntake:
        """What collects the records of the same process after a reset."""
        later = PictureIntake(self._details)
        later.phases = self.phases.after_reset()
        later.artifacts = Artifacts(self._details, self.artifacts.reset + 1)
        return later

    def add(self, record: Record, call_index: int | None, *, is_extra: bool) -> None:
        """Take the next record."""
        if record.kind in self.artifacts.KINDS and not is_extra:
            self.artifacts.add(record)
        for part in (self.stages, self.phases, self.files):
            if record.kind in part.KINDS:
                part.add(record, call_index, is_extra=is_extra)


def picture_of(
    parts: Sequence[tuple[Part, PictureIntake, Origins]],
    recording: Recording,
    *,
    events: Sequence[Event],
    details: Details | None = None,
) -> Picture:
    """Make the picture of several processes."""
    files: dict[str, SourceText] = {}
    for found in (found for _, taken, origins in parts for found in taken.files.finish(origins)):
        # Each process records files itself, and one that came to a file late may have had no room left for it.
        if found.file not in files or files[found.file].text is None:
            files[found.file] = found
    return Picture(
        files=tuple(files.values()),
        graphs=tuple(graph for part, taken, _ in parts for graph in taken.stages.graphs(part.prefix, recording)),
        generated=tuple(code for part, taken, _ in parts for code in taken.stages.generated(part.prefix, recording)),
        autotuned=tuple(found for part, taken, _ in parts for found in taken.phases.autotuned(part.prefix)),
        phases=tuple(phase for part, taken, _ in parts for phase in taken.phases.finish(part.prefix, part.process)),
        detailed=None
        if details is None
        else tuple(found.compile_id for found in recording.compiles if details.keeps(found.compile_id)),
        lanes=read_lanes(events, recording),
        artifacts=tuple(found for part, taken, _ in parts for found in taken.artifacts.finish(part.prefix)),
        hidden_artifacts=sum(taken.artifacts.hidden for _, taken, _ in parts),
        # The last one, because calls can set values.
        config=next((event.get("values") for event in reversed(events) if event["event"] == "config"), None),
    )
