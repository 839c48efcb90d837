"""Collects what the picture of a run needs beside the recording: where compile time went, records
that are only counted, and source files.

A phase of a compile is a pair of ``chromium_event`` records, ``B`` and ``E``, written when it
begins and ends (``torch/_dynamo/utils.py``, 2.13, ``ChromiumEventLogger``). torch gives every event
the thread number 0, so ends are matched to begins by name and compile id. The compile context
belongs to one thread, so an event without a compile id during a compile is from another thread,
such as ``compile_file``. Overlapping ones become one phase.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from graphdoctor.facts.base import Fields, values_of
from graphdoctor.facts.picture import Autotuned, Phase, Picture, SourceText
from graphdoctor.facts.reading import read_fact
from graphdoctor.facts.recording import Environment, Recording
from graphdoctor.trace.events import Events, read_lanes
from graphdoctor.trace.grammar import LogDamage, Record, read_records
from graphdoctor.trace.logs import find_logs
from graphdoctor.trace.merge import Part
from graphdoctor.trace.origin import Origins
from graphdoctor.trace.sections import Collector, Details, Section
from graphdoctor.trace.stages import Stages
from graphdoctor.wording import clipped

_MAX_NOTE = 200
_DUMP = 2000
"""A value this long is a dump, such as the whole config or the parts of a cache key, and isn't
shown."""
_AUTOTUNING = "_template_autotuning"
"""Ending of the name of the phase in which Inductor times ways to compute an operation
(``torch/_inductor/select_algorithm.py``, 2.13)."""


@dataclass(eq=False, slots=True)
class _Begun:
    name: str
    compile_id: str | None
    call_index: int | None
    start_us: float
    is_extra: bool
    is_elsewhere: bool = False
    end_us: float | None = None
    gone_us: float | None = None
    notes: dict[str, str] = field(default_factory=dict)
    timed: Autotuned | None = None
    running: int = 1

    @property
    def duration_us(self) -> float | None:
        end_us = self.end_us
        return None if end_us is None or end_us < self.start_us else end_us - self.start_us

    @property
    def latest_us(self) -> float:
        end_us = self.gone_us if self.end_us is None else self.end_us
        return math.inf if end_us is None else max(self.start_us, end_us)


class Phases(Collector):
    """Collects events in the order of the log."""

    KINDS = frozenset({"chromium_event"})

    def _clear(self) -> None:
        self._begun: list[_Begun] = []
        self._open: list[_Begun] = []
        self._first_us: float | None = None

    def after_reset(self) -> Phases:
        """See ``Collector``; the outermost phases of the compile that shows it have already begun
        and move along.
        """
        later = super().after_reset()
        later._first_us = self._first_us
        later._open = self._open
        compile_id = self._open[-1].compile_id if self._open else None
        later._begun = [
            phase for phase in self._open if phase.compile_id == compile_id and phase in self._begun
        ]
        self._begun = [phase for phase in self._begun if phase not in later._begun]
        return later

    def add(self, record: Record) -> None:
        """See ``Collector``."""
        event = record.json()
        name = str(event["name"])
        time_us = float(event["ts"])
        args = event.get("args") or {}
        # The event's own compile id, ``None`` as text outside any compile, or its record's.
        compile_id = record.compile_id
        if (printed := args.get("compile_id")) is not None:
            compile_id = None if printed == "None" else str(printed)
        if self._first_us is None:
            self._first_us = time_us
        match event["ph"]:
            case "B":
                self._begin(_Begun(name, compile_id, record.call_index, time_us, record.is_extra))
            case "E":
                phase = self._end(name, compile_id, time_us)
                phase.is_extra |= record.is_extra
                # They repeat those of the begin event.
                if self._keeps(compile_id):
                    phase.notes |= _notes(args)
                if "autotune_choices_stats" in args:
                    phase.timed = _autotuned(phase, orjson.loads(args["autotune_choices_stats"]))

    def finish(self) -> list[Phase]:
        """The phases."""
        first_us = self._first_us or 0.0
        phases = [phase for phase in self._begun if not phase.is_extra]
        phases.sort(key=lambda phase: phase.start_us)
        return [
            Phase(
                **values_of(phase, "name", "compile_id", "call_index", "duration_us", "notes"),
                start_us=phase.start_us - first_us,
                depth=depth,
                process=None,
                thread=thread,
            )
            for phase, thread, depth in _laid_out(phases)
        ]

    def autotuned(self) -> list[Autotuned]:
        """Return Inductor's timings."""
        return [
            phase.timed for phase in self._begun if phase.timed is not None and not phase.is_extra
        ]

    def _begin(self, begun: _Begun) -> None:
        if begun.compile_id is None:
            begun.is_elsewhere = any(phase.compile_id is not None for phase in self._open)
            for phase in self._open:
                if phase.is_elsewhere and phase.name == begun.name:
                    phase.running += 1
                    return
        self._begun.append(begun)
        self._open.append(begun)

    def _end(self, name: str, compile_id: str | None, time_us: float) -> _Begun:
        key = name, compile_id
        places = (
            at for at, phase in enumerate(self._open) if (phase.name, phase.compile_id) == key
        )
        at = max(places, default=None)
        if at is None:
            raise ValueError(f"{name} ends without a begin")
        phase = self._open[at]
        phase.running -= 1
        if phase.running:
            return phase
        phase.end_us = time_us
        later, self._open[at:] = self._open[at + 1 :], []
        for inner in later:
            # The same thread left it, though the log doesn't say when.
            if inner.compile_id == compile_id and not inner.is_elsewhere:
                inner.gone_us = time_us
            else:
                self._open.append(inner)
        return phase


