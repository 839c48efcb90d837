"""Collects what the picture of a run needs beside the recording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphdoctor.facts.picture import Picture, SourceText
from graphdoctor.facts.recording import Recording
from graphdoctor.trace.artifacts import Artifacts
from graphdoctor.trace.events import Events, read_lanes
from graphdoctor.trace.files import Files
from graphdoctor.trace.merge import Part
from graphdoctor.trace.phases import Phases
from graphdoctor.trace.sections import Collector, Details, Section
from graphdoctor.trace.stages import Stages


def picture_collectors(details: Details | None = None) -> tuple[Collector, ...]:
    """What collects the records; only of some compiles in detail if ``details`` says so."""
    return Artifacts(details), Stages(details), Phases(details), Files(details)


def picture_of(
    parts: Sequence[tuple[Part, Section]],
    recording: Recording,
    events: Events,
    details: Details | None,
) -> Picture:
    """Make the picture of several processes."""
    files: dict[str, SourceText] = {}
    found: dict[str, list[Any]] = {
        name: [] for name in ("graphs", "generated", "autotuned", "phases", "artifacts")
    }
    hidden = first_index = 0
    for part, taken in parts:
        for file in taken.collector(Files).finish(taken.intake.origins):
            # Each process records files itself, and one that came to a file late may have had no
            # room left for it.
            if file.file not in files or files[file.file].text is None:
                files[file.file] = file
        stages, phases, artifacts = (
            taken.collector(Stages),
            taken.collector(Phases),
            taken.collector(Artifacts),
        )
        found["graphs"] += map(part.named, stages.graphs(part.recording, first_index))
        found["generated"] += map(part.named, stages.generated(part.recording, first_index))
        found["autotuned"] += map(part.named, phases.autotuned())
        found["phases"] += map(part.named, phases.finish())
        found["artifacts"] += map(part.named, artifacts.finish())
        hidden += artifacts.hidden
        first_index += len(part.recording.graphs)
    return Picture(
        files=tuple(files.values()),
        **{name: tuple(each) for name, each in found.items()},
        detailed=None
        if details is None
        else tuple(
            found.compile_id for found in recording.compiles if details.keeps(found.compile_id)
        ),
        lanes=read_lanes(events, recording),
        hidden_artifacts=hidden,
        # The last one, because calls can set values.
        config=events.fields("config").get("values"),
    )
