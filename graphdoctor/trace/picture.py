"""Collects what the picture of a run needs beside the recording."""

from __future__ import annotations

from collections.abc import Sequence

from graphdoctor.facts.picture import Picture, SourceText
from graphdoctor.facts.recording import Recording
from graphdoctor.trace.artifacts import Artifacts
from graphdoctor.trace.details import Details
from graphdoctor.trace.events import Event, read_lanes
from graphdoctor.trace.files import Files
from graphdoctor.trace.merge import Part
from graphdoctor.trace.phases import Phases
from graphdoctor.trace.sections import Collector, Section
from graphdoctor.trace.stages import Stages


def picture_collectors(details: Details | None = None) -> tuple[Collector, ...]:
    """What collects the records; only of some compiles in detail if ``details`` says so."""
    return Artifacts(details), Stages(details), Phases(details), Files()


def picture_of(
    parts: Sequence[tuple[Part, Section]], recording: Recording, events: Sequence[Event], details: Details | None
) -> Picture:
    """Make the picture of several processes."""
    files: dict[str, SourceText] = {}
    for found in (found for _, taken in parts for found in taken.collector(Files).finish(taken.intake.origins)):
        # Each process records files itself, and one that came to a file late may have had no room left for it.
        if found.file not in files or files[found.file].text is None:
            files[found.file] = found
    stages = [(part.prefix, taken.collector(Stages)) for part, taken in parts]
    phases = [(part, taken.collector(Phases)) for part, taken in parts]
    artifacts = [(part.prefix, taken.collector(Artifacts)) for part, taken in parts]
    return Picture(
        files=tuple(files.values()),
        graphs=tuple(graph for prefix, each in stages for graph in each.graphs(prefix, recording)),
        generated=tuple(code for prefix, each in stages for code in each.generated(prefix, recording)),
        autotuned=tuple(found for part, each in phases for found in each.autotuned(part.prefix)),
        phases=tuple(phase for part, each in phases for phase in each.finish(part.prefix, part.process)),
        detailed=None
        if details is None
        else tuple(found.compile_id for found in recording.compiles if details.keeps(found.compile_id)),
        lanes=read_lanes(events, recording),
        artifacts=tuple(found for prefix, each in artifacts for found in each.finish(prefix)),
        hidden_artifacts=sum(each.hidden for _, each in artifacts),
        # The last one, because calls can set values.
        config=next((event.get("values") for event in reversed(events) if event["event"] == "config"), None),
    )