def _autotuned(phase: _Begun, stats: Fields) -> Autotuned:
    triton_ms = stats.get("best_triton_time")
    return Autotuned(
        operation=phase.name.removesuffix(_AUTOTUNING),
        compile_id=phase.compile_id,
        choices=int(stats["num_choices"]),
        triton_choices=int(stats["num_triton_choices"]),
        best=str(stats["best_kernel"]),
        best_us=1000 * float(stats["best_time"]),
        best_settings=stats.get("best_kernel_desc"),
        triton=stats.get("best_triton_kernel"),
        triton_us=None if triton_ms is None else 1000 * float(triton_ms),
    )


def _notes(args: Fields) -> dict[str, str]:
    texts = {
        key: ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        for key, value in args.items()
        if key != "compile_id" and value not in (None, {})
    }
    return {key: clipped(text, _MAX_NOTE) for key, text in texts.items() if 0 < len(text) < _DUMP}


def _laid_out(phases: list[_Begun]) -> Iterator[tuple[_Begun, int, int]]:
    threads: list[list[_Begun]] = [[]]
    for phase in phases:
        for open_ in threads:
            while open_ and open_[-1].latest_us <= phase.start_us:
                open_.pop()
        fitting = (
            number
            for number, open_ in enumerate(threads)
            if (number > 0 or not phase.is_elsewhere)
            and (not open_ or open_[-1].latest_us >= phase.latest_us)
        )
        thread = next(fitting, len(threads))
        if thread == len(threads):
            threads.append([])
        yield phase, thread, len(threads[thread])
        threads[thread].append(phase)


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
    return Stages(details), Phases(details), Files(details)


def picture_of(
    parts: Sequence[tuple[Part, Section]],
    recording: Recording,
    events: Events,
    details: Details | None,
) -> Picture:
    """Make the picture of several processes."""
    files: dict[str, SourceText] = {}
    drawn: dict[str, list[Any]] = {
        name: [] for name in ("graphs", "generated", "autotuned", "phases")
    }
    first_index = 0
    for part, section in parts:
        for file in section.collector(Files).finish(section.intake.origins):
            # Each process records files itself, and a late one may have had no room for a file.
            if file.file not in files or files[file.file].text is None:
                files[file.file] = file
        stages = section.collector(Stages)
        phases = section.collector(Phases)
        for name, facts in (
            ("graphs", stages.graphs(part.recording, first_index)),
            ("generated", stages.generated(part.recording, first_index)),
            ("autotuned", phases.autotuned()),
            ("phases", phases.finish()),
        ):
            drawn[name] += map(part.named, facts)
        first_index += len(part.recording.graphs)
    compile_ids = (compile_.compile_id for compile_ in recording.compiles)
    return Picture(
        files=tuple(files.values()),
        **{name: tuple(facts) for name, facts in drawn.items()},
        detailed=None if details is None else tuple(filter(details.keeps, compile_ids)),
        lanes=read_lanes(events, recording),
    )
