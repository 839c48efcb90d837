"""What the picture of a run needs beside the recording: takes the records of a log, gives a ``Picture``.

Each part of a log has a file of its own that says which records it takes: ``stages.py`` the graphs and the code made of
them, ``phases.py`` where compile time went, ``files.py`` the source. Lanes come from the probe's events (``lanes.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphdoctor.model.picture import Picture, RecordCount, SourceText
from graphdoctor.model.recording import Recording
from graphdoctor.trace.files import Files
from graphdoctor.trace.grammar import LogDamage, Record
from graphdoctor.trace.intake import Intake
from graphdoctor.trace.lanes import read_lanes
from graphdoctor.trace.merge import Part
from graphdoctor.trace.phases import Phases
from graphdoctor.trace.stages import Stages


class PictureIntake:
    """Takes the records of one process up to a reset of Dynamo, in the order of the log."""

    def __init__(self) -> None:
        self.stages = Stages()
        self.phases = Phases()
        self.files = Files()

    def after_reset(self) -> PictureIntake:
        """What takes the records of the same process behind a reset."""
        later = PictureIntake()
        later.phases = self.phases.after_reset()
        return later

    def wants(self, kind: str) -> bool:
        """Whether a kind of record matters here."""
        return any(kind in part.KINDS for part in (Stages, Phases, Files))

    def add(self, record: Record, call_index: int | None, *, is_extra: bool) -> None:
        """Take the next record.

        Args:
            record: One of ``KINDS``.
            call_index: The user's call that was under way; None outside the calls.
            is_extra: It belongs to a repetition of ours: to be left out.
        """
        for part in (self.stages, self.phases, self.files):
            if record.kind in part.KINDS:
                part.add(record, call_index, is_extra=is_extra)


def picture_of(
    parts: Sequence[Part],
    intakes: Sequence[Intake],
    recording: Recording,
    *,
    events: Sequence[dict[str, Any]],
    damage: LogDamage,
) -> Picture:
    """Put together what several processes' logs hold.

    Args:
        parts: In the order in which they were merged.
        intakes: Those that the parts are from.
        recording: The merged recording.
        events: The probe's events.
        damage: Has the counts of records by kind.
    """
    taken_in = [(part, intake.picture, intake) for part, intake in zip(parts, intakes, strict=True) if intake.picture]
    files: dict[str, SourceText] = {}
    for found in (found for _, taken, intake in taken_in for found in taken.files.finish(intake.origins)):
        # Each process has its own; one that came to the file late may have had no room for it.
        if found.file not in files or files[found.file].text is None:
            files[found.file] = found
    return Picture(
        files=tuple(files.values()),
        graphs=tuple(graph for part, taken, _ in taken_in for graph in taken.stages.graphs(part.prefix, recording)),
        generated=tuple(code for part, taken, _ in taken_in for code in taken.stages.generated(part.prefix, recording)),
        phases=tuple(phase for part, taken, _ in taken_in for phase in taken.phases.finish(part.prefix, part.process)),
        lanes=read_lanes(events, recording),
        records=_records(damage, intakes),
        # The last one: the calls may have set some.
        config=next((event.get("values") for event in reversed(events) if event["event"] == "config"), None),
    )


def _records(damage: LogDamage, intakes: Sequence[Intake]) -> tuple[RecordCount, ...]:
    counts = (
        RecordCount(kind=kind, count=count, size_bytes=size, is_used=any(intake.wants(kind) for intake in intakes))
        for kind, (count, size) in damage.kinds.items()
    )
    return tuple(sorted(counts, key=lambda found: -found.size_bytes))
