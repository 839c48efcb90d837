"""What the picture of a run needs beside the recording: takes the records of a log, gives a ``Picture``.

Each part of a log has a file of its own that says which records it takes: ``stages.py`` the graphs and the code made of
them, ``phases.py`` where compile time went, ``files.py`` the source. Lanes come from the probe's events (``lanes.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphdoctor.model.picture import Picture, RecordCount, SourceText
from graphdoctor.model.recording import Recording
from graphdoctor.trace.files import Files
from graphdoctor.trace.grammar import LogDamage, Record
from graphdoctor.trace.lanes import read_lanes
from graphdoctor.trace.merge import Part
from graphdoctor.trace.origin import Origins
from graphdoctor.trace.phases import Phases
from graphdoctor.trace.stages import Stages


class PictureIntake:
    """Takes the records of one process up to a reset of Dynamo, in the order of the log."""

    KINDS: frozenset[str] = Stages.KINDS | Phases.KINDS | Files.KINDS

    def __init__(self) -> None:
        self.stages = Stages()
        self.phases = Phases()
        self.files = Files()

    def after_reset(self) -> PictureIntake:
        """What takes the records of the same process behind a reset."""
        later = PictureIntake()
        later.phases = self.phases.after_reset()
        return later

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
    parts: Sequence[tuple[Part, PictureIntake, Origins]],
    recording: Recording,
    *,
    events: Sequence[dict[str, Any]],
    damage: LogDamage,
    is_used: Callable[[str], bool],
) -> Picture:
    """Put together what several processes' logs hold.

    Args:
        parts: In the order in which they were merged, each with what was taken in for it and who owns its files.
        recording: The merged recording.
        events: The probe's events.
        damage: Has the counts of records by kind.
        is_used: Whether a kind of record was read.
    """
    files: dict[str, SourceText] = {}
    for found in (found for _, taken, origins in parts for found in taken.files.finish(origins)):
        # Each process has its own; one that came to the file late may have had no room for it.
        if found.file not in files or files[found.file].text is None:
            files[found.file] = found
    return Picture(
        files=tuple(files.values()),
        graphs=tuple(graph for part, taken, _ in parts for graph in taken.stages.graphs(part.prefix, recording)),
        generated=tuple(code for part, taken, _ in parts for code in taken.stages.generated(part.prefix, recording)),
        phases=tuple(phase for part, taken, _ in parts for phase in taken.phases.finish(part.prefix, part.process)),
        lanes=read_lanes(events, recording),
        records=_records(damage, is_used),
        # The last one: the calls may have set some.
        config=next((event.get("values") for event in reversed(events) if event["event"] == "config"), None),
    )


def _records(damage: LogDamage, is_used: Callable[[str], bool]) -> tuple[RecordCount, ...]:
    counts = (
        RecordCount(kind=kind, count=count, size_bytes=size, is_used=is_used(kind))
        for kind, (count, size) in damage.kinds.items()
    )
    return tuple(sorted(counts, key=lambda found: -found.size_bytes))
